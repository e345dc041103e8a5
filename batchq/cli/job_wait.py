"""`batchq wait`: waits until jobs have ended, and reports their results by the exit status.

Other commands that wait for a job use its exit status, and the sentence about its end, too.
"""

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import Any

from batchq.cli.http_client import Patience, add_server_flags, url_of
from batchq.cli.job_columns import reason_of_row, status
from batchq.cli.job_selection import (
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
from batchq.cli.quantities import elapsed, format_long_duration, local_time, parse_duration
from batchq.cli.server_requests import ACTIVE, FINISHED, UNFINISHED, Row, fetch_jobs, fetch_rows
from batchq.cli.tables import add_output_flags, print_json, prints_json
from batchq.errors import ServerUnavailable, UsageError

#: A job as DescribeJobs returns it.
Job = dict[str, Any]
TIME_LIMIT = "Job attempt duration exceeded timeout"  # AWS's statusReason
HIGHEST_EXIT_CODE = 255


FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two requests
MAX_JOBS = 10_000
NOT_CREATED = "not created"  # children of an array that ended before
MAX_REPORTED = 20  # ends of jobs that are printed, one a line


def add_wait(command: ArgumentParser) -> None:
    """Wait until jobs have ended. With filters: the unfinished jobs that match, and with --since also finished ones.

    batchq wait @                                   your latest job; its exit code is that of the command
    batchq wait -n 'align-*' --fail-fast            all jobs with these names, until one fails
    batchq wait 8f2c51a7 77ab01c9 --any --timeout 1h
    """
    command.epilog = EXIT_STATUSES
    command.set_defaults(run=run_wait)
    add_selection_flags(command, own=True)
    add_reason_filter(command)
    command.add_argument("--any", action="store_true", help="end when one of the jobs has ended")
    command.add_argument("--fail-fast", action="store_true", help="end when one of the jobs has failed")
    command.add_argument(
        "--timeout", type=parse_duration, metavar="DURATION", help="end with status 124 after this time: 90s, 15m, 1h"
    )
    add_output_flags(command)
    add_server_flags(command)


def run_wait(args: Namespace) -> int:
    if not has_selection(args):
        raise UsageError("no jobs are selected: give a job or a filter; --me selects all your unfinished jobs")
    url = url_of(args)
    deadline = None if args.timeout is None else elapsed() + args.timeout.total_seconds()
    rows = _selected(args, url)
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
    return _report(rows, is_over=is_over)


def _selected(args: Namespace, url: str) -> dict[str, Row]:
    """The jobs by id. Raises NotFound for a job that does not exist, UsageError for too many."""
    filters = selection_of(args, url)
    if args.jobs:
        rows = fetch_rows(url, filters["jobs"])
    else:
        if not (args.states or args.since or args.until):
            filters["jobStatuses"] = UNFINISHED
        page = fetch_jobs(url, filters, limit=MAX_JOBS)
        if "nextToken" in page:
            raise UsageError(f"more than {MAX_JOBS} jobs match; use further filters")
        rows = [job for job in page["jobs"] if matches_reason(args, job)]
    return {str(row["jobId"]): row for row in rows}


def _wait(args: Namespace, url: str, rows: dict[str, Row], deadline: float | None) -> bool:
    """Read the rows again until the condition of the flags holds. False if the deadline passes before."""
    patience, pause, line = Patience(deadline=deadline), FIRST_PAUSE, StatusLine(delay=INTERVAL)
    while True:
        line.show(_progress(list(rows.values())))
        if _is_over(args, list(rows.values())):
            line.clear()
            return True
        remaining = LONGEST_PAUSE if deadline is None else deadline - elapsed()
        if remaining <= 0:
            line.clear()
            return False
        time.sleep(min(pause, remaining))
        pause = min(1.5 * pause, LONGEST_PAUSE)
        unfinished = [job_id for job_id, row in rows.items() if status(row) not in FINISHED]
        rows.update({str(row["jobId"]): row for row in patience.call(lambda: fetch_rows(url, unfinished))})  # noqa: B023


def _is_over(args: Namespace, rows: Sequence[Row]) -> bool:
    """Whether all jobs have ended; with `--any` one of them; with `--fail-fast` one that failed."""
    ended = [row for row in rows if status(row) in FINISHED]
    failed = args.fail_fast and any(status(row) == "FAILED" for row in ended)
    return bool(failed or (args.any and ended) or len(ended) == len(rows))


def _report(rows: dict[str, Row], *, is_over: bool) -> int:
    """Print the ends of the jobs on stderr, and return the exit status."""
    ended = [row for row in rows.values() if status(row) in FINISHED]
    failed = [row for row in ended if status(row) == "FAILED"]
    for row in (failed if len(rows) > 1 else ended)[:MAX_REPORTED]:
        print_notice(outcome_line(row))
    if len(rows) > 1:
        others = len(rows) - len(ended)
        numbers = f"{len(ended) - len(failed)} SUCCEEDED, {len(failed)} FAILED"
        children = sum((_children(row) for row in rows.values()), Counter())
        print_notice(numbers + (f", {others} unfinished" if others else "") + _children_text(children))
    if not is_over:
        return print_error("the time limit of --timeout has passed", TIMED_OUT)
    if len(rows) == 1:
        return exit_status_of(ended[0])
    return REFUSED if failed else DONE


def _progress(rows: Sequence[Row]) -> str:
    """`112/200 ended, 3 FAILED: grid`: jobs, with the children of an array in its place."""
    counts = sum((_children(row) or Counter({status(row): 1}) for row in rows), Counter[str]())
    failed = [row for row in rows if status(row) == "FAILED" or _children(row)["FAILED"]]
    last = f", {counts['FAILED']} FAILED: {failed[-1].get('jobName')}" if counts["FAILED"] else ""
    running = sum(counts[text] for text in ACTIVE)
    active = f", {running} running" if running and any(map(_children, rows)) else ""
    return f"{counts['SUCCEEDED'] + counts['FAILED'] + counts[NOT_CREATED]}/{counts.total()} ended{last}{active}"


def _children(row: Row) -> Counter[str]:
    """The number of children of an array in each status; those that its end kept from being created: NOT_CREATED."""
    size, statuses = row.get("arraySize", 0), row.get("statusSummary", {})
    counts = Counter({other_status: statuses[other_status] for other_status in statuses if statuses[other_status]})
    if not statuses or not size:
        return Counter()
    rest = NOT_CREATED if status(row) in FINISHED else status(row)
    return counts + Counter({rest: size - counts.total()})


def _children_text(counts: Counter[str]) -> str:
    """`; children: 112 SUCCEEDED, 3 FAILED`; empty without children."""
    order = (*FINISHED, *UNFINISHED, NOT_CREATED)
    parts = [f"{counts[count]} {count}" for count in sorted(counts, key=order.index)]
    return f"; children: {', '.join(parts)}" if parts else ""


def is_array(job: Job) -> bool:
    return "size" in job.get("arrayProperties", {})


def to_row(job: Job, *, sentence: str) -> Row:
    """The members that `exit_status_of` and `outcome_line` read. `sentence`: the server's explanation; empty: none."""
    copied = ("jobId", "jobName", "status", "statusReason", "startedAt", "stoppedAt")
    members = {
        **{text: job.get(text) for text in copied},
        "exitCode": _exit_code(job),
        "arraySize": job.get("arrayProperties", {}).get("size"),
        "statusSummary": job.get("arrayProperties", {}).get("statusSummary"),
        "stopOrder": {"kind": "TERMINATE"} if job.get("isTerminated") else None,
        "why": {"sentence": sentence} if sentence else None,
    }
    return {member: value for member, value in members.items() if value is not None}


def _exit_code(job: Job) -> int | None:
    """The exit code of the last attempt; None if there was no attempt, or it has none."""
    attempts = job.get("attempts", [])
    code = attempts[-1]["container"].get("exitCode") if attempts else None
    return code if isinstance(code, int) else None


def exit_status_of(job: Row) -> int:
    """The exit status of a command that waits for this finished job.

    The job's own exit code; TIMED_OUT if its time limit ended it; NO_EXIT_CODE if it never started or was stopped. An
    array has no exit code: DONE or REFUSED.
    """
    if status(job) == "SUCCEEDED":
        return DONE
    if "arraySize" in job:
        return REFUSED
    if str(job.get("statusReason", "")).startswith(TIME_LIMIT):
        return TIMED_OUT
    order, code = job.get("stopOrder"), job.get("exitCode")
    was_terminated = isinstance(order, dict) and order.get("kind") == "TERMINATE"
    if was_terminated or not isinstance(code, int) or not 0 < code <= HIGHEST_EXIT_CODE:
        return NO_EXIT_CODE
    return code


def outcome_line(job: Row) -> str:
    """`train FAILED after 11 min 57 s: exit code 1: Essential container in task exited`, and children of an array."""
    started, stopped = local_time(job.get("startedAt")), local_time(job.get("stoppedAt"))
    took = f" after {format_long_duration(stopped - started)}" if started and stopped else ""
    why = reason_of_row(job)
    return f"{job.get('jobName')} {status(job)}{took}{why and f': {why}'}{_children_text(_children(job))}"
