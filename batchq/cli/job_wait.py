"""`batchq wait`: waits until jobs have ended, and reports their results by the exit status.

Other commands that wait for a job use its exit status, and the sentence about its end, too.
"""

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from batchq.cli.desktop import notify_desktop
from batchq.cli.groups import wait_for_group
from batchq.cli.http_client import Patience, url_of
from batchq.cli.job_columns import cost_words, reason_of_row, use_of
from batchq.cli.job_selection import (
    STATES,
    Filters,
    add_reason_filter,
    add_selection_flags,
    has_selection,
    matches_reason,
    selection_of,
)
from batchq.cli.output import (
    DONE,
    EXIT_STATUSES,
    INTERVAL,
    NO_EXIT_CODE,
    REFUSED,
    TIMED_OUT,
    StatusLine,
    print_error,
    print_notice,
)
from batchq.cli.progress import ProgressMeter
from batchq.cli.quantities import elapsed, format_long_duration, local_time, parse_duration
from batchq.cli.server_requests import fetch_all_jobs, fetch_cost, fetch_rows
from batchq.cli.tables import print_json, prints_json
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.progress import progress_of
from batchq.domain.use import main_use_words
from batchq.errors import ServerUnavailable, UsageError
from batchq.ports.responses.costs import CostResponse
from batchq.ports.responses.jobs import JobRow

TIME_LIMIT = "Job attempt duration exceeded timeout"  # AWS's statusReason
HIGHEST_EXIT_CODE = 255


FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two requests
MAX_JOBS = 10_000
NOT_CREATED = "not created"  # children of an array that ended before
MAX_REPORTED = 20  # ends of jobs that are printed, one a line


def add_wait(command: ArgumentParser) -> None:
    """Wait until jobs have ended. With filters: the unfinished jobs that match, and with --since also finished ones.

    batchq wait @ --notify                          your latest job; its exit code is that of the command
    batchq wait -n 'align-*' --fail-fast            all jobs with these names, until one fails
    batchq wait 8f2c51a7 77ab01c9 --any --timeout 1h
    """
    command.epilog = EXIT_STATUSES
    add_selection_flags(command, own=True)
    add_reason_filter(command)
    command.add_argument("--any", action="store_true", help="end when one of the jobs has ended")
    command.add_argument("--fail-fast", action="store_true", help="end when one of the jobs has failed")
    command.add_argument(
        "--timeout", type=parse_duration, metavar="DURATION", help="end with status 124 after this time: 90s, 15m, 1h"
    )
    text = "show a notification on this desktop at the end, or else ring the bell of the terminal"
    command.add_argument("--notify", action="store_true", help=text)


def run_wait(args: Namespace) -> int:
    if not has_selection(args):
        raise UsageError("no jobs are selected: give a job or a filter; --me selects all your unfinished jobs")
    url = url_of(args)
    deadline = None if args.timeout is None else elapsed() + args.timeout.total_seconds()
    filters = selection_of(args, url, mixed=True)
    groups = filters.pop("groups", [])
    if groups and "jobs" in filters and (args.any or args.fail_fast or prints_json(args)):
        raise UsageError("--any, --fail-fast and -o json take groups or jobs: use one command for each")
    statuses = [wait_for_group(url, group, args, deadline=deadline) for group in groups]
    if not groups:
        status = _wait_for_jobs(args, url, filters, deadline)
    elif "jobs" in filters:
        statuses.append(_wait_for_jobs(args, url, filters, deadline))
        status = TIMED_OUT if TIMED_OUT in statuses else REFUSED if any(statuses) else DONE
    else:
        status = max(statuses)
    if args.notify:
        notify_desktop(f"{', '.join(args.jobs) or 'jobs'}: {_words_of(status)}")
    return status


def _words_of(status: int) -> str:
    """The text of a notification."""
    if status == TIMED_OUT:
        return "the time limit has passed"
    return "SUCCEEDED" if status == DONE else f"FAILED, exit status {status}"


