"""Array jobs: the array spawns its children, counts their statuses and applies its orders to them. Pure. Decision 0010.

An array (the parent job) waits for its own dependencies like any job. Once they are met it gets `Job.array_state`, the
state of its children, and stays PENDING until all children have finished; it is never RUNNABLE. Children are spawned in
batches. A CancelJob or TerminateJob for the array is stored in the array and applied to the children in batches; the
failure of a child of a SEQUENTIAL array fails the children after it in the same way. A child never starts while an
order of its array has not been applied to it; `views` shows the children as the order will leave them.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status, StopKind
from batchq.domain.ids import JobId, child_id, parent_of
from batchq.domain.job import ArrayChild, ArrayState, Job
from batchq.domain.lifecycle import holds, stopping
from batchq.domain.lifecycle.status import Outcome, move_to, move_to_final, with_history
from batchq.domain.status_counts import counts_after
from batchq.domain.stop_values import ChildOrder, StopOrder
from batchq.domain.times import MILLISECOND
from batchq.errors import IllegalTransition, Invalid

#: Different orders that an array stores for children that are not spawned yet: every save of the array writes them.
MAX_CHILD_ORDERS = 32


#: What an array applies to each of its children.
Order = on.StopEvent | on.DependencyFailed | on.HoldRequested | on.ReleaseRequested | on.PauseRequested


class Moved(Struct, frozen=True, kw_only=True):
    """A change of a child's status."""

    index: int
    #: None: the child was inserted.
    before: Status | None
    after: Status
    #: Whether the child FAILED because it was cancelled or terminated.
    stopped: bool = False


def is_parent(job: Job) -> bool:
    """Whether the job is an array. Its children are not, although their spec has an `array_size` too."""
    return job.spec.array_size is not None and job.child is None


def begin_array(job: Job, now: datetime) -> Job:
    """Start to spawn children: the array's own dependencies are met."""
    waiting = job if job.status is Status.PENDING else move_to(job, Status.PENDING)
    return replace(waiting, array_state=ArrayState(counted_at=now, passes_hold=job.hold is not None))


def step_array(job: Job, event: on.Event, now: datetime) -> Outcome:
    """Apply an event to a PENDING array with children. Raises IllegalTransition if it cannot happen to an array."""
    rule = _RULES.get(type(event))
    if rule is None:
        raise IllegalTransition(f"{type(event).__name__} cannot happen to the parent {with_history(job)}")
    return rule(job, event, now), ()


def size(job: Job) -> int:
    """The number of children of the array, spawned or not. AssertionError for any other job."""
    assert job.spec.array_size is not None, f"{job.id} is not an array"
    return job.spec.array_size


def unspawned(job: Job) -> int:
    """The number of children of the array that are still to be spawned, or never were."""
    return size(job) - (0 if job.array_state is None else job.array_state.spawned)


def at_work(job: Job) -> bool:
    """Whether children have still to be spawned, or an order has still to be applied to some."""
    if job.array_state is None or job.status is not Status.PENDING:
        return False
    return spawning(job) or (order(job) is not None and job.array_state.order_applied_to < size(job))


def spawning(job: Job) -> bool:
    """Whether children have still to be spawned."""
    return job.array_state is not None and job.status is Status.PENDING and job.array_state.spawned < size(job)


def order(job: Job) -> Order | None:
    """The order to apply to the children from index `order_applied_to` on; None: no order. They do not start before.

    A TerminateJob takes precedence over a CancelJob, both over the failure of a SEQUENTIAL array's child, and that over
    a hold or a release.
    """
    if job.stop is not None:
        return _passed_on(job.stop)
    if job.cancel is not None:
        return _passed_on(job.cancel)
    state = job.array_state
    if state is None:
        return None
    if state.failed_index is not None:
        return on.DependencyFailed(job_id=child_id(job.id, state.failed_index))
    return holds.order_of(job) if state.passes_hold else None


