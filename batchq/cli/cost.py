"""`batchq cost` and `batchq budget`: what jobs have cost, and the limits of what accounts and queues may spend."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping

from batchq.cli.http_client import call, url_of
from batchq.cli.job_selection import FILTER_FLAGS, add_selection_flags, selected_ids
from batchq.cli.output import print_notice, write_line
from batchq.cli.quantities import parse_time
from batchq.cli.server_requests import fetch_job
from batchq.cli.tables import Column, Row, add_parser, print_list, prints_json, text_column
from batchq.domain.times import milliseconds
from batchq.errors import UsageError
from batchq.ports.responses import costs
from batchq.ports.responses.server import EmptyResponse
from batchq.system.escapes import escape

COST_REPORT = "/v1/batchq/costreport"
GROUPS = ("account", "user", "queue", "definition")
LIST_BUDGETS = "/v1/batchq/listbudgets"
SET_BUDGET = "/v1/batchq/setbudget"
REMOVE_BUDGET = "/v1/batchq/removebudget"
MAX_AMOUNT = 1e9


def _amount_column(title: str, read: Callable[[Row], float | None]) -> Column[Row]:
    """A column of amounts; empty where a row has none."""

    def text(row: Row) -> str:
        amount = read(row)
        return "" if amount is None else f"{amount:.2f}"

    return Column(title=title, full=text, right=True)


JOB_COLUMNS: tuple[Column[costs.JobCostResponse], ...] = (
    text_column("JOB", lambda job: job.job_id),
    _amount_column("TOTAL", lambda job: job.cost.total if job.cost else None),
    text_column("CURRENCY", lambda job: job.cost.currency if job.cost else None),
    _amount_column("GPU", lambda job: job.cost.gpu if job.cost else None),
    _amount_column("COMPUTE", lambda job: job.cost.compute if job.cost else None),
    _amount_column("STORAGE", lambda job: job.cost.storage if job.cost else None),
    _amount_column("SAVED", lambda job: job.cost.estimated_savings if job.cost else None),
)


def add_cost(command: ArgumentParser) -> None:
    """Print what jobs have cost; without a job, what all jobs that you may see cost this month.

    A job costs what it holds while its containers run, at the prices of its submission. Amounts are empty for jobs that
    were submitted when the server had no prices.

      batchq cost @                                       your latest job
      batchq cost --by user                               this month, by user
      batchq cost --by queue --since 2026-10-01 --until 2026-11-01
    """
    add_selection_flags(command, times=False)
    report = command.add_argument_group("report")
    report.add_argument("--by", choices=GROUPS, help="what the report adds up (account)")
    report.add_argument(
        "--since", type=parse_time, metavar="TIME", help="from this day on (UTC): 2026-11-01, or 7d (this month)"
    )
    report.add_argument(
        "--until", type=parse_time, metavar="TIME", help="until this time, to the end of the day (UTC) (now)"
    )


def run_cost(args: Namespace) -> None:
    is_selected = any(getattr(args, name) for name in ("jobs", "me", "held", "stopped", *FILTER_FLAGS))
    if not is_selected:
        _print_report(args)
        return
    if args.by or args.since or args.until:
        raise UsageError("--by, --since and --until are for a report: give no job and no filter")
    url = url_of(args)
    rows = [fetch_job(url, job, "/cost", answer=costs.JobCostResponse) for job in selected_ids(args, url, {})]
    print_list(args, {"jobs": rows}, rows, JOB_COLUMNS, empty="no job matches")


def _print_report(args: Namespace) -> None:
    by = args.by or GROUPS[0]
    request: dict[str, object] = {"by": by.upper()}
    for member, at in (("since", args.since), ("until", args.until)):
        if at is not None:
            request[member] = milliseconds(at)
    report = call(url_of(args), COST_REPORT, request, answer=costs.CostReportResponse)
    columns: tuple[Column[costs.CostRowResponse], ...] = (
        text_column(by.upper(), lambda row: row.name, elastic=True),
        _amount_column("TOTAL", lambda row: row.total),
        text_column("CURRENCY", lambda row: row.currency),
        _amount_column("GPU", lambda row: row.gpu),
        _amount_column("COMPUTE", lambda row: row.compute),
        _amount_column("RUNNING", lambda row: row.active),
    )
    print_list(args, report, report.rows, columns, empty="no job has run in this time")
    if report.more and not prints_json(args):
        print_notice("not all costs are in this report: name fewer days by --since and --until")


def _name(*, account: str | None, queue: str | None) -> str:
    return f"queue {queue}" if account is None else f"account {account}"


BUDGET_COLUMNS: tuple[Column[costs.BudgetResponse], ...] = (
    Column(title="BUDGET", full=lambda row: _name(account=row.account, queue=row.job_queue), elastic=True),
    _amount_column("SPENT", lambda row: row.spent),
    _amount_column("SOFT", lambda row: row.soft),
    _amount_column("HARD", lambda row: row.hard),
    text_column("CURRENCY", lambda row: row.currency),
    Column(title="PERIOD", full=lambda row: row.period.lower()),
    Column(title="REACHED", full=lambda row: ",".join(crossing.limit.lower() for crossing in row.crossings)),
)


def add_budget(command: ArgumentParser) -> None:
    """List budgets and what is spent of them. Operators and admins set and remove them.

    At the soft limit waiting jobs are cancelled and nothing more starts; at the hard limit all jobs are terminated.

      batchq budget set -A physics --soft 80 --hard 100 --period month
      batchq budget list
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    add_parser(subcommands, "list", "list the budgets", run_list_budgets, prints_list=True)
    summary = "set the budget of an account or a queue; a limit that is reached already applies at once"
    setting = add_parser(subcommands, "set", summary, run_set_budget)
    _add_key_flags(setting)
    setting.add_argument("--soft", type=_parse_amount, help="cost at which waiting jobs are cancelled and none starts")
    setting.add_argument("--hard", type=_parse_amount, help="cost at which all jobs are terminated")
    setting.add_argument(
        "--period",
        choices=["whole", "month"],
        default="whole",
        help="time that counts: all, or the month in UTC (whole)",
    )
    removing = add_parser(subcommands, "remove", "remove a budget", run_remove_budget)
    _add_key_flags(removing)


