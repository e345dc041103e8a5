"""What becomes of an array's parent: its children are spawned, counted, and told of what was asked of it. Pure.

A parent waits for its own dependencies like any job. Then it has a family, and is PENDING until every child is over;
it never is RUNNABLE. A cancel or a terminate of it is remembered here, and told to the children a few at a time; the
failure of one child of a SEQUENTIAL array likewise fails those after it. What an order decides it decides when it is
given: `sealing` says what that is before they have heard.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import child_id
from batchq.domain.job import (
    ACTIVE,
    FINISHED,
    QUEUED,
    Child,
    ChildOrder,
    Family,
    Job,
    Status,
)
from batchq.domain.lifecycle import stop_order
from batchq.domain.lifecycle.status import end, to, with_history
from batchq.errors import IllegalTransition, Invalid

MAX_CHILD_ORDERS = 32
"""Different orders that an array keeps for children that are not spawned yet: it is saved whole at each."""

Outcome = tuple[Job, tuple[do.Effect, ...]]
Order = on.CancelRequested | on.TerminateRequested | on.DependencyFailed


class Moved(Struct, frozen=True, kw_only=True):
    """A child's change of status; `before` None is its birth."""

    index: int
    before: Status | None
    after: Status


def is_parent(job: Job) -> bool:
    return job.spec.array_size is not None and job.child is None


def begin(job: Job, now: datetime) -> Job:
    """Its dependencies are met: from here on it has children."""
    waiting = job if job.status is Status.PENDING else to(job, Status.PENDING)
    return replace(waiting, family=Family(counted_at=now))


def step(job: Job, event: on.Event, now: datetime) -> Outcome:
    """What follows from an event for a parent whose children live."""
    rule = _RULES.get(type(event))
    if rule is None:
        raise IllegalTransition(f"{type(event).__name__} cannot happen to the parent {with_history(job)}")
    return rule(job, event, now), ()


def size(job: Job) -> int:
    assert job.spec.array_size is not None, f"{job.id} is no array"
    return job.spec.array_size


def at_work(job: Job) -> bool:
    """Whether children are to be spawned, or to be told."""
    if job.family is None or job.status is not Status.PENDING:
        return False
    return spawning(job) or (order(job) is not None and job.family.told < size(job))


def spawning(job: Job) -> bool:
    """Whether there are children yet to come."""
    return job.family is not None and job.status is Status.PENDING and job.family.spawned < size(job)


def order(job: Job) -> Order | None:
    """What its children are to be told, from the `told`th on. While there is an order none of these may start."""
    if job.stop is not None:
        return on.TerminateRequested(reason=job.stop.reason, grace=job.stop.grace, signal=job.stop.signal)
    if job.cancelled is not None:
        return on.CancelRequested(reason=job.cancelled)
    return None if job.family is None else _broken_by(job, job.family)


def _broken_by(job: Job, family: Family) -> on.DependencyFailed | None:
    return None if family.broken_at is None else on.DependencyFailed(job_id=child_id(job.id, family.broken_at))


def untold(job: Job) -> tuple[int, int]:
    """The orders of the first and the last child to which the order to the array has not been applied."""
    return job.order + 1 + _family(job).told, job.order + size(job)


def order_to(child: Job, job: Job) -> Order | None:
    """What a child has yet to hear. To one that waits the first order counts, for that ended it; to others the last."""
    family = job.family
    if family is None or job.status is not Status.PENDING or child.status in FINISHED or _index(child) < family.told:
        return None
    if child.status in QUEUED and job.cancelled is not None:
        return on.CancelRequested(reason=job.cancelled)
    told = order(job)
    may_run = child.status not in {Status.SUBMITTED, Status.PENDING}
    return None if isinstance(told, on.DependencyFailed) and may_run else told


def spawn(job: Job, most: int, now: datetime) -> tuple[Job, tuple[Job, ...]]:
    """The next children, `most` at most. AWS: tags do not come down to them."""
    family = _family(job)
    indices = range(family.spawned, min(family.spawned + most, size(job)))
    children = tuple(
        Job(
            id=child_id(job.id, index),
            order=job.order + 1 + index,
            spec=job.spec,
            created_at=now,
            child=Child(parent=job.id, index=index),
        )
        for index in indices
    )
    orders = job.child_orders if indices.stop < size(job) else ()
    return replace(job, family=replace(family, spawned=indices.stop), child_orders=orders), children


def keep_order(job: Job, index: int, event: on.CancelRequested | on.TerminateRequested) -> Job:
    """Keeps an order to a child that is not spawned yet. The first to each child stands. Raises Invalid."""
    if any(index in it.indices for it in job.child_orders):
        return job
    alike = ChildOrder(indices=(), reason=event.reason, terminate=isinstance(event, on.TerminateRequested))
    if isinstance(event, on.TerminateRequested):
        alike = replace(alike, grace=event.grace, signal=event.signal)
    known = {replace(it, indices=()): it.indices for it in job.child_orders}
    known[alike] = (*known.get(alike, ()), index)
    if len(known) > MAX_CHILD_ORDERS:
        raise Invalid(
            f"Array {job.id} waits, and its children have {MAX_CHILD_ORDERS} different orders to stop already: use one "
            "of their reasons, or stop the array."
        )
    return replace(job, child_orders=tuple(replace(it, indices=indices) for it, indices in known.items()))