def _wait_for_jobs(args: Namespace, url: str, filters: Filters, deadline: float | None) -> int:
    rows = _selected(args, url, filters)
    if not rows:
        print_notice("no job matches")
        return DONE
    try:
        is_over = _wait(args, url, rows, deadline)
    except ServerUnavailable:
        if deadline is None or elapsed() < deadline:
            raise
        is_over = False
    if prints_json(args):
        print_json(args, {"jobs": list(rows.values())})
    return _report(url, rows, is_over=is_over)


def _selected(args: Namespace, url: str, filters: Filters) -> dict[str, JobRow]:
    """The jobs by id. Raises NotFound for a job that does not exist, UsageError for too many."""
    if args.jobs:
        rows = fetch_rows(url, filters["jobs"])
    else:
        if not (args.states or args.since or args.until):
            filters["jobStatuses"] = STATES["PENDING"] + STATES["RUNNING"]
        jobs = fetch_all_jobs(url, filters, at_most=MAX_JOBS)
        rows = [job for job in jobs if matches_reason(args, job)]
    return {row.job_id: row for row in rows}


def _wait(args: Namespace, url: str, rows: dict[str, JobRow], deadline: float | None) -> bool:
    """Read the rows again until the condition of the flags holds. False if the deadline passes before."""
    patience, pause, line = Patience(deadline=deadline), FIRST_PAUSE, StatusLine(delay=INTERVAL)
    meter = ProgressMeter()
    while True:
        line.show(_progress(list(rows.values()), meter))
        if _is_over(args, list(rows.values())):
            line.clear()
            return True
        remaining = LONGEST_PAUSE if deadline is None else deadline - elapsed()
        if remaining <= 0:
            line.clear()
            return False
        time.sleep(min(pause, remaining))
        pause = min(1.5 * pause, LONGEST_PAUSE)
        unfinished = [job_id for job_id, row in rows.items() if row.status not in FINISHED]
        rows.update({row.job_id: row for row in patience.call(lambda: fetch_rows(url, unfinished))})  # noqa: B023


def _is_over(args: Namespace, rows: Sequence[JobRow]) -> bool:
    """Whether all jobs have ended; with `--any` one of them; with `--fail-fast` one that failed."""
    ended = [row for row in rows if row.status in FINISHED]
    failed = args.fail_fast and any(row.status is Status.FAILED for row in ended)
    return bool(failed or (args.any and ended) or len(ended) == len(rows))


def _report(url: str, rows: dict[str, JobRow], *, is_over: bool) -> int:
    """Print the ends of the jobs on stderr, and return the exit status."""
    ended = [row for row in rows.values() if row.status in FINISHED]
    failed = [row for row in ended if row.status is Status.FAILED]
    costs = _costs(url, ended)
    cost_of = {row.job_id: cost for row, cost in zip(ended, costs, strict=False)}
    for row in (failed if len(rows) > 1 else ended)[:MAX_REPORTED]:
        print_notice(outcome_line(row, cost_of.get(row.job_id)))
    if len(rows) > 1:
        others = len(rows) - len(ended)
        numbers = f"{len(ended) - len(failed)} SUCCEEDED, {len(failed)} FAILED"
        children = sum((_children_of(row) for row in rows.values()), Counter())
        total = _total(costs) if len(costs) == len(ended) else ""
        print_notice(numbers + (f", {others} unfinished" if others else "") + _children_text(children) + total)
    if not is_over:
        return print_error("the time limit of --timeout has passed", TIMED_OUT)
    if len(rows) == 1:
        return exit_status_of(ended[0])
    return REFUSED if failed else DONE


