"""Groups of jobs in the command line: make one, find one by its name, wait for one, and print one."""

import shlex
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from msgspec.structs import replace

from batchq.cli.http_client import Patience
from batchq.cli.job_columns import job_columns, reason_of_row
from batchq.cli.job_flags import Request
from batchq.cli.output import DONE, INTERVAL, REFUSED, TIMED_OUT, StatusLine, print_error, print_notice, write_line
from batchq.cli.progress import ProgressMeter, group_progress, summary_line
from batchq.cli.quantities import elapsed, format_duration, local_time, now
from batchq.cli.server_requests import fetch_caller, fetch_explanation, fetch_groups, fetch_jobs, fetch_server_time
from batchq.cli.tables import Column, print_json, print_list, prints_json, text_column
from batchq.domain.access.accounts import AccountName, Owner, UserName
from batchq.domain.enums import FINISHED, QUEUED, Status, in_order
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG, SIZE_TAG, group_terms
from batchq.domain.wording import bytes_words, counted, seconds_words
from batchq.errors import NotFound, UsageError
from batchq.ports.responses.groups import GroupRow
from batchq.ports.responses.jobs import JobRow
from batchq.system.escapes import escape

SAME_COMMAND = 15 * 60_000  # milliseconds within which the same command continues its group
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two requests
MAX_REPORTED = 20  # failed jobs that are printed, one a line
MAX_SHOWN = 1000  # jobs of a group that are printed


def group_tags(args: Namespace, request: Request, *, size: int | None) -> Request:
    """The member `tags` of the requests with those of the group; empty without a group. Raises UsageError.

    `size`: how many jobs `--each` submits; None without it.
    """
    limits = {MAX_RUNNING_TAG: args.max_running, MAX_FAILED_TAG: args.max_failed}
    has_limit = any(limit is not None for limit in limits.values())
    if size is None and args.group is None and not has_limit:
        return {}
    if size is None and args.group is None and args.array is None:
        raise UsageError("--max-running and --max-failed are limits of a group: give --each, --array or --group")
    name = args.group or request["jobName"]
    is_own = size is None and args.group is None
    declared = size if args.group is None else None
    numbers = {SIZE_TAG: declared, **limits}
    tags = {GROUP_TAG: f"{name}/{uuid4().hex[:12]}" if is_own else name}
    tags |= {tag: str(number) for tag, number in numbers.items() if number is not None}
    return {"tags": request.get("tags", {}) | tags}


def group_of_sweep(url: str, args: Namespace, request: Request, digest: str) -> tuple[str, Request]:
    """The id of the group of `--each`, and the member `tags` that names it.

    Without `--group` it is a new group, except that the same command continues its group within 15 minutes. `digest`:
    identifies the command, whatever lines its files have.
    """
    tags = request["tags"]
    caller, at = fetch_caller(url), fetch_server_time(url)
    owner = Owner(user=UserName(caller.user), account=AccountName(caller.account))
    if args.group is not None:
        return _group_id(tags, owner), request
    period = at // SAME_COMMAND
    keyed = [tags | {GROUP_TAG: f"{tags[GROUP_TAG]}/{digest[:12]}-{number}"} for number in (period - 1, period)]
    known = {group.group_id: group for group in fetch_groups(url, groups=[_group_id(each, owner) for each in keyed])}
    earlier = known.get(_group_id(keyed[0], owner))
    chosen = keyed[0] if earlier is not None and at - earlier.created_at < SAME_COMMAND else keyed[1]
    found = known.get(_group_id(chosen, owner))
    if found is not None and found.declared_size is not None:
        # A job that was submitted before is recognized by an equal request.
        chosen = chosen | {SIZE_TAG: str(found.declared_size)}
    return _group_id(chosen, owner), request | {"tags": chosen}


def _group_id(tags: Mapping[str, str], owner: Owner) -> str:
    terms = group_terms(tuple(tags.items()), owner)
    assert terms is not None, "the tags name no group"
    return terms.id


def fetch_group(url: str, group_id: str) -> GroupRow:
    """One group. Raises NotFound."""
    found = fetch_groups(url, groups=[group_id])
    if not found:
        raise NotFound(f"group {group_id} not found")
    return found[0]


def wait_for_group(url: str, group_id: str, args: Namespace | None = None, *, deadline: float | None = None) -> int:
    """Wait until all jobs of the group have ended, report them, and return the exit status.

    `args`: with `--any` one job must have ended, with `--fail-fast` one failed.
    """
    patience, pause, line, meter = Patience(deadline=deadline), FIRST_PAUSE, StatusLine(delay=INTERVAL), ProgressMeter()
    while True:
        group = patience.call(lambda: fetch_group(url, group_id))
        line.show(meter.line(group_progress(group)))
        is_over = _is_over(group, args)
        remaining = LONGEST_PAUSE if deadline is None else deadline - elapsed()
        if is_over or remaining <= 0:
            line.clear()
            break
        time.sleep(min(pause, remaining))
        pause = min(1.5 * pause, LONGEST_PAUSE)
    if args is not None and prints_json(args):
        print_json(args, {"groups": [group]})
    _report(url, group)
    if not is_over:
        return print_error("the time limit of --timeout has passed", TIMED_OUT)
    return REFUSED if group.status_summary.get(Status.FAILED) else DONE


