"""Stop orders: what CancelJob, TerminateJob and a timeout store in a job beside its status. Pure."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Stop, StopCause

KILL_AGAIN = timedelta(seconds=5)  # between two kills of a container that does not exit
UNKILLABLE_AFTER = timedelta(seconds=60)  # from the first kill to the status reason UNKILLABLE


def order_stop(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Set a TerminateJob's stop order. The grace period is the request's, else the job's."""
    grace = job.spec.stop_grace if event.grace is None else event.grace
    cause, signal = StopCause.TERMINATED, event.signal
    stop = Stop(cause=cause, reason=event.reason, ordered_at=now, grace=grace, signal=signal)
    return replace(job, stop=stop, status_reason=event.reason)


def time_out(job: Job, now: datetime) -> Job:
    """Set the stop order of a timeout, with the job's own grace period."""
    stop = Stop(cause=StopCause.TIMED_OUT, reason=status_reasons.TIMED_OUT, ordered_at=now, grace=job.spec.stop_grace)
    return replace(job, stop=stop, status_reason=status_reasons.TIMED_OUT)


def remember_cancel(job: Job, event: on.CancelRequested) -> Job:
    """Store a CancelJob on an active job, unless a cancel or a stop order is stored already.

    AWS: CancelJob succeeds on such a job and has no effect. batchq: the job has no further attempt.
    """
    if job.cancelled is not None or job.stop is not None:
        return job
    return replace(job, cancelled=event.reason)


def mark_unkillable(job: Job, killed_at: datetime, now: datetime) -> Job:
    """Set the status reason UNKILLABLE if the first kill, at `killed_at`, was UNKILLABLE_AFTER ago or earlier."""
    return replace(job, status_reason=status_reasons.UNKILLABLE) if now - killed_at >= UNKILLABLE_AFTER else job


def signal_of(job: Job, tag: Tag) -> str | None:
    """The stop signal for the container of `tag`; None: the image's StopSignal, or SIGTERM."""
    containers = () if job.attempt is None else job.attempt.containers
    container = next((it for it in containers if it.key == tag.container_key), None)
    if container is not None:
        return container.signal
    return None if job.stop is None else job.stop.signal