def ordered(child: Job, job: Job, now: datetime) -> Job:
    """A child that has just been spawned, FAILED where an order to it was kept."""
    order = next((it for it in job.child_orders if _index(child) in it.indices), None)
    if order is None:
        return child
    if order.terminate:
        event = on.TerminateRequested(reason=order.reason, grace=order.grace, signal=order.signal)
        return end(stop_order.order(child, event, now), Status.FAILED, now, order.reason)
    return end(replace(child, cancelled=order.reason), Status.FAILED, now, order.reason)


def pass_order(job: Job, most: int) -> tuple[Job, range]:
    """The indices of the next children to hear of the order, `most` at most, of those that are there."""
    family = _family(job)
    indices = range(family.told, min(family.told + most, family.spawned))
    return replace(job, family=replace(family, told=indices.stop)), indices


def count(job: Job, moves: Iterable[Moved], now: datetime) -> Job:
    """The parent after its children moved. AWS: over when all of them are, SUCCEEDED if every one has."""
    family = _family(job)
    counts = Counter(dict(family.counts))
    for move in moves:
        counts[move.after] += 1
        if move.before is not None:
            counts[move.before] -= 1
        if move.after is Status.FAILED and job.spec.sequential:
            family = _broken(job, family, move.index)
    after = _sealed(replace(job, family=replace(family, counts=_kept(counts), counted_at=now)), now)
    over = sum(counts[status] for status in FINISHED) == size(job)
    return _finish(after, _family(after).over_at or now, failed=counts[Status.FAILED] > 0) if over else after


def foreseen(job: Job, over_at: datetime | None) -> Job:
    """One under order as it is once all have heard: who waits has failed. `over_at` None: some are under way still."""
    family = _family(job)
    counts = Counter(dict(family.counts))
    for status in QUEUED:
        counts[Status.FAILED] += counts.pop(status, 0)
    after = replace(job, family=replace(family, counts=_kept(counts)))
    return after if over_at is None else _finish(after, over_at, failed=True)


def _kept(counts: Mapping[Status, int]) -> tuple[tuple[Status, int], ...]:
    return tuple((status, counts[status]) for status in Status if counts.get(status))


def _broken(job: Job, family: Family, index: int) -> Family:
    """The first child that failed counts, by index. Under an order of its own the parent tells that."""
    if job.stop is not None or job.cancelled is not None:
        return family
    if family.broken_at is not None and family.broken_at <= index:
        return family
    return replace(family, broken_at=index, told=index + 1)


def _sealed(job: Job, now: datetime) -> Job:
    """Under order, with every child there and none under way, it is over, and was counted for the last time."""
    family = _family(job)
    if family.over_at is not None:
        return replace(job, family=replace(family, counted_at=family.over_at))
    counts = dict(family.counts)
    if family.ordered_at is None or spawning(job) or any(counts.get(status) for status in ACTIVE):
        return job
    return replace(job, family=replace(family, over_at=now, counted_at=now))


def _finish(job: Job, now: datetime, *, failed: bool) -> Job:
    """Whose reason it carries: the terminate's, the cancel's (also if every child got through), or its children's."""
    if job.stop is not None:
        return end(replace(job, cancelled=None), Status.FAILED, now, job.stop.reason)
    if job.cancelled is not None:
        return end(job, Status.FAILED, now, job.cancelled)
    return (
        end(job, Status.FAILED, now, status_reasons.CHILD_FAILED) if failed else end(job, Status.SUCCEEDED, now, None)
    )


def _cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    if job.cancelled is not None or job.stop is not None:
        return job
    return _tell_all(replace(job, cancelled=event.reason), now)


def _terminate(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Also after a cancel, which the children that run have not felt. If none does, that has ended it."""
    if job.stop is not None or _family(job).over_at is not None:
        return job
    return _tell_all(stop_order.order(job, event, now), now)


def _tell_all(job: Job, now: datetime) -> Job:
    family = _family(job)
    ordered_at = family.ordered_at or now
    return _sealed(replace(job, family=replace(family, told=0, counted_at=now, ordered_at=ordered_at)), now)


def _ignored(job: Job, _: on.Event, __: datetime) -> Job:
    """What it waited for is behind it."""
    return job


def _index(child: Job) -> int:
    assert child.child is not None, f"no child: {with_history(child)}"
    return child.child.index


def _family(job: Job) -> Family:
    assert job.family is not None, f"no children yet: {with_history(job)}"
    return job.family


_RULES: Mapping[type[on.Event], Callable[..., Job]] = {  # type: ignore[explicit-any]  # as in `lifecycle`
    on.DependenciesPending: _ignored,
    on.DependenciesMet: _ignored,
    on.DependencyFailed: _ignored,
    on.FoundInvalid: _ignored,
    on.CancelRequested: _cancel,
    on.TerminateRequested: _terminate,
}