def run_list_budgets(args: Namespace) -> None:
    answer = call(url_of(args), LIST_BUDGETS, {}, answer=costs.ListBudgetsResponse)
    print_list(args, answer, answer.budgets, BUDGET_COLUMNS, empty="there are no budgets")


def run_set_budget(args: Namespace) -> None:
    if args.soft is None and args.hard is None:
        raise UsageError("give --soft, --hard or both")
    limits = {name: value for name, value in (("soft", args.soft), ("hard", args.hard)) if value is not None}
    request = {**_key(args), **limits, "period": args.period.upper()}
    budget = call(url_of(args), SET_BUDGET, request, answer=costs.BudgetResponse)
    name = _name(account=budget.account, queue=budget.job_queue)
    write_line(escape(f"budget of {name} set: {budget.spent:.2f} {budget.currency} are spent"))


def run_remove_budget(args: Namespace) -> None:
    call(url_of(args), REMOVE_BUDGET, _key(args), answer=EmptyResponse)
    write_line(escape(f"budget of {_name(account=args.account, queue=args.queue)} removed"))


def _add_key_flags(command: ArgumentParser) -> None:
    key = command.add_mutually_exclusive_group(required=True)
    key.add_argument("-A", "--account", help="the account, with all accounts below it")
    key.add_argument("-q", "--queue", help="the job queue")


def _key(args: Namespace) -> Mapping[str, str]:
    return {"account": args.account} if args.account is not None else {"jobQueue": args.queue}


def _parse_amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_AMOUNT:
        raise ArgumentTypeError(f"{text!r} is not an amount; examples: 80, 99.50")
    return amount
