"""Stop orders: what CancelJob, TerminateJob, a pause and a timeout store in a job beside its status. Pure.

An order stays in `Job.stop_orders` after the job has ended. A request that changes nothing is not stored: the first
order of a kind stands, and only an order that goes further, as a TerminateJob after a CancelJob, is appended.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, Status, StopKind, StopProgress
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import escalation
from batchq.domain.stop_values import SignalStep, StopOrder, StopStep
from batchq.domain.task import DefinitionForm

FORCED = "forced"  # why a final checkpoint is missing


def with_order(job: Job, order: StopOrder) -> Job:
    """The job with one more order."""
    return replace(job, stop_orders=(*job.stop_orders, order))


def with_cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    """Store a CancelJob."""
    ordered_at = _order_time(event.requested_at, now)
    return with_order(job, StopOrder(kind=StopKind.CANCEL, reason=event.reason, user=event.user, ordered_at=ordered_at))


def terminate_order(job: Job, event: on.TerminateRequested, now: datetime) -> StopOrder:
    """The order of a TerminateJob. The grace period is the request's, else the job's."""
    order = replace(_terminate(event, now), final_checkpoint_named=event.checkpoint)
    return with_stop_steps(job, order, grace=event.grace, signal=event.signal, checkpoint=event.checkpoint)


def _terminate(event: on.TerminateRequested, now: datetime) -> StopOrder:
    """The order without stop steps."""
    return StopOrder(
        kind=StopKind.TERMINATE,
        reason=event.reason,
        user=event.user,
        ordered_at=_order_time(event.requested_at, now),
        keep_checkpoints=event.keep_checkpoints,
    )


def with_stop_steps(
    job: Job, order: StopOrder, *, grace: timedelta | None = None, signal: str | None = None, checkpoint: bool
) -> StopOrder:
    """The order with the steps that stop the job.

    `grace`: from the stop signal to SIGKILL; None: the job's own. `signal`: the stop signal; None: the image's.
    `checkpoint`: whether a final checkpoint is requested. Only a RUNNING job with a checkpoint directory, and an array
    whose children have one, can write it; for any other job `checkpoint` has no effect.
    """
    requested = (
        checkpoint
        and job.spec.checkpoints is not None
        and (job.status is Status.RUNNING or job.array_state is not None)
    )
    wait = job.spec.stop_grace if grace is None else grace
    steps = escalation.stop_steps(job.spec.checkpoints, signal=signal, grace=wait, checkpoint=requested)
    return replace(order, steps=steps, final_checkpoint_requested=requested)


def _order_time(requested_at: datetime | None, now: datetime) -> datetime:
    """When the order was accepted: never in the future, even if the clock was set back after the request.

    A bulk stop stores the time of its request, and the correction of stored times (decision 0035) does not change it.
    """
    return now if requested_at is None else min(requested_at, now)


def order_stop(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Store a TerminateJob's stop order. That of a pause continues with the grace period and signal of the request."""
    ordered = _with_end(job, terminate_order(job, event, now))
    if job.stop is None or not (event.grace is not None or event.signal):
        return ordered
    return with_changed_order(
        ordered, lambda order: replace(order, steps=(*order.steps[:-1], _last_step(job, order, event)))
    )


def _last_step(job: Job, order: StopOrder, event: on.TerminateRequested) -> SignalStep:
    """The last of the stop steps that `order` took over from a pause, with what the request names."""
    signal = event.signal or (order.steps[-1].signal if order.steps else None)
    grace = job.spec.stop_grace if event.grace is None else event.grace
    rules, checkpoint = job.spec.checkpoints, order.final_checkpoint_requested
    return escalation.stop_steps(rules, signal=signal, grace=grace, checkpoint=checkpoint)[-1]


def latest_order(job: Job) -> StopOrder | None:
    """The latest order to cancel or stop the job, without the pauses of attempts that have ended."""
    pause = job.stop
    return next(
        (order for order in reversed(job.stop_orders) if order.kind is not StopKind.PAUSE or order is pause), None
    )


def is_stopped_by_user(job: Job) -> bool:
    """Whether a user cancelled or terminated the job, directly or with its array."""
    return any(order.kind in {StopKind.CANCEL, StopKind.TERMINATE} and order.user for order in job.stop_orders)


def failed_by_order(job: Job) -> bool:
    """Whether the job FAILED because it was cancelled or terminated."""
    return job.status is Status.FAILED and (job.is_cancelled or job.is_terminated)


def stop_state(job: Job) -> str:
    """A text for what the effect of a stop order depends on. It changes with each status, attempt and order."""
    orders = [f"{order.kind}!" if order.forced_at is not None else order.kind for order in job.stop_orders]
    children = [] if job.array_state is None else ["children"]
    return ".".join([job.status, str(len(job.all_attempts)), *children, *orders])


