"""`batchq cost` and `batchq budget`: what jobs have cost, and the limits of what accounts and queues may spend."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.job_selection import FILTER_FLAGS, add_selection_flags, selected_ids
from batchq.cli.output import DONE, print_notice, write_line
from batchq.cli.quantities import parse_time
from batchq.cli.server_requests import Page, Row, job_endpoint
from batchq.cli.tables import Column, add_output_flags, print_list, prints_json, text_column
from batchq.domain.times import milliseconds
from batchq.errors import UsageError
from batchq.system.escapes import escape

COST_REPORT = "/v1/batchq/costreport"
GROUPS = ("account", "user", "queue", "definition")
LIST_BUDGETS = "/v1/batchq/listbudgets"
SET_BUDGET = "/v1/batchq/setbudget"
REMOVE_BUDGET = "/v1/batchq/removebudget"
MAX_AMOUNT = 1e9


def _amount_column(title: str, member: str) -> Column:
    """A column of amounts; empty where the row has none."""
    return Column(title=title, full=lambda row: _amount(row.get(member)), right=True)


_CURRENCY = Column(title="CURRENCY", full=lambda row: str(row.get("currency") or ""))
_PARTS = (_amount_column("GPU", "gpu"), _amount_column("COMPUTE", "compute"))
JOB_COLUMNS = (
    text_column("JOB", "jobId"),
    _amount_column("TOTAL", "total"),
    _CURRENCY,
    *_PARTS,
    _amount_column("STORAGE", "storage"),
    _amount_column("SAVED", "estimatedSavings"),
)


def add_cost(command: ArgumentParser) -> None:
    """Print what jobs have cost; without a job, what all jobs that you may see cost this month.

    A job costs what it holds while its containers run, at the prices of its submission. Amounts are empty for jobs that
    were submitted when the server had no prices.

      batchq cost @                                       your latest job
      batchq cost --by user                               this month, by user
      batchq cost --by queue --since 2026-10-01 --until 2026-11-01
    """
    command.set_defaults(run=run_cost)
    add_selection_flags(command, times=False)
    report = command.add_argument_group("report")
    report.add_argument("--by", choices=GROUPS, help="what the report adds up (account)")
    report.add_argument("--since", type=parse_time, help="from this day on (UTC): 2026-11-01, or 7d (this month)")
    report.add_argument("--until", type=parse_time, help="until this time, to the end of the day (UTC) (now)")
    add_server_flags(command)
    add_output_flags(command)


def run_cost(args: Namespace) -> int:
    is_selected = any(getattr(args, name) for name in ("jobs", "me", "held", *FILTER_FLAGS))
    if not is_selected:
        return _print_report(args)
    if args.by or args.since or args.until:
        raise UsageError("--by, --since and --until are for a report: give no job and no filter")
    url = url_of(args)
    answers: list[Page] = [dict(call(url, f"{job_endpoint(job)}/cost")) for job in selected_ids(args, url, {})]
    rows: list[Row] = [{"jobId": answer["jobId"], **(answer["cost"] or {})} for answer in answers]
    print_list(args, {"jobs": answers}, rows, JOB_COLUMNS)
    return DONE


def _print_report(args: Namespace) -> int:
    by = args.by or GROUPS[0]
    request: dict[str, object] = {"by": by.upper()}
    for member, at in (("since", args.since), ("until", args.until)):
        if at is not None:
            request[member] = milliseconds(at)
    answer: Page = dict(call(url_of(args), COST_REPORT, request))
    name = Column(title=by.upper(), full=lambda row: str(row["name"]), elastic=True)
    columns = (name, _amount_column("TOTAL", "total"), _CURRENCY, *_PARTS, _amount_column("RUNNING", "active"))
    print_list(args, answer, answer["rows"], columns)
    if answer["more"] and not prints_json(args):
        print_notice("not all costs are in this report: name fewer days by --since and --until")
    return DONE


def _amount(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else ""


def _name(row: Row) -> str:
    return f"account {row['account']}" if row.get("account") is not None else f"queue {row['jobQueue']}"


BUDGET_COLUMNS = (
    Column(title="BUDGET", full=_name, elastic=True),
    _amount_column("SPENT", "spent"),
    _amount_column("SOFT", "soft"),
    _amount_column("HARD", "hard"),
    text_column("CURRENCY", "currency"),
    Column(title="PERIOD", full=lambda row: str(row["period"]).lower()),
    Column(title="REACHED", full=lambda row: ",".join(str(each["limit"]).lower() for each in row["crossings"])),
)


def add_budget(command: ArgumentParser) -> None:
    """List budgets and what is spent of them. Operators and admins set and remove them.

    At the soft limit waiting jobs are cancelled and nothing more starts; at the hard limit all jobs are terminated.

      batchq budget set -A physics --soft 80 --hard 100 --period month
      batchq budget list
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    listing = subcommands.add_parser("list", help="list the budgets", description="List the budgets.")
    listing.set_defaults(run=run_list_budgets)
    add_server_flags(listing)
    add_output_flags(listing)
    setting = subcommands.add_parser(
        "set",
        help="set the budget of an account or a queue",
        description="Set the budget of an account or a queue. A limit that is reached already applies at once.",
    )
    setting.set_defaults(run=run_set_budget)
    _add_key_flags(setting)
    setting.add_argument("--soft", type=_parse_amount, help="cost at which waiting jobs are cancelled and none starts")
    setting.add_argument("--hard", type=_parse_amount, help="cost at which all jobs are terminated")
    setting.add_argument(
        "--period",
        choices=["whole", "month"],
        default="whole",
        help="time that counts: all, or the month in UTC (whole)",
    )
    add_server_flags(setting)
    removing = subcommands.add_parser("remove", help="remove a budget", description="Remove a budget.")
    removing.set_defaults(run=run_remove_budget)
    _add_key_flags(removing)
    add_server_flags(removing)


def run_list_budgets(args: Namespace) -> int:
    answer: Page = dict(call(url_of(args), LIST_BUDGETS, {}))
    print_list(args, answer, answer["budgets"], BUDGET_COLUMNS)
    return DONE


def run_set_budget(args: Namespace) -> int:
    if args.soft is None and args.hard is None:
        raise UsageError("give --soft, --hard or both")
    limits = {name: value for name, value in (("soft", args.soft), ("hard", args.hard)) if value is not None}
    budget: Page = dict(call(url_of(args), SET_BUDGET, {**_key(args), **limits, "period": args.period.upper()}))
    write_line(escape(f"budget of {_name(budget)} set: {budget['spent']:.2f} {budget['currency']} are spent"))
    return DONE


def run_remove_budget(args: Namespace) -> int:
    call(url_of(args), REMOVE_BUDGET, _key(args))
    write_line(escape(f"budget of {_name(_key(args))} removed"))
    return DONE


def _add_key_flags(command: ArgumentParser) -> None:
    key = command.add_mutually_exclusive_group(required=True)
    key.add_argument("-A", "--account", help="the account, with all accounts below it")
    key.add_argument("-q", "--queue", help="the job queue")


def _key(args: Namespace) -> Row:
    return {"account": args.account} if args.account is not None else {"jobQueue": args.queue}


def _parse_amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_AMOUNT:
        raise ArgumentTypeError(f"{text!r} is not an amount; examples: 80, 99.50")
    return amount
