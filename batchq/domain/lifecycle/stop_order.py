"""Stop orders: what CancelJob, TerminateJob, a timeout and a force-fail store in a job beside its status. Pure.

An order stays in `Job.stop_orders` after the job has ended. A request that changes nothing is not stored, so the first
order of a kind stands, and a later one that goes further follows it.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, Job
from batchq.domain.stop_orders import STOPS_ATTEMPT, StopKind, StopOrder, StopProgress, StopStep

KILL_AGAIN = timedelta(seconds=5)  # between two kills of a container that does not exit
UNKILLABLE_AFTER = timedelta(seconds=60)  # from the first kill to the status reason UNKILLABLE


def with_order(job: Job, order: StopOrder) -> Job:
    """The job with one more order."""
    return replace(job, stop_orders=(*job.stop_orders, order))


def with_cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    """Store a CancelJob."""
    ordered_at = _order_time(event.requested_at, now)
    return with_order(job, StopOrder(kind=StopKind.CANCEL, reason=event.reason, user=event.user, ordered_at=ordered_at))


def terminate_order(job: Job, event: on.TerminateRequested, now: datetime) -> StopOrder:
    """The order of a TerminateJob. The grace period is the request's, else the job's."""
    return StopOrder(
        kind=StopKind.TERMINATE,
        reason=event.reason,
        user=event.user,
        ordered_at=_order_time(event.requested_at, now),
        grace=job.spec.stop_grace if event.grace is None else event.grace,
        signal=event.signal,
    )


def _order_time(requested_at: datetime | None, now: datetime) -> datetime:
    """When the order was given: not in the future, even if the clock was set back after the request.

    A bulk stop stores the time of its request, which no alignment of stored times moves. Decision 0035.
    """
    return now if requested_at is None else min(requested_at, now)


def order_stop(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Store a TerminateJob's stop order."""
    return with_order(replace(job, status_reason=event.reason), terminate_order(job, event, now))


def time_out(job: Job, now: datetime) -> Job:
    """Store the stop order of a timeout, with the job's own grace period."""
    reason = status_reasons.TIMED_OUT
    order = StopOrder(kind=StopKind.TIMEOUT, reason=reason, ordered_at=now, grace=job.spec.stop_grace)
    return with_order(replace(job, status_reason=reason), order)


def remember_cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    """Store a CancelJob on an active job, unless a cancel or a stop order is stored already.

    AWS: CancelJob succeeds on such a job and has no effect. batchq: the job has no further attempt.
    """
    return job if job.stop_orders else with_cancel(job, event, now)


def record_signal(job: Job, now: datetime) -> Job:
    """Store in the stop order, if there is one, that the stop signal was first delivered at `now`."""
    return _changed(job, lambda it: it if it.signalled_at is not None else replace(it, signalled_at=now))


def record_kill(job: Job, now: datetime) -> Job:
    """Store in the stop order, if there is one, that a container was first killed at `now`."""
    return _changed(job, lambda it: it if it.killed_at is not None else replace(it, killed_at=now))


def with_deadline(job: Job, kill_at: datetime) -> Job:
    """Set when the container of the job is killed, or killed again. Nothing without a stop order."""
    return _changed(job, lambda it: replace(it, kill_at=kill_at))


def _changed(job: Job, change: Callable[[StopOrder], StopOrder]) -> Job:
    if job.stop is None:
        return job
    return replace(job, stop_orders=tuple(change(it) if it.kind in STOPS_ATTEMPT else it for it in job.stop_orders))


def steps(before: Job, after: Job) -> tuple[StopStep, ...]:
    """The steps of the job's stop orders, and of those for single nodes, between two versions of the job."""
    found: list[StopStep] = []
    if after.stop_orders is not before.stop_orders:
        known = (*before.stop_orders, *[None] * (len(after.stop_orders) - len(before.stop_orders)))
        for old, new in zip(known, after.stop_orders, strict=True):
            found += _steps(old, new, None)
    attempt = after.attempt or (after.attempts[-1] if after.attempts else None)
    if before.attempt is not None and attempt is not None and attempt.containers is not before.attempt.containers:
        for node in {it.node: None for it in attempt.containers}:
            order = of_node(attempt, node)
            found += () if order is None else _steps(of_node(before.attempt, node), order, node)
    return tuple(found)


def of_node(attempt: Attempt, node: int) -> StopOrder | None:
    """The TerminateJob for this node alone, with the progress of the node's containers; None: there was none."""
    stopped = [it for it in attempt.containers if it.node == node and it.terminated_by is not None]
    if not stopped or stopped[0].terminated_by is None:
        return None
    return replace(
        stopped[0].terminated_by,
        signalled_at=min((it.signalled_at for it in stopped if it.signalled_at is not None), default=None),
        kill_at=stopped[0].kill_at,
        killed_at=min((it.killed_at for it in stopped if it.killed_at is not None), default=None),
    )


def _steps(before: StopOrder | None, after: StopOrder, node: int | None) -> Iterator[StopStep]:
    passed = {
        StopProgress.ORDERED: before is None,
        StopProgress.SIGNALLED: after.signalled_at is not None and (before is None or before.signalled_at is None),
        StopProgress.KILLED: after.killed_at is not None and (before is None or before.killed_at is None),
    }
    for progress, is_new in passed.items():
        if is_new:
            yield StopStep(
                progress=progress,
                kind=after.kind,
                reason=after.reason,
                user=after.user,
                ordered_at=after.ordered_at,
                node=node,
            )


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
