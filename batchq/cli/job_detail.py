"""`batchq show`, `batchq why` and `batchq history`: one job with its details, its explanation, and its states."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import datetime

from batchq.cli.http_client import add_server_flags, url_of
from batchq.cli.job_columns import age, reason_of_row, resubmission, status, status_style, stop_order
from batchq.cli.job_columns import state as state_of
from batchq.cli.job_selection import HELP_ONE, resolve_job
from batchq.cli.output import is_terminal, paint, print_notice, uses_color, write_line
from batchq.cli.quantities import ago, clock_time, format_long_duration, iso_text, local_time, now
from batchq.cli.server_requests import FINISHED, Row, fetch_explanation, fetch_history, fetch_job_detail
from batchq.cli.tables import (
    Column,
    Field,
    add_output_flags,
    print_fields,
    print_json,
    print_list,
    print_rows,
    prints_json,
    text_column,
    time_column,
)
from batchq.domain.stop_messages import STEP_WORDS
from batchq.errors import Invalid
from batchq.system.escapes import escape


def add_show(command: ArgumentParser) -> None:
    """Print a job: its state and why, its container, its attempts, and the jobs that it waits for.

    batchq show @              your latest job
    batchq show 8f2c51a7:3     child 3 of the array whose id begins with 8f2c51a7
    """
    _add_common(command)
    command.set_defaults(run=run_show)


def add_why(command: ArgumentParser) -> None:
    """Print in a sentence what a job waits for, what it does, or why it has failed.

    batchq why @                your latest job
    batchq why 8f2c51a7:3       child 3 of an array
    """
    _add_common(command)
    command.set_defaults(run=run_why)


def add_history(command: ArgumentParser) -> None:
    """Print each state that a job has had, with its time, oldest first, and each order to stop or hold it.

    batchq history train        the only job of this name
    """
    _add_common(command)
    command.set_defaults(run=run_history)


def _add_common(command: ArgumentParser) -> None:
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    add_output_flags(command)
    add_server_flags(command)


def run_show(args: Namespace) -> int:
    url = url_of(args)
    response = fetch_job_detail(url, resolve_job(url, args.job))
    if prints_json(args):
        print_json(args, response)
        return 0
    job, present, color = _explained(url, response["job"]), now(), uses_color(args.color)
    in_terminal = is_terminal()
    if in_terminal:
        state = paint(escape(state_of(job)), status_style(job) if color else "")
        write_line(f"{escape(str(job.get('jobName')))}  {state}  {age(job, present)}", flush=False)
    print_fields(fields_of_job(job, present, in_terminal=in_terminal), color=color)
    _print_attempts(job, color=color)
    return 0


def _explained(url: str, job: Row) -> Row:
    """The job with its explanation, if the server has one for it."""
    try:
        return {**job, "why": fetch_explanation(url, str(job["jobId"]))}
    except Invalid:
        return job


def fields_of_job(job: Row, present: datetime, *, in_terminal: bool) -> Iterator[Field]:
    """The details that the job has, in the order in which users look for them.

    `in_terminal`: times are relative, and the name and the state are left out, which stand above the fields.
    """
    if not in_terminal:
        yield "name", str(job.get("jobName"))
        yield "state", state_of(job)
    if text := reason_of_row(job):
        yield "why", text
    if text := resubmission(job):
        yield "submitted again as", text
    if isinstance(job.get("hold"), dict):
        yield "hold", _render_hold_change({"held": job["hold"]})
    for order in job.get("stopOrders") or ([job["stopOrder"]] if "stopOrder" in job else []):
        yield "stop order", _render_stop_order(order, has_ended=status(job) in FINISHED)
    yield "id", str(job.get("jobId"))
    yield "queue", str(job.get("jobQueue"))
    yield "definition", str(job.get("jobDefinition"))
    yield "owner", f"{job.get('user')} of account {job.get('account')}"
    yield from _times(job, present, in_terminal=in_terminal)
    yield from _container(job)
    yield from _relations(job)


def _render_stop_order(order: Row, *, has_ended: bool) -> str:
    """The order, with the times of its signals."""
    steps = [
        f"{name} at {at:%H:%M:%S}" for member, name in ORDER_STEPS.items() if (at := local_time(order.get(member)))
    ]
    checkpoint = [f"final checkpoint {order['finalCheckpoint']}"] if "finalCheckpoint" in order else []
    missing = [f"no final checkpoint: {order['checkpointError']}"] if "checkpointError" in order else []
    return "; ".join([stop_order(order, has_ended=has_ended), *steps, *checkpoint, *missing])


def _times(job: Row, present: datetime, *, in_terminal: bool) -> Iterator[Field]:
    for member, label in (("createdAt", "created"), ("startedAt", "started"), ("stoppedAt", "stopped")):
        if at := local_time(job.get(member)):
            yield label, f"{clock_time(at)}  ({ago(at, present)})" if in_terminal else iso_text(at)
    started, stopped = local_time(job.get("startedAt")), local_time(job.get("stoppedAt"))
    if started and stopped:
        yield "took", format_long_duration(stopped - started)
    if job.get("maxAttempts"):
        yield "attempt", f"{job.get('attempt', 0)} of {job['maxAttempts']}"
    if "exitCode" in job:
        yield "exit code", str(job["exitCode"])


def _container(job: Row) -> Iterator[Field]:
    if job.get("image"):
        yield "image", str(job["image"])
    if job.get("command"):
        yield "command", shlex.join(map(str, job["command"]))
    for container in job.get("containers", ()):
        yield f"  {container['name']}", f"{container['image']} {shlex.join(map(str, container['command']))}"
    sizes = [
        f"{job[member]:g} {unit}"
        for member, unit in (("vcpus", "vCPU"), ("memoryMiB", "MiB memory"), ("gpus", "GPU"))
        if isinstance(job.get(member), int | float) and job[member]
    ]
    if sizes:
        yield "requires", ", ".join(sizes)
    for name, value in _pairs(job.get("environment")):
        yield "environment", f"{name}={value}"
    if job.get("timeoutSeconds"):
        yield "time limit", f"{job['timeoutSeconds']} s"
    for name, value in _pairs(job.get("tags")):
        yield "tag", f"{name}={value}"


def _pairs(members: object) -> list[tuple[object, object]]:
    """Names and values, from an object, or from AWS's list of objects with `name` and `value`."""
    if isinstance(members, dict):
        return list(members.items())
    return [(member.get("name"), member.get("value")) for member in members] if isinstance(members, list) else []