def _passed_on(order: StopOrder) -> on.StopEvent:
    """The order of an array as a request to stop a child, with the author and the time of the array's order."""
    if order.kind is StopKind.CANCEL:
        return on.CancelRequested(reason=order.reason, user=order.user, requested_at=order.ordered_at)
    if order.forced_at is not None:
        return on.StopForced(
            reason=order.reason, user=order.user, requested_at=order.ordered_at, keep_checkpoints=order.keep_checkpoints
        )
    stop_step = order.steps[-1]
    return on.TerminateRequested(
        reason=order.reason,
        user=order.user,
        requested_at=order.ordered_at,
        grace=stop_step.wait,
        signal=stop_step.signal,
        checkpoint=order.final_checkpoint_requested,
        keep_checkpoints=order.keep_checkpoints,
    )


def orders_left(job: Job) -> tuple[int, int]:
    """The `Job.sequence` of the first and the last child to which the array's order has not been applied."""
    return job.sequence + 1 + _state_of(job).order_applied_to, job.sequence + size(job)


def order_to(child: Job, job: Job) -> Order | None:
    """The order of the array `job` that has not been applied to the child yet; None: there is none.

    A queued child ended with the first order, so a CancelJob takes precedence over a later TerminateJob. An active
    child gets the latest order. The failure of another child applies only to SUBMITTED and PENDING children after it; a
    release applies to all others.
    """
    state = job.array_state
    if state is None or job.status is not Status.PENDING or child.status in FINISHED:
        return None
    if not (job.stop_orders or state.failed_index is not None or state.passes_hold):
        return None
    if _index(child) < state.order_applied_to:
        return None
    if child.status in QUEUED and job.cancel is not None:
        return _passed_on(job.cancel)
    ordered = order(job)
    may_run = child.status not in {Status.SUBMITTED, Status.PENDING}
    spared = may_run or (state.failed_index is not None and _index(child) < state.failed_index)
    if isinstance(ordered, on.DependencyFailed) and spared:
        return holds.order_of(job) if state.passes_hold else None
    return ordered


def spawn(job: Job, most: int, now: datetime) -> tuple[Job, tuple[Job, ...]]:
    """Create the next children, at most `most`. Returns the changed array and the children. AWS: children have no tags.

    The caller applies stored orders to the new children by `apply_child_order`. The array drops these orders when it
    has spawned its last child.
    """
    state = _state_of(job)
    indices = range(state.spawned, min(state.spawned + most, size(job)))
    children = tuple(_child(job, index, now) for index in indices)
    orders = job.child_orders if indices.stop < size(job) else ()
    return replace(job, array_state=replace(state, spawned=indices.stop), child_orders=orders), children


def unspawned_child(job: Job, job_id: JobId) -> Job | None:
    """The child `job_id` that the unfinished array `job` has still to spawn; None for any other id.

    It is shown with the status, the hold and the time of creation of its array, and with the order that is stored for
    it.
    """
    named = parent_of(job_id)
    if named is None or not is_parent(job) or job.status in FINISHED or job_id != child_id(job.id, named[1]):
        return None
    index = named[1]
    if not (0 if job.array_state is None else job.array_state.spawned) <= index < size(job):
        return None
    child = replace(_child(job, index, job.created_at), status=job.status, hold=job.hold)
    return apply_child_order(child, job, job.created_at)


def _child(job: Job, index: int, created_at: datetime) -> Job:
    return Job(
        id=child_id(job.id, index),
        sequence=job.sequence + 1 + index,
        spec=job.spec,
        created_at=created_at,
        child=ArrayChild(parent=job.id, index=index),
    )