def order_pause(job: Job, event: on.PauseRequested, now: datetime) -> Job:
    """Store the order of a pause of the attempt under way. A final checkpoint is requested if the job can write one."""
    assert job.attempt is not None, f"{job.id} has no attempt to pause"
    order = StopOrder(
        kind=StopKind.PAUSE, reason=event.reason, user=event.user, ordered_at=now, attempt=job.attempt.number
    )
    return with_order(job, with_stop_steps(job, order, checkpoint=True))


def _with_end(job: Job, order: StopOrder) -> Job:
    """Store a TerminateJob, and release the job. The order takes over the stop steps of a pause."""
    if job.stop is not None:
        order = replace(
            job.stop,
            kind=order.kind,
            reason=order.reason,
            user=order.user,
            ordered_at=order.ordered_at,
            attempt=None,
            keep_checkpoints=order.keep_checkpoints,
            final_checkpoint_named=order.final_checkpoint_named,
        )
    return with_order(replace(job, status_reason=order.reason, hold=None), order)


def time_out(job: Job, now: datetime) -> Job:
    """Store the stop order of a timeout. A final checkpoint is requested if the job declares a checkpoint signal."""
    reason, rules = status_reasons.TIMED_OUT, job.spec.checkpoints
    order = StopOrder(kind=StopKind.TIMEOUT, reason=reason, ordered_at=now)
    checkpoint = rules is not None and rules.signal is not None
    return with_order(replace(job, status_reason=reason), with_stop_steps(job, order, checkpoint=checkpoint))


def force(job: Job, event: on.StopForced, now: datetime) -> Job:
    """Store that the job is killed without further steps: in its stop order, else in a new one.

    Returns the same object if the stop was forced already.
    """
    if job.stop is None or job.is_pausing:
        job = _with_end(job, _terminate(event, now))
    return with_changed_order(job, lambda order: forced(order, event, now))


def forced(order: StopOrder, event: on.StopForced, now: datetime) -> StopOrder:
    """The order as forced at `now`; the same object if it was forced already."""
    if order.forced_at is not None:
        return order
    missing = order.final_checkpoint_requested and order.final_checkpoint is None
    return replace(
        order,
        forced_at=now,
        forced_by=event.user,
        checkpoint_error=FORCED if missing else order.checkpoint_error,
    )


def last_pause(job: Job) -> StopOrder | None:
    """The pause that ended the last attempt; None: the attempt under way is the first one, or no pause ended it."""
    if not job.attempts or not job.attempts[-1].paused:
        return None
    return next((order for order in job.stop_orders if order.attempt == job.attempts[-1].number), None)


def awaits_final_checkpoint(job: Job) -> bool:
    """Whether a final checkpoint of the attempt under way was requested, and none has been seen."""
    order = job.stop
    return (
        job.attempt is not None
        and order is not None
        and order.final_checkpoint_requested
        and order.final_checkpoint is None
    )


def see_checkpoint(job: Job, event: on.CheckpointSeen, now: datetime) -> Job:
    """Store the final checkpoint, if one was requested and it is the first that was seen. The stop steps stay."""
    return with_changed_order(job, lambda order: _with_checkpoint(order, event, now))


def _with_checkpoint(order: StopOrder, event: on.CheckpointSeen, now: datetime) -> StopOrder:
    if not order.final_checkpoint_requested or order.final_checkpoint is not None:
        return order
    return replace(order, final_checkpoint=event.name, checkpoint_seen_at=now, checkpoint_error=None)


def see_late_checkpoint(job: Job, event: on.CheckpointSeen, now: datetime) -> Job:
    """Store the final checkpoint of a job that has ended or is paused, if it is of its last attempt."""
    if not job.attempts or job.attempts[-1].number != event.attempt:
        return job
    if job.attempts[-1].paused:
        orders = tuple(
            _with_checkpoint(order, event, now) if order.attempt == event.attempt else order
            for order in job.stop_orders
        )
        return job if orders == job.stop_orders else replace(job, stop_orders=orders)
    return see_checkpoint(job, event, now) if job.status in FINISHED else job


def miss_checkpoint(job: Job, step: SignalStep | None) -> Job:
    """Store that the wait of `step` was over before a final checkpoint was seen.

    No change for a step that does not wait for a checkpoint, and for `step` None.
    """
    if step is None or not step.until_checkpoint or not awaits_final_checkpoint(job):
        return job
    return with_changed_order(
        job, lambda order: replace(order, checkpoint_error=f"none after {step.wait.total_seconds():g} s")
    )


def record_progress(job: Job, before: tuple[AttemptContainer, ...], now: datetime) -> Job:
    """Store the last checkpoint request and the first stop signal and kill of any container in the job's stop order.

    `before`: the containers before this change. The time stored is `now`: the container's stop steps may have begun
    before the order.
    """
    if not job.stop_orders or job.stop is None or job.attempt is None or job.attempt.containers is before:
        return job
    pairs = [(old, new) for old, new in zip(before, job.attempt.containers, strict=True) if old is not new]
    requested = any(old.checkpoint_requested_at != new.checkpoint_requested_at for old, new in pairs)
    signalled = any(old.signalled_at != new.signalled_at for old, new in pairs)
    killed = any(
        new.killed_at is not None and (old.killed_at is None or old.next_step_at != new.next_step_at)
        for old, new in pairs
    )
    return with_changed_order(
        job,
        lambda order: replace(
            order,
            checkpoint_requested_at=now if requested else order.checkpoint_requested_at,
            signalled_at=order.signalled_at or (now if signalled else None),
            killed_at=order.killed_at or (now if killed else None),
        ),
    )


