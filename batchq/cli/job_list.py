"""`batchq list`: prints jobs, running ones first, and otherwise newest first."""

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from batchq.cli.config import defaults
from batchq.cli.http_client import url_of
from batchq.cli.job_columns import ALL_COLUMNS, DEFAULT_COLUMNS, job_columns, reason_of_row
from batchq.cli.job_handles import Several
from batchq.cli.job_selection import (
    STATES,
    Filters,
    add_reason_filter,
    add_selection_flags,
    matches_reason,
    selection_of,
)
from batchq.cli.output import is_terminal, print_notice, write_line
from batchq.cli.progress import array_progress, group_progress, has_begun, summary_line
from batchq.cli.quantities import clock_time, local_time, now
from batchq.cli.server_requests import fetch_groups, fetch_jobs
from batchq.cli.tables import OutputForm, parse_names, print_list, prints_json, text_column
from batchq.domain.enums import ACTIVE, Status
from batchq.domain.times import milliseconds
from batchq.errors import UsageError
from batchq.ports.responses.groups import GroupRow
from batchq.ports.responses.jobs import JobRow, SearchResponse
from batchq.system.escapes import escape

LIMIT = 100  # jobs
GROUPS_SHOWN = 20  # groups above the jobs
GROUP_LIMIT = 10_000  # jobs that are counted with --group-by
RECENT = timedelta(hours=1)  # in which a job must have ended to be listed without a filter of states or times
WATCH_INTERVAL = 2.0  # seconds
GROUP_FILTERS = {"mine", "jobQueues"}  # members of a request that listgroups has too
CLEAR = "\x1b[H\x1b[2J"
#: Of each value of --group-by: the group of a row.
GROUPS: Mapping[str, Callable[[JobRow], str]] = {
    "name": lambda job: job.job_name,
    "queue": lambda job: job.job_queue,
    "user": lambda job: job.user,
    "account": lambda job: job.account,
    "definition": lambda job: job.job_definition,
    "state": lambda job: job.status,
    "reason": reason_of_row,
}


def add_list(command: ArgumentParser) -> None:
    """List jobs: your unfinished jobs, running ones first, and those that ended in the last hour. Newest first.

    A group or array that runs is one line above the jobs. `batchq list NAME` lists the jobs of a group.

    batchq list -t pending                     what waits, and why
    batchq list -q gpu -U                      the jobs of all users in the queue gpu
    batchq list -t FAILED --since 1d -o ids    the ids of yesterday's failures, one a line
    batchq list -a --sort cpu:desc -o csv      a table for other programs
    batchq list -a --group-by name             numbers of jobs by name and state
    """
    add_selection_flags(command, own=True)
    add_reason_filter(command)
    command.add_argument("-a", "--all", action="store_true", help="jobs of all states, also those that ended long ago")
    command.add_argument("--children", action="store_true", help="list the children of arrays, too")
    command.add_argument("--limit", type=int, metavar="N", help=f"maximum number of jobs ({LIMIT})")
    command.add_argument("--group-by", choices=GROUPS, help="print numbers of jobs, not the jobs")
    command.add_argument("--watch", action="store_true", help="print the list again every 2 seconds, until Ctrl-C")


def run_list(args: Namespace) -> None:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit must be at least 1")
    if args.watch and (not is_terminal() or args.output or args.query):
        raise UsageError("--watch needs a terminal, and neither -o nor --query")
    job_columns(now(), _column_names(args))  # unknown names are reported before a request
    url = url_of(args)
    filters = selection_of(args, url, several=Several.ALL)
    while True:
        groups = _groups(args, url, filters)
        page = _search(args, url, filters | ({"ungrouped": True} if groups else {}))
        arrays = [job for job in page.jobs if has_begun(job)] if _collapses(args, filters) else []
        page = replace(page, jobs=tuple(job for job in page.jobs if job not in arrays))
        if args.watch:
            write_line(CLEAR, end="", flush=False)
        for group in groups:
            write_line(escape(summary_line(group_progress(group))), flush=False)
        for array in arrays:
            write_line(escape(summary_line(array_progress(array))), flush=False)
        if page.jobs or not (groups or arrays):
            _print(args, page)
        if not args.watch:
            return
        time.sleep(WATCH_INTERVAL)


