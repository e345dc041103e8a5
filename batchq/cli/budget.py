"""`batchq budget`: list, set and remove the budgets of accounts and queues."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from batchq.cli.cost import amount_column
from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.output import DONE, escape, write_line
from batchq.cli.server_requests import Page, Row
from batchq.cli.tables import Column, add_output_flags, print_list
from batchq.errors import Misused

LIST_BUDGETS = "/v1/batchq/listbudgets"
SET_BUDGET = "/v1/batchq/setbudget"
REMOVE_BUDGET = "/v1/batchq/removebudget"
MAX_AMOUNT = 1e9


def _name(it: Row) -> str:
    return f"account {it['account']}" if it.get("account") is not None else f"queue {it['jobQueue']}"


COLUMNS = (
    Column(title="BUDGET", full=_name, elastic=True),
    amount_column("SPENT", "spent"),
    amount_column("SOFT", "soft"),
    amount_column("HARD", "hard"),
    Column(title="CURRENCY", full=lambda it: str(it["currency"])),
    Column(title="PERIOD", full=lambda it: str(it["period"]).lower()),
    Column(title="REACHED", full=lambda it: ",".join(str(each["limit"]).lower() for each in it["crossings"])),
)


def add_budget(command: ArgumentParser) -> None:
    """List budgets and what is spent of them. Operators and admins set and remove them.

    At the soft limit waiting jobs are cancelled and nothing more starts; at the hard limit all jobs are terminated.
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    listing = subcommands.add_parser("list", help="list the budgets", description="List the budgets.")
    listing.set_defaults(run=list_budgets)
    add_server_flags(listing)
    add_output_flags(listing)
    setting = subcommands.add_parser(
        "set",
        help="set the budget of an account or a queue",
        description="Set the budget of an account or a queue. A limit that is reached already applies at once.",
    )
    setting.set_defaults(run=set_budget)
    _add_key_flags(setting)
    setting.add_argument("--soft", type=_amount, help="cost at which waiting jobs are cancelled and none starts (none)")
    setting.add_argument("--hard", type=_amount, help="cost at which all jobs are terminated (none)")
    setting.add_argument(
        "--period",
        choices=["whole", "month"],
        default="whole",
        help="time that counts: all, or the month in UTC (whole)",
    )
    add_server_flags(setting)
    removing = subcommands.add_parser("remove", help="remove a budget", description="Remove a budget.")
    removing.set_defaults(run=remove_budget)
    _add_key_flags(removing)
    add_server_flags(removing)


def list_budgets(args: Namespace) -> int:
    answer: Page = dict(call(url_of(args), LIST_BUDGETS, {}))
    print_list(args, answer, answer["budgets"], COLUMNS)
    return DONE


def set_budget(args: Namespace) -> int:
    if args.soft is None and args.hard is None:
        raise Misused("give --soft, --hard or both")
    limits = {name: it for name, it in (("soft", args.soft), ("hard", args.hard)) if it is not None}
    budget: Page = dict(call(url_of(args), SET_BUDGET, {**_key(args), **limits, "period": args.period.upper()}))
    write_line(escape(f"budget of {_name(budget)} set: {budget['spent']:.2f} {budget['currency']} are spent"))
    return DONE


def remove_budget(args: Namespace) -> int:
    call(url_of(args), REMOVE_BUDGET, _key(args))
    write_line(escape(f"budget of {_name(_key(args))} removed"))
    return DONE


def _add_key_flags(command: ArgumentParser) -> None:
    key = command.add_mutually_exclusive_group(required=True)
    key.add_argument("-A", "--account", help="the account, with all accounts below it")
    key.add_argument("-q", "--queue", help="the job queue")


def _key(args: Namespace) -> Row:
    return {"account": args.account} if args.account is not None else {"jobQueue": args.queue}


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_AMOUNT:
        raise ArgumentTypeError(f"{text!r} is not an amount; examples: 80, 99.50")
    return amount
