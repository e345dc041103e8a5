"""The columns of lists of jobs, and the sentences about one job."""

from collections.abc import Callable, Sequence
from datetime import datetime

from batchq.cli.quantities import ago, format_duration, iso_text, local_time
from batchq.cli.tables import Column, text_column, time_column
from batchq.domain.enums import ACTIVE, FINISHED, Status, StopKind
from batchq.domain.ids import short_id
from batchq.domain.stop_messages import ORDER_WORDS
from batchq.domain.use import Use
from batchq.domain.wording import bytes_words, seconds_words
from batchq.errors import UsageError
from batchq.ports.responses.costs import CostResponse
from batchq.ports.responses.jobs import JobRow, UseResponse
from batchq.ports.responses.stops import StopOrderResponse, StopStepResponse

STYLES = {"RUNNING": "cyan", "STARTING": "cyan", "SUCCEEDED": "green", "FAILED": "red", "RUNNABLE": "yellow"}
DEFAULT_COLUMNS = ("job", "name", "state", "queue", "owner", "time", "why")
ALL_COLUMNS = (
    *DEFAULT_COLUMNS,
    *("account", "definition", "share", "priority", "attempt", "exit", "cpu", "memory", "created", "started", "ended"),
)


def job_columns(present: datetime, names: Sequence[str] = DEFAULT_COLUMNS) -> list[Column[JobRow]]:
    """The columns of `batchq list` with these names, which are their titles in any case. Raises UsageError.

    `present`: the time to which times are relative.
    """
    known = {column.title: column for column in _all_columns(present)}
    for name in names:
        if name.upper() not in known:
            raise UsageError(f"unknown column {name!r}; the columns are {', '.join(known).lower()}")
    return [known[name.upper()] for name in names]


def _all_columns(present: datetime) -> list[Column[JobRow]]:
    return [
        Column(title="JOB", full=lambda job: job.job_id, short=lambda job: short_id(job.job_id)),
        text_column("NAME", lambda job: job.job_name, elastic=True),
        Column(title="STATE", full=lambda job: job.status, short=state, style=status_style),
        text_column("QUEUE", lambda job: job.job_queue),
        text_column("OWNER", lambda job: job.user),
        Column(title="TIME", full=lambda job: iso_text(since(job)), short=lambda job: age(job, present)),
        Column(title="WHY", full=_why, short=lambda job: _why(job, short_id), elastic=True),
        text_column("ACCOUNT", lambda job: job.account),
        text_column("DEFINITION", lambda job: job.job_definition, elastic=True),
        text_column("SHARE", lambda job: job.share_identifier),
        text_column("PRIORITY", lambda job: job.priority, right=True),
        text_column("ATTEMPT", lambda job: job.attempt, right=True),
        text_column("EXIT", lambda job: job.exit_code, right=True),
        _use_column("CPU", "cpu_seconds", seconds_words),
        _use_column("MEMORY", "peak_memory_bytes", lambda value: bytes_words(int(value))),
        time_column("CREATED", lambda job: job.created_at, present=present),
        time_column("STARTED", lambda job: job.started_at, present=present),
        time_column("ENDED", lambda job: job.stopped_at, present=present),
    ]


def _use_column(title: str, figure: str, words: Callable[[float], str]) -> Column[JobRow]:
    """A figure of what the latest attempt used; empty if it was not measured. `figure`: a member of UseResponse."""

    def render(job: JobRow, shown: Callable[[float], str]) -> str:
        value = None if job.use is None else getattr(job.use, figure)
        return "" if value is None else shown(value)

    return Column(title=title, full=lambda job: render(job, str), short=lambda job: render(job, words), right=True)


def use_of(answer: UseResponse | None) -> Use | None:
    """What was used, from an answer; None: not measured."""
    at = None if answer is None else local_time(answer.sampled_at)
    if answer is None or at is None:
        return None
    return Use(
        sampled_at=at,
        cpu_seconds=answer.cpu_seconds,
        peak_memory=answer.peak_memory_bytes,
        working_set=answer.working_set_bytes,
        bytes_read=answer.read_bytes,
        bytes_written=answer.written_bytes,
    )


def cost_words(cost: CostResponse) -> str:
    """`0.02 EUR`."""
    return f"{cost.total:.2f} {cost.currency}"


def state(job: JobRow) -> str:
    """The status; of a held job with `held` or `paused`, and of a job that is stopping with what happens to it."""
    order = job.stop_order
    if job.status in FINISHED:
        return job.status
    if job.status in ACTIVE and order is not None and order.kind is not StopKind.CANCEL:
        return f"{job.status} {_progress(order)}"
    if job.hold is None:
        return job.status
    return f"{job.status} {'paused' if job.hold.paused else 'held'}"


def _progress(order: StopOrderResponse) -> str:
    """What a stop order does to a running job at present."""
    if order.killed_at is not None:
        return "killed"
    is_awaited = order.final_checkpoint_requested and order.final_checkpoint is None and order.checkpoint_error is None
    if is_awaited and order.signalled_at is None:
        return "checkpoint"
    return ORDER_WORDS[order.kind].effect


def status_style(job: JobRow) -> str:
    """The name of the colour of the status; empty: none."""
    return STYLES.get(job.status, "")


def since(job: JobRow) -> datetime | None:
    """When the job ended, else when it started, else when it was created."""
    at = job.stopped_at if job.status in FINISHED else job.started_at if job.status is Status.RUNNING else None
    return local_time(job.created_at if at is None else at)


def age(job: JobRow, present: datetime) -> str:
    """`3 min ago` for a finished job, `runs 2 h`, or `waits 14 min`."""
    at = since(job)
    if at is None:
        return ""
    if job.status in FINISHED:
        return ago(at, present)
    return f"{'runs' if job.status is Status.RUNNING else 'waits'} {format_duration(present - at)}"


def reason_of_row(job: JobRow) -> str:
    """Why the job is in its status: the server's explanation, else the stop order or the statusReason."""
    if job.why is not None and job.why.sentence:
        return job.why.sentence
    if job.stop_order is not None and job.status not in FINISHED:
        return stop_order(job.stop_order)
    return ended_reason(job.status, job.exit_code, job.status_reason)


def ended_reason(status: Status, exit_code: int | None, reason: str | None) -> str:
    """`exit code 1: Essential container in task exited`; empty for a job that SUCCEEDED."""
    if status is Status.FAILED and exit_code:
        return f"exit code {exit_code}: {reason or ''}".removesuffix(": ")
    return "" if status is Status.SUCCEEDED else reason or ""


def _why(job: JobRow, shown: Callable[[str], str] = str) -> str:
    """The reason of the row, and as which job it was submitted again. `shown`: renders the id of that job."""
    reason, rerun = reason_of_row(job), job.resubmitted_as
    return f"{reason.removesuffix('.')}; submitted again as {shown(rerun)}".removeprefix("; ") if rerun else reason


def stop_order(order: StopOrderResponse | StopStepResponse, *, has_ended: bool = False) -> str:
    """`stopping: terminated by cora at 14:02, 'too hot'`; of a running job that is cancelled: `will not be retried`.

    `has_ended`: the job has ended, and the effect is left out.
    """
    at = local_time(order.at)
    effect, verb = ORDER_WORDS[order.kind]
    when = f" at {at:%H:%M}" if at else ""
    who = f" by {order.user}" if order.user else ""
    why = f", {order.reason!r}" if order.reason else ""
    return f"{'' if has_ended else f'{effect}: '}{verb}{who}{when}{why}"
