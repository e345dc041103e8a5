"""What is asked of a job that is not to go on, and is remembered beside its status. Pure; the first order stands."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Stop, StopCause

KILL_AGAIN = timedelta(seconds=5)
UNKILLABLE_AFTER = timedelta(seconds=60)


def order(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    grace = job.spec.stop_grace if event.grace is None else event.grace
    cause, signal = StopCause.TERMINATED, event.signal
    stop = Stop(cause=cause, reason=event.reason, ordered_at=now, grace=grace, signal=signal)
    return replace(job, stop=stop, status_reason=event.reason)


def time_out(job: Job, now: datetime) -> Job:
    stop = Stop(cause=StopCause.TIMED_OUT, reason=status_reasons.TIMED_OUT, ordered_at=now, grace=job.spec.stop_grace)
    return replace(job, stop=stop, status_reason=status_reasons.TIMED_OUT)


def remember_cancel(job: Job, event: on.CancelRequested) -> Job:
    """AWS: CancelJob succeeds, and does not reach a job this far. batchq: but there is no attempt after this one."""
    if job.cancelled is not None or job.stop is not None:
        return job
    return replace(job, cancelled=event.reason)


def told_of_deaf(job: Job, killed_at: datetime, now: datetime) -> Job:
    """What was killed a while ago and does not die keeps its room, and says so."""
    return replace(job, status_reason=status_reasons.UNKILLABLE) if now - killed_at >= UNKILLABLE_AFTER else job


def signal_of(job: Job, tag: Tag) -> str | None:
    """What a container that is to stop is asked with, None the image's own."""
    parts = () if job.attempt is None else job.attempt.parts
    part = next((it for it in parts if it.key == tag.part), None)
    if part is not None:
        return part.signal
    return None if job.stop is None else job.stop.signal
