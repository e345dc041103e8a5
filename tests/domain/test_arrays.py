"""The parent of an array: its children, the orders that it passes on, and its end. aws-batch.md 5.5 and 8."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as any_

from batchq.domain import events as on
from batchq.domain.enums import FINISHED, DependencyType, Status
from batchq.domain.job import ArrayState, Dependency
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.arrays import Moved
from batchq.domain.lifecycle.transitions import step
from batchq.errors import IllegalTransition, Invalid
from tests.support import builders
from tests.support.builders import NOON, job_id

SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
FAILED_BEFORE = on.DependencyFailed(job_id=job_id(7))
LATER = NOON + timedelta(seconds=5)


def parent(size=3, **changes):
    waiting = builders.job(array_size=size, **changes)
    begun, effects = step(waiting, on.DependenciesMet(), NOON)
    assert effects == ()
    return begun


def with_children(size=3, **changes):
    after, _ = arrays.spawn(parent(size, **changes), size, NOON)
    return arrays.count_children(
        after, [Moved(index=i, before=None, after=Status.SUBMITTED) for i in range(size)], NOON
    )


def ended(job, *statuses):
    moves = [Moved(index=i, before=Status.SUBMITTED, after=status) for i, status in enumerate(statuses)]
    return arrays.count_children(job, moves, LATER)


def with_order(job, event):
    after, effects = step(job, event, LATER)
    assert effects == ()
    return after


CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")


def test_an_array_is_pending_and_spawns_once_its_dependencies_are_met():
    for status in (Status.SUBMITTED, Status.PENDING):
        begun = parent(status=status)
        assert (begun.status, begun.array_state) == (Status.PENDING, ArrayState(counted_at=NOON))


def test_children_share_the_spec_and_have_the_next_orders():
    after, children = arrays.spawn(parent(5, sequence=10), 2, LATER)

    assert [(child.id, child.sequence, child.child.index) for child in children] == [
        (f"{after.id}:0", 11, 0),
        (f"{after.id}:1", 12, 1),
    ]
    assert all(child.spec is after.spec and child.created_at == LATER and child.tags == () for child in children)
    assert after.array_state.spawned == 2
    assert [job.child.index for job in arrays.spawn(after, 250, LATER)[1]] == [2, 3, 4]


def test_a_terminate_after_a_cancel_is_applied_to_all_children_again():
    one_runs = ended(with_children(), Status.RUNNING)
    cancelled, result = arrays.pass_order(with_order(one_runs, CANCEL), 2)
    assert result == range(2)

    both = with_order(cancelled, TERMINATE)

    assert arrays.order(both) == on.TerminateRequested(reason="now", grace=timedelta(seconds=30), requested_at=LATER)
    assert arrays.pass_order(both, 250)[1] == range(3)
    moves = [Moved(index=0, before=Status.RUNNING, after=Status.FAILED)]
    moves += [Moved(index=index, before=Status.SUBMITTED, after=Status.FAILED) for index in (1, 2)]
    over = arrays.count_children(both, moves, LATER)
    assert (over.status_reason, over.is_cancelled, over.is_terminated) == ("now", False, True)


@pytest.mark.parametrize("first", [CANCEL, TERMINATE])
@pytest.mark.parametrize("second", [on.CancelRequested(reason="again"), on.TerminateRequested(reason="again")])
def test_the_first_order_stands_except_that_a_terminate_follows_a_cancel(first, second):
    once = with_order(ended(with_children(), Status.RUNNING), first)
    twice = with_order(once, second)

    upgraded = isinstance(first, on.CancelRequested) and isinstance(second, on.TerminateRequested)
    assert (twice == once) is not upgraded


def test_a_second_failure_changes_nothing():
    broken = ended(with_children(4, depends_on=[SEQUENTIAL]), Status.SUCCEEDED, Status.FAILED)
    result, _ = arrays.pass_order(broken, 1)

    again = arrays.count_children(result, [Moved(index=2, before=Status.SUBMITTED, after=Status.FAILED)], LATER)

    assert (again.array_state.failed_index, again.array_state.order_applied_to) == (1, 3)


@pytest.mark.parametrize("order", [CANCEL, TERMINATE])
def test_a_failure_under_an_order_changes_no_other_child(order):
    ordered = with_order(ended(with_children(4, depends_on=[SEQUENTIAL]), Status.RUNNING), order)

    after = arrays.count_children(ordered, [Moved(index=0, before=Status.RUNNING, after=Status.FAILED)], LATER)

    assert arrays.order(after) == arrays.order(ordered)
    assert arrays.pass_order(after, 250)[1] == range(4)


def test_a_spawned_array_ignores_its_dependencies():
    begun = parent()
    for event in (on.DependenciesMet(), on.DependenciesPending(), FAILED_BEFORE, on.FoundInvalid(reason="?")):
        assert step(begun, event, LATER) == (begun, ())


def test_an_array_is_never_placed():
    with pytest.raises(IllegalTransition):
        step(parent(), on.Placed(environment="local"), LATER)


@pytest.mark.parametrize(
    ("job", "at_work"),
    [
        (builders.job(), False),
        (parent(), True),
        (with_children(), False),
        (with_order(with_children(), CANCEL), True),
        (arrays.pass_order(with_order(with_children(), CANCEL), 250)[0], False),
        (ended(with_children(), *(Status.FAILED,) * 3), False),
    ],
)
def test_an_array_has_work_while_children_are_to_be_spawned_or_stopped(job, at_work):
    assert arrays.at_work(job) is at_work


MOVES = any_.lists(
    any_.tuples(
        any_.sampled_from(["spawn", "pass on", "cancel", "terminate", "end"]), any_.integers(1, 4), any_.booleans()
    ),
    max_size=40,
)


@given(size=any_.integers(2, 12), sequential=any_.booleans(), moves=MOVES)
def test_the_counts_are_correct_and_the_array_ends_in_every_history(size, sequential, moves):
    """A model of one array: of its children it has the statuses alone."""
    job, children = parent(size, depends_on=[SEQUENTIAL] if sequential else []), {}
    for move in [*moves, *[("spawn", size, True), ("pass on", size, True)] * 2, ("end", size, True)]:
        job = _move(job, children, *move)
        assert dict(job.array_state.counts) == {
            child: list(children.values()).count(child) for child in set(children.values())
        }
        assert job.array_state.order_applied_to <= job.array_state.spawned <= size
    assert job.status in FINISHED
    if job.is_cancelled or job.is_terminated:
        assert job.status is Status.FAILED


def _move(job, children, what, most, well):
    if job.status in FINISHED:
        return job
    moved = []
    match what:
        case "spawn":
            job, born = arrays.spawn(job, most, NOON)
            moved = [Moved(index=other_job.child.index, before=None, after=Status.RUNNABLE) for other_job in born]
        case "pass on":
            order = arrays.order(job)
            if order is None:
                return job
            job, indices = arrays.pass_order(job, most)
            ends = [index for index in indices if children[index] not in FINISHED]
            moved = [Moved(index=index, before=children[index], after=Status.FAILED) for index in ends]
        case "cancel":
            return with_order(job, CANCEL)
        case "terminate":
            return with_order(job, TERMINATE)
        case "end":
            status = Status.SUCCEEDED if well else Status.FAILED
            waiting = [index for index in sorted(children) if children[index] not in FINISHED][:most]
            moved = [Moved(index=index, before=children[index], after=status) for index in waiting]
    children.update({move.index: move.after for move in moved})
    return arrays.count_children(job, moved, NOON)


def test_orders_for_unspawned_children_are_merged():
    array = builders.job(array_size=10_000)
    for index in range(5000):
        array = arrays.store_child_order(array, index, on.CancelRequested(reason="one reason"), NOON)
    for index in range(arrays.MAX_CHILD_ORDERS - 1):
        array = arrays.store_child_order(array, 5000 + index, on.TerminateRequested(reason=f"reason {index}"), NOON)

    assert arrays.store_child_order(array, 0, on.TerminateRequested(reason="another"), NOON) is array
    assert len(array.child_orders) == arrays.MAX_CHILD_ORDERS
    with pytest.raises(Invalid, match="different orders"):
        arrays.store_child_order(array, 9999, on.TerminateRequested(reason="another"), NOON)
