"""`batchq cost`: what jobs cost, or what all jobs of some time cost by account, user, queue or definition."""

from argparse import ArgumentParser, Namespace
from urllib.parse import quote

from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.job_handles import HELP, resolve_jobs
from batchq.cli.output import DONE, print_notice
from batchq.cli.server_requests import Page, Row
from batchq.cli.tables import Column, add_output_flags, print_list, prints_json
from batchq.cli.times import milliseconds, parse_time
from batchq.errors import Misused

COST_REPORT = "/v1/batchq/costreport"
GROUPS = ("account", "user", "queue", "definition")
EXAMPLES = """\
examples:
  batchq cost @                                       your latest job
  batchq cost --by user                               this month, by user
  batchq cost --by queue --since 2026-10-01 --until 2026-11-01
"""


def amount_column(title: str, member: str) -> Column:
    """A column of amounts; empty where the row has none."""
    return Column(title=title, full=lambda it: _amount(it.get(member)), right=True)


_CURRENCY = Column(title="CURRENCY", full=lambda it: str(it.get("currency") or ""))
_PARTS = (amount_column("GPU", "gpu"), amount_column("COMPUTE", "compute"))
JOB_COLUMNS = (
    Column(title="JOB", full=lambda it: str(it["jobId"])),
    amount_column("TOTAL", "total"),
    _CURRENCY,
    *_PARTS,
    amount_column("STORAGE", "storage"),
    amount_column("SAVED", "estimatedSavings"),
)


def add_cost(command: ArgumentParser) -> None:
    """Print what jobs have cost; without a job, what all jobs that you may see cost this month.

    A job costs what it holds while its containers run, at the prices of its submission. Amounts are empty for jobs that
    were submitted when the server had no prices.
    """
    command.set_defaults(run=print_costs)
    command.epilog = EXAMPLES
    command.add_argument("jobs", nargs="*", metavar="JOB", help=HELP)
    report = command.add_argument_group("report")
    report.add_argument("--by", choices=GROUPS, help="what the report adds up (account)")
    report.add_argument("--since", type=parse_time, help="from this day on (UTC): 2026-11-01, or 7d (this month)")
    report.add_argument("--until", type=parse_time, help="until this time, to the end of the day (UTC) (now)")
    add_server_flags(command)
    add_output_flags(command)


def print_costs(args: Namespace) -> int:
    if not args.jobs:
        return _print_report(args)
    if args.by or args.since or args.until:
        raise Misused("--by, --since and --until are for a report: give no job")
    url = url_of(args)
    answers: list[Page] = [
        dict(call(url, f"/v1/batchq/jobs/{quote(it, safe='')}/cost")) for it in resolve_jobs(url, args.jobs)
    ]
    rows: list[Row] = [{"jobId": it["jobId"], **(it["cost"] or {})} for it in answers]
    print_list(args, {"jobs": answers}, rows, JOB_COLUMNS)
    return DONE


def _print_report(args: Namespace) -> int:
    by = args.by or GROUPS[0]
    request: dict[str, object] = {"by": by.upper()}
    for member, at in (("since", args.since), ("until", args.until)):
        if at is not None:
            request[member] = milliseconds(at)
    answer: Page = dict(call(url_of(args), COST_REPORT, request))
    name = Column(title=by.upper(), full=lambda it: str(it["name"]), elastic=True)
    columns = (name, amount_column("TOTAL", "total"), _CURRENCY, *_PARTS, amount_column("RUNNING", "active"))
    print_list(args, answer, answer["rows"], columns)
    if answer["more"] and not prints_json(args):
        print_notice("not all costs are in this report: name fewer days by --since and --until")
    return DONE


def _amount(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else ""