def _progress(rows: Sequence[JobRow], meter: ProgressMeter) -> str:
    """The progress of the jobs, with the children of an array in its place, and the job that failed last."""
    counts = sum((_children_of(row) or Counter({row.status: 1}) for row in rows), Counter[str]())
    failed = [row for row in rows if row.status is Status.FAILED or _children_of(row)["FAILED"]]
    statuses = {status: counts[status] for status in Status}
    size, stopped = counts.total() - counts[NOT_CREATED], sum(map(_stopped_of, rows))
    name = rows[0].job_name if len(rows) == 1 else f"{len(rows)} jobs"
    last = f"; {failed[-1].job_name} FAILED" if failed and len(rows) > 1 else ""
    return f"{meter.line(progress_of(name, size, statuses, stopped=stopped))}{last}"


def _stopped_of(row: JobRow) -> int:
    """How many jobs of the row were cancelled or terminated: children of an array, or the job itself."""
    return row.stopped_children if _children_of(row) else int(row.status is Status.FAILED and row.stopped_by_user)


def _children_of(row: JobRow) -> Counter[str]:
    """The number of children of an array in each status; those that its end kept from being created: NOT_CREATED."""
    if not row.status_summary or not row.array_size:
        return Counter()
    counts = Counter[str]({status: count for status, count in row.status_summary.items() if count})
    rest = NOT_CREATED if row.status in FINISHED else row.status
    return counts + Counter({rest: row.array_size - counts.total()})


def _children_text(counts: Counter[str]) -> str:
    """`; children: 112 SUCCEEDED, 3 FAILED`; empty without children."""
    order = (*STATES["FINISHED"], *STATES["PENDING"], *STATES["RUNNING"], NOT_CREATED)
    parts = [f"{counts[status]} {status}" for status in sorted(counts, key=order.index)]
    return f"; children: {', '.join(parts)}" if parts else ""


def _costs(url: str, rows: Sequence[JobRow]) -> list[CostResponse]:
    """The costs of the first jobs, until one has no prices: a request for each of more jobs would delay the command."""
    costs = list[CostResponse]()
    for row in rows if len(rows) <= MAX_REPORTED else ():
        cost = fetch_cost(url, row.job_id)
        if cost is None:
            break
        costs.append(cost)
    return costs


def _total(costs: Sequence[CostResponse]) -> str:
    """`; 0.06 EUR`, what the jobs cost together; empty without costs, and for several currencies."""
    if len({cost.currency for cost in costs}) != 1:
        return ""
    return f"; {cost_words(replace(costs[0], total=sum(cost.total for cost in costs)))}"


def exit_status_of(row: JobRow) -> int:
    """The exit status of a command that waits for this finished job.

    The job's own exit code; TIMED_OUT if its time limit ended it; NO_EXIT_CODE if it never started or was stopped. An
    array has no exit code: DONE or REFUSED.
    """
    if row.status is Status.SUCCEEDED:
        return DONE
    if row.array_size is not None:
        return REFUSED
    if (row.status_reason or "").startswith(TIME_LIMIT):
        return TIMED_OUT
    was_terminated = row.stop_order is not None and row.stop_order.kind is StopKind.TERMINATE
    if was_terminated or row.exit_code is None or not 0 < row.exit_code <= HIGHEST_EXIT_CODE:
        return NO_EXIT_CODE
    return row.exit_code


def outcome_line(row: JobRow, cost: CostResponse | None) -> str:
    """`train SUCCEEDED after 42 s; 1.7 of 2 vCPUs; peak 812 of 1,024 MiB; 0.02 EUR`, why it failed, and children.

    `cost` None: the job has no prices, or the cost was not requested.
    """
    started, stopped, use = local_time(row.started_at), local_time(row.stopped_at), use_of(row.use)
    took = f" after {format_long_duration(stopped - started)}" if started and stopped else ""
    parts = main_use_words(use, started, vcpus=row.vcpus, memory_mib=row.memory_mib) if use and started else []
    used = "".join(f"; {part}" for part in (*parts, *([cost_words(cost)] if cost else [])))
    why = "" if row.status is Status.SUCCEEDED else reason_of_row(row)
    return f"{row.job_name} {row.status}{took}{used}{why and f': {why}'}{_children_text(_children_of(row))}"