def with_changed_order(job: Job, change: Callable[[StopOrder], StopOrder]) -> Job:
    """Apply `change` to the order that stops the attempt. Returns the same object without an order or a change."""
    order = job.stop
    if order is None or (after := change(order)) == order:
        return job
    return replace(job, stop_orders=tuple(after if each is order else each for each in job.stop_orders))


def next_step_at(job: Job) -> datetime | None:
    """When the next signal or kill by the job's stop order is due, or was due when the attempt ended.

    None before the first signal is delivered, and if the order stopped no attempt.
    """
    order, attempt = job.stop, job.latest_attempt
    if order is None or attempt is None or (attempt.stopped_at is not None and attempt.stopped_at < order.ordered_at):
        return None
    due = (container.next_step_at for container in attempt.containers)
    return min((at for at in due if at is not None), default=None)


def steps(before: Job, after: Job) -> tuple[StopStep, ...]:
    """The steps of the job's stop orders, and of those for single nodes and containers, between two versions of it."""
    found: list[StopStep] = []
    if after.stop_orders is not before.stop_orders:
        known = (*before.stop_orders, *[None] * (len(after.stop_orders) - len(before.stop_orders)))
        for old, new in zip(known, after.stop_orders, strict=True):
            found += _steps(old, new, taken_over=before.stop)
    if before.attempt is not None and after.attempt is not before.attempt:
        attempt = after.latest_attempt
        if attempt is None or attempt.containers is before.attempt.containers:
            return tuple(found)
        stopped = [container for container in attempt.containers if container.terminated_by is not None]
        for node, name in _parts(after, stopped) if stopped else ():
            order = of_part(attempt, node, name)
            found += () if order is None else _steps(of_part(before.attempt, node, name), order, node, name)
    return tuple(found)


def _parts(job: Job, stopped: Iterable[AttemptContainer]) -> Iterator[tuple[int | None, str | None]]:
    """The nodes of a multi-node job, or the containers of a task, of these containers: a TerminateJob stopped each."""
    if job.spec.nodes.form is DefinitionForm.NODES:
        yield from dict.fromkeys((container.node, None) for container in stopped)
    else:
        yield from ((None, container.name) for container in stopped)


def of_part(attempt: Attempt, node: int | None, container: str | None) -> StopOrder | None:
    """The TerminateJob for one node, or for one container of a task, with the progress of the containers that it stops.

    None: there was none.
    """
    stopped = [
        each
        for each in attempt.containers
        if each.terminated_by is not None and node in {None, each.node} and container in {None, each.name}
    ]
    if not stopped or stopped[0].terminated_by is None:
        return None
    return replace(
        stopped[0].terminated_by,
        signalled_at=min(
            (each.signalled_at for each in stopped if each.signalled_at is not None),
            default=None,
        ),
        killed_at=min(
            (each.killed_at for each in stopped if each.killed_at is not None),
            default=None,
        ),
    )


def _steps(
    before: StopOrder | None,
    after: StopOrder,
    node: int | None = None,
    container: str | None = None,
    *,
    taken_over: StopOrder | None = None,
) -> Iterator[StopStep]:
    """The steps of an order between two versions of it; `before` None: it is new.

    `taken_over`: the pause whose stop steps a new order takes over, else None.
    """
    known = before or taken_over

    def is_new(name: str) -> bool:
        return getattr(after, name) is not None and (known is None or getattr(known, name) is None)

    ordered = StopStep(
        progress=StopProgress.ORDERED,
        kind=after.kind,
        reason=after.reason,
        user=after.user,
        ordered_at=after.ordered_at,
        node=node,
        container=container,
    )
    if before is None:
        yield ordered
    if is_new("checkpoint_requested_at"):
        yield replace(ordered, progress=StopProgress.CHECKPOINT_REQUESTED)
    if is_new("checkpoint_seen_at"):
        yield replace(ordered, progress=StopProgress.CHECKPOINT_SEEN, checkpoint=after.final_checkpoint)
    if is_new("signalled_at"):
        yield replace(ordered, progress=StopProgress.SIGNALLED)
    if is_new("forced_at"):
        yield replace(ordered, progress=StopProgress.FORCED, user=after.forced_by)
    if is_new("killed_at"):
        yield replace(ordered, progress=StopProgress.KILLED)


def mark_unkillable(job: Job, killed: AttemptContainer, now: datetime) -> Job:
    """Set the status reason UNKILLABLE if the killed container `killed` counts as unkillable."""
    return (
        replace(job, status_reason=status_reasons.UNKILLABLE)
        if escalation.is_unkillable(killed.killed_at, now)
        else job
    )
