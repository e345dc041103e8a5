"""The view of an order to an array before it is applied to the children equals the result of its application."""

from datetime import timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import DependencyType
from batchq.domain.enums import Status as Is
from batchq.domain.job import Dependency
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.arrays import Moved
from batchq.domain.lifecycle.transitions import step
from batchq.domain.lifecycle.views import PendingArrayOrders, apply_order, has_pending_order
from tests.support import builders
from tests.support.builders import NOON
from tests.support.builders import cancel as cancel_order

ORDERED, THEN, LATER = (NOON + timedelta(seconds=seconds) for seconds in (5, 7, 9))
CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


def family(*statuses, size=None, born=NOON, **changes):
    """An array whose first children are in these statuses, and these."""
    waiting = builders.job(array_size=size or len(statuses), **changes)
    parent, children = arrays.spawn(step(waiting, on.DependenciesMet(), NOON)[0], len(statuses), born)
    children = [builders.job(**_members(child, status)) for child, status in zip(children, statuses, strict=True)]
    moves = [Moved(index=child.child.index, before=None, after=child.status) for child in children]
    return arrays.count_children(parent, moves, NOON), children


def _members(child, status):
    members = {name: getattr(child, name) for name in ("id", "sequence", "spec", "created_at", "child")}
    return members | {"status": status}


def result(parent, *events, at=ORDERED):
    for event in events:
        parent, _ = step(parent, event, at)
    return parent


def sealed(*parents):
    return PendingArrayOrders({parent.id: parent for parent in parents})


def test_an_order_is_applied_to_a_child_once():
    parent, (child, other) = family(Is.RUNNING, Is.RUNNING)
    half, _ = arrays.pass_order(result(parent, TERMINATE), 1)

    assert apply_order(child, half, LATER) == (child, ())
    assert apply_order(other, half, LATER)[0].stop is not None


def test_a_queued_child_ends_by_the_cancel_of_its_array_and_not_by_a_later_terminate():
    parent, (queued, active) = family(Is.RUNNABLE, Is.RUNNING)

    stopped = result(parent, CANCEL, TERMINATE)

    assert arrays.order_to(queued, stopped).reason == CANCEL.reason
    assert arrays.order_to(active, stopped).reason == TERMINATE.reason
    ended, _ = apply_order(queued, stopped, LATER)
    assert (ended.status_reason, ended.is_cancelled, ended.is_terminated) == ("enough", True, False)


def test_an_order_without_a_time_counts_when_it_is_applied():
    parent, (child, _) = family(Is.RUNNABLE, Is.RUNNABLE)
    old = replace(parent, stop_orders=(cancel_order("enough"),))

    assert not has_pending_order(old)
    assert apply_order(child, old, LATER)[0].stopped_at == LATER


def test_a_child_that_is_spawned_after_the_order_ends_when_it_is_created():
    parent, (child,) = family(Is.RUNNABLE, born=THEN)

    assert apply_order(child, result(parent, CANCEL), LATER)[0].stopped_at == THEN


def test_a_failure_in_a_sequential_array_is_not_applied_to_earlier_children():
    """A restored backup may have such an array: the running child is found, and the child before it is lost."""
    parent, (_, waits, runs) = family(Is.RUNNING, Is.PENDING, Is.RUNNING, depends_on=[SEQUENTIAL])
    broken = arrays.count_children(parent, [Moved(index=0, before=Is.RUNNING, after=Is.FAILED)], NOON)

    assert apply_order(waits, broken, LATER)[0].status is Is.FAILED
    assert apply_order(runs, broken, LATER) == (runs, ())


def test_an_array_is_shown_with_the_children_of_the_list():
    parent, _ = family(Is.RUNNABLE, Is.RUNNING)
    known = result(parent, CANCEL)
    stored = arrays.count_children(known, [Moved(index=1, before=Is.RUNNING, after=Is.SUCCEEDED)], THEN)

    shown = sealed(known).project(stored)

    assert (sealed(known).ended_arrays, shown.status) == (frozenset(), Is.PENDING)


def test_other_jobs_are_shown_unchanged():
    parent, (child, active) = family(Is.RUNNABLE, Is.RUNNING)
    other = builders.job()

    assert [sealed().project(job) for job in (parent, child, other)] == [parent, child, other]
    assert sealed(result(parent, TERMINATE)).project(active) == active