def store_child_order(job: Job, index: int, event: on.StopEvent, now: datetime) -> Job:
    """Store an order for the child with this index, which is not spawned yet. The first order for a child stands.

    Raises Invalid if the array has MAX_CHILD_ORDERS different orders already.
    """
    if any(index in order.indices for order in job.child_orders):
        return job
    terminate = not isinstance(event, on.CancelRequested)
    alike = ChildOrder(indices=(), reason=event.reason, terminate=terminate, user=event.user)
    if isinstance(event, on.TerminateRequested):
        alike = replace(alike, grace=event.grace, signal=event.signal)
    known = {replace(order, indices=(), delays_ms=()): (order.indices, order.delays_ms) for order in job.child_orders}
    indices, delays = known.get(alike, ((), ()))
    known[alike] = (*indices, index), (*delays, max(now - job.created_at, timedelta()) // MILLISECOND)
    if len(known) > MAX_CHILD_ORDERS:
        raise Invalid(
            f"Array {job.id} waits, and its children have {MAX_CHILD_ORDERS} different orders to stop already: use the "
            "reason of one of them, or stop the array."
        )
    orders = (replace(order, indices=indices, delays_ms=delays) for order, (indices, delays) in known.items())
    return replace(job, child_orders=tuple(orders))


def apply_child_order(child: Job, job: Job, now: datetime) -> Job:
    """Apply to a child that is spawned at `now` the order that its array stored for it: the child becomes FAILED."""
    order = next((order for order in job.child_orders if _index(child) in order.indices), None)
    if order is None:
        return child
    at = job.created_at + order.delays_ms[order.indices.index(_index(child))] * MILLISECOND
    if order.terminate:
        terminate = on.TerminateRequested(
            reason=order.reason, user=order.user, requested_at=at, grace=order.grace, signal=order.signal
        )
        stopped = stopping.order_stop(child, terminate, now)
    else:
        cancel = on.CancelRequested(reason=order.reason, user=order.user, requested_at=at)
        stopped = stopping.with_cancel(child, cancel, now)
    return move_to_final(stopped, Status.FAILED, max(at, now), order.reason)


def is_passing_hold(job: Job, index: int) -> bool:
    """Whether the array `job` is about to hold or release the child with this index."""
    state = job.array_state
    return state is not None and state.passes_hold and state.order_applied_to <= index


def pass_order(job: Job, most: int) -> tuple[Job, range]:
    """Mark the array's order as applied to the next spawned children, at most `most`.

    Returns the changed array and the indices of these children.
    """
    state = _state_of(job)
    indices = range(state.order_applied_to, min(state.order_applied_to + most, state.spawned))
    return replace(job, array_state=replace(state, order_applied_to=indices.stop)), indices


def count_children(job: Job, moves: Iterable[Moved], now: datetime) -> Job:
    """Count the status changes of children, and end the array with its last child.

    AWS: an array is SUCCEEDED if all its children are, else FAILED.
    """
    state = _state_of(job)
    moves = tuple(moves)
    for move in moves:
        if move.after is Status.FAILED and job.spec.sequential:
            state = _with_failed_child(job, state, move.index)
    counts = counts_after(state.counts, [(move.before, move.after, 1) for move in moves])
    stopped = state.stopped + sum(move.stopped for move in moves)
    counted = replace(state, counts=counts, stopped=stopped, counted_at=now)
    after = _with_end_noted(replace(job, array_state=counted), now)
    ended = [(status, count) for status, count in counts if status in FINISHED]
    if sum(count for _, count in ended) < size(job):
        return after
    return _finish(after, _state_of(after).ended_at or now, failed=Status.FAILED in dict(ended))


def projected(job: Job, ended_at: datetime | None) -> Job:
    """The array as it will be once its order has been applied to all children: the queued ones count as FAILED.

    `ended_at`: when the array ended; None: it has not ended, because some children are active.
    """
    state = _state_of(job)
    queued = [(status, Status.FAILED, count) for status, count in state.counts if status in QUEUED]
    stopped = state.stopped + sum(count for _, _, count in queued)
    after = replace(job, array_state=replace(state, counts=counts_after(state.counts, queued), stopped=stopped))
    return after if ended_at is None else _finish(after, ended_at, failed=True)


def _with_failed_child(job: Job, state: ArrayState, index: int) -> ArrayState:
    """Store the lowest index of a failed child of a SEQUENTIAL array: the children after it fail.

    Not while the array has a cancel or stop order, which ends all children. A hold or release that is being applied
    goes on with the children before the failed one.
    """
    if job.stop_orders:
        return state
    if state.failed_index is not None and state.failed_index <= index:
        return state
    applied_to = min(state.order_applied_to, index + 1) if state.passes_hold else index + 1
    return replace(state, failed_index=index, order_applied_to=applied_to)


def _with_end_noted(job: Job, now: datetime) -> Job:
    """Set `ended_at`, once, if the array has an order, all its children exist and none is active."""
    state = _state_of(job)
    if state.ended_at is not None:
        return replace(job, array_state=replace(state, counted_at=state.ended_at))
    counts = dict(state.counts)
    if state.ordered_at is None or spawning(job) or any(counts.get(status) for status in ACTIVE):
        return job
    return replace(job, array_state=replace(state, ended_at=now, counted_at=now))


def _finish(job: Job, now: datetime, *, failed: bool) -> Job:
    """End the array. `failed`: whether a child failed.

    An array with a TerminateJob or a CancelJob is FAILED with the reason of that order, even if all its children
    succeeded. A TerminateJob takes precedence.
    """
    order = job.stop or job.cancel
    if order is not None:
        return move_to_final(job, Status.FAILED, now, order.reason)
    if failed:
        return move_to_final(job, Status.FAILED, now, status_reasons.CHILD_FAILED)
    return move_to_final(job, Status.SUCCEEDED, now, None)


def _cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    return job if job.stop_orders else _begin_to_apply(stopping.with_cancel(job, event, now), now)


def _terminate(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Stop the children, also those that run on after a CancelJob. An array that has ended does not change."""
    if job.stop is not None or _state_of(job).ended_at is not None:
        return job
    return _begin_to_apply(stopping.order_stop(job, event, now), now)


def _force(job: Job, event: on.StopForced, now: datetime) -> Job:
    """Kill the active children, also those that a TerminateJob is stopping already."""
    if _state_of(job).ended_at is not None:
        return job
    forced = stopping.force(job, event, now)
    return job if forced is job else _begin_to_apply(forced, now)


def _begin_to_apply(job: Job, now: datetime) -> Job:
    """Start to apply the array's order, from the first child on. A held array is not held any more."""
    state = _state_of(job)
    reason = job.status_reason if job.hold is None else None
    ordered_at = state.ordered_at or now
    after = replace(state, order_applied_to=0, counted_at=now, ordered_at=ordered_at, passes_hold=False)
    return _with_end_noted(replace(job, array_state=after, hold=None, status_reason=reason), now)


def _ignored(job: Job, _: on.Event, __: datetime) -> Job:
    """An event about the dependencies of the array: they were met before the array had children."""
    return job


def _index(child: Job) -> int:
    assert child.child is not None, f"not a child: {with_history(child)}"
    return child.child.index


def _state_of(job: Job) -> ArrayState:
    assert job.array_state is not None, f"no children yet: {with_history(job)}"
    return job.array_state


_RULES: Mapping[type[on.Event], Callable[..., Job]] = {  # type: ignore[explicit-any]  # as in `transitions`
    on.DependenciesPending: _ignored,
    on.DependenciesMet: _ignored,
    on.DependencyFailed: _ignored,
    on.FoundInvalid: _ignored,
    on.CancelRequested: _cancel,
    on.TerminateRequested: _terminate,
    on.StopForced: _force,
    on.HoldRequested: holds.hold_array,
    on.ReleaseRequested: holds.release_array,
    on.PauseRequested: holds.hold_array,
    on.ResumeRequested: holds.release_array,
}