def _groups(args: Namespace, url: str, filters: Filters) -> Sequence[GroupRow]:
    """The groups that stand for their jobs: those that are unfinished or ended recently."""
    if not _collapses(args, filters):
        return ()
    recent = milliseconds(now() - RECENT)
    groups = fetch_groups(url, endedAfter=recent, maxResults=GROUPS_SHOWN, **filters)
    if len(groups) == GROUPS_SHOWN:
        print_notice(f"the newest {GROUPS_SHOWN} groups are shown")
    return groups


def _collapses(args: Namespace, filters: Filters) -> bool:
    """Whether one line stands for a group or a running array: not for what programs read, nor with other filters."""
    if args.output or args.group_by or args.children or args.all or args.reasons or args.query or args.sort:
        return False
    return not filters.keys() - GROUP_FILTERS


def _search(args: Namespace, url: str, filters: Filters) -> SearchResponse:
    """The jobs of all searches that the flags require, each newest first, as one response."""
    limit = args.limit or (GROUP_LIMIT if args.group_by else LIMIT)
    searched = GROUP_LIMIT if args.reasons else limit
    pages = [fetch_jobs(url, request, limit=searched) for request in _requests(args, dict(filters))]
    found = {job.job_id: job for page in pages for job in page.jobs}  # a job may end between two searches
    jobs = [job for job in found.values() if matches_reason(args, job)]
    jobs.sort(key=lambda job: job.status not in ACTIVE)
    is_complete = len(jobs) <= limit and all(page.complete for page in pages)
    return replace(pages[-1], jobs=tuple(jobs[:limit]), complete=is_complete)


def _requests(args: Namespace, filters: Filters) -> list[Filters]:
    """One request, or three without a filter of states or times: active jobs, those that wait, and recently ended ones.

    So a limit leaves out jobs that wait, and no active ones.
    """
    if args.children:
        filters["children"] = True
    if not (args.output == OutputForm.IDS or args.group_by or args.reasons):
        filters["explain"] = True
    narrowed = (args.jobs, args.states, args.since, args.until, args.held, args.stopped, args.environments)
    if args.all or any(narrowed):
        return [filters]
    recent = milliseconds(now() - RECENT)
    return [
        filters | {"jobStatuses": STATES["RUNNING"]},
        filters | {"jobStatuses": STATES["PENDING"]},
        filters | {"jobStatuses": STATES["FINISHED"], "endedAfter": recent},
    ]


def _print(args: Namespace, page: SearchResponse) -> None:
    jobs = page.jobs
    if args.group_by:
        _print_groups(args, jobs)
    else:
        names, present = _column_names(args), now()
        more = [name for name in ALL_COLUMNS if name not in names]
        print_list(
            args,
            page,
            jobs,
            job_columns(present, names),
            more=job_columns(present, more),
            ids=job_columns(present, ("job",))[0],
        )
    _print_remarks(args, page)


def _column_names(args: Namespace) -> Sequence[str]:
    """The columns of the flag, else of the config file, else the usual ones. Raises UsageError."""
    configured = defaults(args.config).get("columns")
    names = args.columns or (configured and parse_names(configured)) or DEFAULT_COLUMNS
    return [name.lower() for name in names]


def _print_remarks(args: Namespace, page: SearchResponse) -> None:
    """Print on stderr what the list does not show."""
    back = local_time(page.searched_back_to)
    if not page.complete:
        until = f", searched back to {clock_time(back)}" if back else ""
        print_notice(f"more jobs may match{until}; --limit prints more")
    elif not page.jobs and not prints_json(args):
        print_notice("no job matches")


def _print_groups(args: Namespace, jobs: Sequence[JobRow]) -> None:
    group_of = GROUPS[args.group_by]
    counts: dict[str, Counter[str]] = {}
    for job in jobs:
        counts.setdefault(group_of(job), Counter())[job.status] += 1
    rows: list[Mapping[str, object]] = [
        {"group": group, "jobs": count.total(), **count}
        for group, count in sorted(counts.items(), key=lambda item: -item[1].total())
    ]
    members = ("jobs", *(status for status in Status if any(status in row for row in rows)))
    numbers = [text_column(member, _number(member), right=True) for member in members]
    columns = [text_column(args.group_by.upper(), lambda row: row["group"], elastic=True), *numbers]
    print_list(args, {"groups": rows}, rows, columns)


def _number(member: str) -> Callable[[Mapping[str, object]], object]:
    return lambda row: row.get(member, 0)