def _is_over(group: GroupRow, args: Namespace | None) -> bool:
    progress = group_progress(group)
    unfinished = group.submitted - progress.ended
    if args is not None and ((args.any and progress.ended) or (args.fail_fast and progress.failed + progress.stopped)):
        return True
    return unfinished == 0 and group.submitted > 0


def _report(url: str, group: GroupRow) -> None:
    """Print the counts, the jobs that failed, and how many jobs were not submitted."""
    progress = group_progress(group)
    if progress.failed + progress.stopped:
        filters = {"groups": [group.group_id], "jobStatuses": ["FAILED"]}
        for job in fetch_jobs(url, filters, limit=MAX_REPORTED).jobs:
            print_notice(f"{job.job_name} FAILED: {reason_of_row(job)}")
    missing = group.size - group.submitted
    counts = f"{progress.succeeded} SUCCEEDED, {group.status_summary.get(Status.FAILED, 0)} FAILED"
    stopped = f" ({progress.stopped} cancelled or terminated)" if progress.stopped else ""
    rest = f", {progress.running + progress.waiting - missing} unfinished" if group.ended_at is None else ""
    rest = "" if rest.startswith(", 0") else rest
    print_notice(
        f"{group.group_name}: {counts}{stopped}{rest}" + (f"; {missing} were not submitted" if missing else "")
    )
    if progress.failed:
        print_notice(f"again: batchq rerun --failed {shlex.quote(group.group_name)}")


def show_group(args: Namespace, url: str, group_id: str) -> None:
    """Print a group: its counts, its limits, and a table of its jobs with their values and results."""
    group = fetch_group(url, group_id)
    page = fetch_jobs(url, {"groups": [group_id]}, limit=MAX_SHOWN)
    if prints_json(args):
        print_json(args, {"group": group, "jobs": list(page.jobs)})
        return
    write_line(summary_line(group_progress(group)), flush=False)
    if group.cpu_seconds is not None:
        measured = counted(group.measured_jobs, "measured job")
        write_line(f"CPU time: {seconds_words(group.cpu_seconds)} of {measured}", flush=False)
    if group.peak_memory_bytes is not None:
        write_line(f"peak memory of a job: {bytes_words(group.peak_memory_bytes)}", flush=False)
    for label, limit in (("max running", group.max_running), ("max failed", group.max_failed)):
        if limit is not None:
            write_line(f"{label}: {limit}", flush=False)
    jobs = sorted(page.jobs, key=lambda job: (job.created_at, job.job_name))
    print_list(args, page, jobs, _columns(jobs))
    if page.next_token is not None:
        print_notice(f"the newest {MAX_SHOWN} jobs are shown")


def _columns(jobs: Sequence[JobRow]) -> list[Column[JobRow]]:
    """The job, its values, its state, its exit code, its run time, its CPU time and its most memory."""
    names = list(dict.fromkeys(name for job in jobs for name in job.parameters))
    job, name, state, exit_code, *use = job_columns(now(), ("job", "name", "state", "exit", "cpu", "memory"))
    values = [text_column(each.upper(), _value_of(each), elastic=True) for each in names]
    used = [replace(column, piped=column.short) for column in use]
    return [job, name, *values, state, exit_code, text_column("RAN", _run_time), *used]


def _value_of(name: str) -> Callable[[JobRow], object]:
    return lambda job: job.parameters.get(name)


def _run_time(job: JobRow) -> str:
    started, stopped = local_time(job.started_at), local_time(job.stopped_at)
    if started is None or (job.status in FINISHED and stopped is None):
        return ""
    return format_duration((stopped or now()) - started)


def sentence_of_group(url: str, group_id: str) -> str:
    """Why the first waiting job of a group waits or, without one, why its newest job has its status."""
    filters: dict[str, object] = {"groups": [group_id]}
    waiting = fetch_jobs(url, filters | {"jobStatuses": list(in_order(QUEUED))}, limit=MAX_SHOWN).jobs
    jobs = waiting[-1:] or fetch_jobs(url, filters, limit=1).jobs
    return fetch_explanation(url, jobs[0].job_id).sentence if jobs else "it has no job"


def explain_group(args: Namespace, url: str, group_id: str) -> None:
    """Print what the jobs of a group wait for, and why some of them failed."""
    group = fetch_group(url, group_id)
    filters: dict[str, object] = {"groups": [group_id]}
    failed = fetch_jobs(url, filters | {"jobStatuses": ["FAILED"]}, limit=MAX_SHOWN).jobs
    reasons = Counter(reason_of_row(job) for job in failed)
    left_out = max(0, group.status_summary.get(Status.FAILED, 0) - len(failed))
    waiting = fetch_jobs(url, filters | {"jobStatuses": ["SUBMITTED", "PENDING", "RUNNABLE"]}, limit=MAX_SHOWN).jobs
    first = waiting[-1] if waiting else None
    sentence = "" if first is None else fetch_explanation(url, first.job_id).sentence
    if prints_json(args):
        document = {"group": group, "reasons": dict(reasons), "uncounted": left_out}
        print_json(args, document | ({"first": first, "sentence": sentence} if first else {}))
        return
    write_line(summary_line(group_progress(group)), flush=False)
    for reason, count in reasons.most_common():
        write_line(escape(f"{count} FAILED: {reason}"), flush=False)
    if left_out:
        write_line(f"{left_out} more FAILED: only the newest {MAX_SHOWN} are counted by reason", flush=False)
    if first is not None:
        write_line(escape(f"{first.job_name} waits: {sentence}"), flush=False)
