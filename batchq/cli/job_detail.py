"""`batchq show`, `batchq why` and `batchq history`: one job with its details, its explanation, and its states."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.cli.groups import explain_group, show_group
from batchq.cli.http_client import url_of
from batchq.cli.job_columns import STYLES, age, cost_words, reason_of_row, status_style, stop_order, use_of
from batchq.cli.job_columns import state as state_of
from batchq.cli.job_handles import HELP_ONE, LATEST, Several, resolve_job, resolve_targets, single
from batchq.cli.output import is_terminal, paint, print_notice, uses_color, write_line
from batchq.cli.quantities import ago, clock_time, format_long_duration, iso_text, local_time, now
from batchq.cli.server_requests import fetch_cost, fetch_explanation, fetch_job
from batchq.cli.tables import (
    Column,
    Field,
    print_fields,
    print_json,
    print_list,
    print_nested,
    print_result,
    prints_json,
    require_text_form,
    text_column,
    time_column,
)
from batchq.domain.enums import FINISHED
from batchq.domain.use import NOT_MEASURED, use_words
from batchq.domain.wording import bytes_words, seconds_words
from batchq.errors import Invalid
from batchq.ports.responses import job_details
from batchq.ports.responses.jobs import HistoryEntryResponse, JobHistoryResponse
from batchq.ports.responses.stops import StopOrderResponse
from batchq.system.escapes import escape


def add_show(command: ArgumentParser) -> None:
    """Print a job: its state and why, its container, its attempts, and the jobs that it waits for.

    batchq show @              your latest job
    batchq show 8f2c51a7:3     child 3 of the array whose id begins with 8f2c51a7
    """
    _add_common(command)


def add_why(command: ArgumentParser) -> None:
    """Print in a sentence what a job waits for, what it does, or why it has failed.

    batchq why                  your latest job
    batchq why 8f2c51a7:3       child 3 of an array
    """
    command.add_argument("job", metavar="JOB", nargs="?", default=LATEST, help=f"{HELP_ONE}; without it, @")


def add_history(command: ArgumentParser) -> None:
    """Print each state that a job has had, with its time, oldest first, and each order to stop or hold it.

    batchq history train        the only job of this name
    """
    _add_common(command)


def _add_common(command: ArgumentParser) -> None:
    command.add_argument("job", metavar="JOB", help=HELP_ONE)


def run_show(args: Namespace) -> None:
    url = url_of(args)
    found = resolve_targets(url, [args.job], several=Several.NEWEST)
    if found.groups:
        show_group(args, url, found.groups[0])
        return
    require_text_form(args, "one job")
    response = fetch_job(url, single(args.job, found.jobs), "", answer=job_details.JobResponse)
    if prints_json(args):
        print_json(args, response)
        return
    job, present, color = _explained(url, response.job), now(), uses_color(args.color)
    in_terminal = is_terminal()
    if in_terminal:
        state = paint(escape(state_of(job)), status_style(job) if color else "")
        write_line(f"{escape(job.job_name)}  {state}  {age(job, present)}", flush=False)
    print_fields(fields_of_job(job, present, in_terminal=in_terminal), color=color)
    if in_terminal and job.attempts:
        write_line("", flush=False)
    print_nested("attempt", job.attempts, _attempt_columns(), color=color)


def detail_lines(url: str, job_id: str, present: datetime) -> list[str]:
    """The details of a job as `show` prints them on a terminal, one a line. Unescaped. Raises the errors of `call`."""
    job = explained_job(url, job_id)
    fields = fields_of_job(job, present, in_terminal=True)
    return [f"{state_of(job)}  {age(job, present)}", *(f"{name:<18} {value}" for name, value in fields)]


def explained_job(url: str, job_id: str) -> job_details.JobDetails:
    """The job with its explanation, if the server has one for it, and an array with its cost. Raises as `call`."""
    return _explained(url, fetch_job(url, job_id, "", answer=job_details.JobResponse).job)


def _explained(url: str, job: job_details.JobDetails) -> job_details.JobDetails:
    if job.array_size is not None:
        job = replace(job, cost=fetch_cost(url, job.job_id))
    try:
        return replace(job, why=fetch_explanation(url, job.job_id))
    except Invalid:
        return job


def fields_of_job(job: job_details.JobDetails, present: datetime, *, in_terminal: bool) -> Iterator[Field]:
    """The details that the job has, in the order in which users look for them.

    `in_terminal`: times are relative, and the name and the state are left out, which stand above the fields.
    """
    if not in_terminal:
        yield "name", job.job_name
        yield "state", state_of(job)
    if text := reason_of_row(job):
        yield "why", text
    if job.resubmitted_as:
        yield "submitted again as", job.resubmitted_as
    if job.hold is not None:
        yield "hold", job.hold.text
    for order in job.stop_orders or ((job.stop_order,) if job.stop_order else ()):
        yield "stop order", _render_stop_order(order, has_ended=job.status in FINISHED)
    yield "id", job.job_id
    yield "queue", job.job_queue
    yield "definition", job.job_definition
    yield "owner", f"{job.user} of account {job.account}"
    yield from _times(job, present, in_terminal=in_terminal)
    yield from _container(job)
    yield from _relations(job)


def _render_stop_order(order: StopOrderResponse, *, has_ended: bool) -> str:
    """The order, with the times of its signals."""
    times = (
        (order.checkpoint_requested_at, "checkpoint requested"),
        (order.signalled_at, "signalled"),
        (order.forced_at, "forced"),
        (order.killed_at, "killed"),
    )
    steps = [f"{name} at {at:%H:%M:%S}" for given, name in times if (at := local_time(given))]
    checkpoint = [f"final checkpoint {order.final_checkpoint}"] if order.final_checkpoint is not None else []
    missing = [f"no final checkpoint: {order.checkpoint_error}"] if order.checkpoint_error is not None else []
    return "; ".join([stop_order(order, has_ended=has_ended), *steps, *checkpoint, *missing])


def _times(job: job_details.JobDetails, present: datetime, *, in_terminal: bool) -> Iterator[Field]:
    for given, label in ((job.created_at, "created"), (job.started_at, "started"), (job.stopped_at, "stopped")):
        if at := local_time(given):
            yield label, f"{clock_time(at)}  ({ago(at, present)})" if in_terminal else iso_text(at)
    if (length := _length(job)) is not None:
        yield "took", format_long_duration(length)
    if job.max_attempts:
        yield "attempt", f"{job.attempt} of {job.max_attempts}"
    if job.exit_code is not None:
        yield "exit code", str(job.exit_code)


def _length(part: job_details.JobDetails | job_details.AttemptResponse) -> timedelta | None:
    """How long a job or an attempt ran; None: it has not started, or not ended."""
    started, stopped = local_time(part.started_at), local_time(part.stopped_at)
    return stopped - started if started and stopped else None


def _container(job: job_details.JobDetails) -> Iterator[Field]:
    if job.image:
        yield "image", job.image
    if job.command:
        yield "command", shlex.join(job.command)
    for container in job.containers:
        yield f"  {container.name}", f"{container.image} {shlex.join(container.command)}"
    amounts = ((job.vcpus, "vCPU"), (job.memory_mib, "MiB memory"), (job.gpus, "GPU"))
    if sizes := [f"{amount:g} {unit}" for amount, unit in amounts if amount]:
        yield "requires", ", ".join(sizes)
    if started := local_time(job.started_at):
        stopped, use = local_time(job.stopped_at), use_of(job.use)
        yield "used", use_words(use, started, stopped, vcpus=job.vcpus, memory_mib=job.memory_mib)
    if job.cost is not None:
        yield "cost", cost_words(job.cost)
    for variable in job.environment:
        yield "environment", f"{variable.name}={variable.value}"
    if job.timeout_seconds:
        yield "time limit", f"{job.timeout_seconds} s"
    for name, value in job.tags.items():
        yield "tag", f"{name}={value}"


def _relations(job: job_details.JobDetails) -> Iterator[Field]:
    if job.array_size is not None:
        counts = [f"{count} {name}" for name, count in (job.status_summary or {}).items() if count]
        yield "children", f"{job.array_size}: {', '.join(counts) or 'not created yet'}"
    if job.parent_id is not None:
        yield "child", f"{job.array_index} of {job.parent_id}"
    if job.nodes is not None:
        yield "nodes", str(job.nodes)
    for dependency in job.depends_on:
        kind = f" ({dependency.type})" if dependency.type else ""
        yield "waits for", f"{dependency.job_id or 'the child before it'}{kind}"
    for dependent in job.dependents:
        yield "waited for by", f"{dependent.job_id} ({dependent.job_name}, {dependent.status})"


def _attempt_columns() -> list[Column[job_details.AttemptResponse]]:
    return [
        text_column("ATTEMPT", lambda attempt: attempt.number, right=True),
        text_column("EXIT", lambda attempt: attempt.exit_code, right=True),
        Column(title="STARTED", full=lambda attempt: iso_text(local_time(attempt.started_at)), short=_started),
        Column(title="TOOK", full=_took),
        Column(title="CPU", full=_cpu),
        Column(title="PEAK", full=_peak),
        text_column("REASON", lambda attempt: attempt.reason or attempt.status_reason, elastic=True),
        text_column("LOG STREAM", lambda attempt: attempt.log_stream_name, elastic=True),
    ]


def _cpu(attempt: job_details.AttemptResponse) -> str:
    seconds = None if attempt.use is None else attempt.use.cpu_seconds
    return _unmeasured(attempt) if seconds is None else seconds_words(seconds)


def _peak(attempt: job_details.AttemptResponse) -> str:
    peak = None if attempt.use is None else attempt.use.peak_memory_bytes
    return _unmeasured(attempt) if peak is None else bytes_words(peak)


def _unmeasured(attempt: job_details.AttemptResponse) -> str:
    """The text for a figure that is not known; empty for an attempt that has not run."""
    return "" if attempt.started_at is None else NOT_MEASURED


def _started(attempt: job_details.AttemptResponse) -> str:
    at = local_time(attempt.started_at)
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _took(attempt: job_details.AttemptResponse) -> str:
    length = _length(attempt)
    return "" if length is None else format_long_duration(length)


def run_why(args: Namespace) -> None:
    url = url_of(args)
    found = resolve_targets(url, [args.job], several=Several.NEWEST)
    if found.groups:
        explain_group(args, url, found.groups[0])
    else:
        response = fetch_explanation(url, single(args.job, found.jobs))
        print_result(args, response, [response.sentence])


def run_history(args: Namespace) -> None:
    url = url_of(args)
    response = fetch_job(url, resolve_job(url, args.job, several=Several.NEWEST), "/history", answer=JobHistoryResponse)
    print_list(args, response, response.history, _history_columns(response.history))
    if not response.history:
        print_notice(f"job {response.job_id} has no history yet: its array has not created it")


def _history_columns(entries: Sequence[HistoryEntryResponse]) -> list[Column[HistoryEntryResponse]]:
    states = [entry for entry in entries if not (entry.stop_order or entry.hold or entry.group_end)]
    times = [local_time(state.at) for state in states]
    stays = {
        id(entry): format_long_duration(end - start)
        for entry, start, end in zip(states, times, times[1:], strict=False)
        if start and end
    }
    return [
        time_column("TIME", lambda entry: entry.at),
        Column(title="STATE", full=lambda entry: entry.status, style=lambda entry: STYLES.get(entry.status, "")),
        Column(title="FOR", full=lambda entry: stays.get(id(entry), "")),
        text_column("ATTEMPT", lambda entry: entry.attempt, right=True),
        Column(title="REASON", full=_history_reason, elastic=True),
    ]


def _history_reason(entry: HistoryEntryResponse) -> str:
    return entry.text("" if entry.stop_order is None else stop_order(entry.stop_order, has_ended=True))