def _relations(job: Row) -> Iterator[Field]:
    if "arraySize" in job:
        counts = [f"{count} {name}" for name, count in job.get("statusSummary", {}).items() if count]
        yield "children", f"{job['arraySize']}: {', '.join(counts) or 'not created yet'}"
    if "parentId" in job:
        yield "child", f"{job.get('arrayIndex')} of {job['parentId']}"
    if "nodes" in job:
        yield "nodes", str(job["nodes"])
    for member, label in (("dependsOn", "waits for"), ("dependents", "waited for by")):
        for item in job.get(member) or ():
            yield label, _related(item)


def _related(other: object) -> str:
    """A job of `dependsOn` or `dependents`: its id, with its name and status where the response has them."""
    if not isinstance(other, dict):
        return str(other)
    more = [str(other[text]) for text in ("jobName", "status", "type") if other.get(text)]
    return " ".join([str(other.get("jobId", "the child before it")), *(more and [f"({', '.join(more)})"])])


def _print_attempts(job: Row, *, color: bool) -> None:
    attempts = job.get("attempts") or []
    if not attempts:
        return
    if is_terminal():
        write_line("", flush=False)
        print_rows(attempts, _attempt_columns(), color=color)
        return
    for attempt in attempts:
        values = "\t".join(escape(column.full(attempt)) for column in _attempt_columns())
        write_line(f"attempt\t{values}", flush=False)


def _attempt_columns() -> list[Column]:
    return [
        text_column("ATTEMPT", "number", right=True),
        text_column("EXIT", "exitCode", right=True),
        Column(title="STARTED", full=lambda row: iso_text(local_time(row.get("startedAt"))), short=_started),
        Column(title="TOOK", full=_took),
        Column(
            title="REASON",
            full=lambda other_row: str(other_row.get("reason") or other_row.get("statusReason", "")),
            elastic=True,
        ),
        text_column("LOG STREAM", "logStreamName", elastic=True),
    ]


def _started(attempt: Row) -> str:
    at = local_time(attempt.get("startedAt"))
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _took(attempt: Row) -> str:
    started, stopped = local_time(attempt.get("startedAt")), local_time(attempt.get("stoppedAt"))
    return format_long_duration(stopped - started) if started and stopped else ""


def run_why(args: Namespace) -> int:
    url = url_of(args)
    response = fetch_explanation(url, resolve_job(url, args.job))
    if prints_json(args):
        print_json(args, response)
        return 0
    write_line(escape(str(response.get("sentence", ""))))
    return 0


def run_history(args: Namespace) -> int:
    url = url_of(args)
    response = fetch_history(url, resolve_job(url, args.job))
    entries = response["history"]
    print_list(args, response, entries, _history_columns(entries))
    if not entries:
        print_notice(f"job {response['jobId']} has no history yet: its array has not created it")
    return 0


#: The times of a stop order, with what happened then.
ORDER_STEPS = {
    "checkpointRequestedAt": "checkpoint requested",
    "signalledAt": "signalled",
    "forcedAt": "forced",
    "killedAt": "killed",
}


def _history_columns(entries: list[Row]) -> list[Column]:
    states = [entry for entry in entries if "stopOrder" not in entry and "hold" not in entry]
    times = [local_time(state.get("at")) for state in states]
    stays = {
        id(entry): format_long_duration(end - start)
        for entry, start, end in zip(states, times, times[1:], strict=False)
        if start and end
    }
    return [
        time_column("TIME", "at"),
        Column(title="STATE", full=status, style=status_style),
        Column(title="FOR", full=lambda row: stays.get(id(row), "")),
        text_column("ATTEMPT", "attempt", right=True),
        Column(title="REASON", full=_history_reason, elastic=True),
    ]


def _history_reason(entry: Row) -> str:
    """The reason of an entry; the entry of a stop order has the order in place of it, or what was sent for it."""
    order, hold = entry.get("stopOrder"), entry.get("hold")
    if isinstance(hold, dict):
        return _render_hold_change(hold)
    if not isinstance(order, dict):
        return str(entry.get("reason", ""))
    text = STEP_WORDS.get(str(order.get("progress")))
    if text is None:
        text = stop_order(order, has_ended=True)
    elif "checkpoint" in order:
        text = f"{text} {order['checkpoint']}"
    elif order.get("progress") == "FORCED" and order.get("user"):
        text = f"{text} by {order['user']}"
    part = order.get("container", order.get("node"))
    return text if part is None else f"{'container' if 'container' in order else 'node'} {part}: {text}"


def _render_hold_change(change: Row) -> str:
    hold = change.get("held")
    if not isinstance(hold, dict):
        return f"released by {change.get('releasedBy', 'the server')}"
    verb = "paused" if hold.get("paused") else "held"
    return f"{verb} by {hold.get('user', 'the server')}: {hold.get('reason')}"
