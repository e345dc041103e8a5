"""The facts of an order to stop a job: who gave it, when and why, and when the container was signalled and killed."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import child_id
from batchq.domain.lifecycle import arrays, views
from batchq.domain.stop_values import STOPS_ATTEMPT
from tests.domain.lives import after, at, outcome, running
from tests.domain.part_lives import grace_ended, is_signalled, multi_node_job, runs
from tests.support.builders import job

CANCEL = on.CancelRequested(reason="too hot", user="cora")
TERMINATE = on.TerminateRequested(reason="at once", user="ada")


def facts(of):
    return [(order.kind, order.user, order.reason, order.ordered_at) for order in of.stop_orders]


def running_gang():
    return after(multi_node_job(), runs("0/app", address="10.0.0.2"), runs("1/app"), runs("2/app"))


@pytest.mark.parametrize(("requested", "stored"), [(at(720), at(5)), (at(4), at(4))])
@pytest.mark.parametrize("event", [CANCEL, TERMINATE])
def test_an_order_is_not_in_the_future_after_the_clock_was_set_back(event, requested, stored):
    ordered = after(running(), replace(event, requested_at=requested), now=at(5))

    assert [order.ordered_at for order in ordered.stop_orders] == [stored]


def test_a_force_fail_is_stored_after_the_orders_before_it():
    forced = on.ForceFailed(reason="hangs", user="root")
    over = after(after(running(), CANCEL, TERMINATE, now=at(5)), forced, now=at(90))

    assert [order.kind for order in over.stop_orders] == [StopKind.CANCEL, StopKind.TERMINATE, StopKind.FORCE_FAIL]
    assert facts(over)[-1] == (StopKind.FORCE_FAIL, "root", "hangs", at(90))
    assert not over.is_cancelled


def test_a_force_fail_of_a_cancelled_job_has_its_own_reason():
    over = after(running(), CANCEL, on.ForceFailed(reason="hangs", user="root"), now=at(5))

    assert outcome(over) == (Status.FAILED, "Force-failed: hangs", False, False)


@pytest.mark.parametrize("event", [CANCEL, TERMINATE])
def test_a_child_shows_the_author_and_the_time_of_an_order_before_it_existed(event):
    array = job(number=1, array_size=3)
    for index, seconds in [(2, 3), (0, 5)]:
        array = arrays.store_child_order(array, index, event, at(seconds))
    spawned, children = arrays.spawn(arrays.begin_array(array, at(60)), 3, at(60))
    stopped = [arrays.apply_child_order(child, array, at(60)) for child in children]

    assert [facts(other_job) and facts(other_job)[0][1:] for other_job in stopped] == [
        (event.user, event.reason, at(5)),
        [],
        (event.user, event.reason, at(3)),
    ]
    assert len(array.child_orders) == 1
    assert spawned.child_orders == ()
    assert stopped[0].id == child_id(array.id, 0)


def test_a_job_with_several_containers_stores_the_first_signal_and_the_first_kill():
    gang = after(running_gang(), TERMINATE, now=at(5))
    gang = after(gang, is_signalled("1/app"), now=at(6))
    gang = after(gang, is_signalled("0/app"), now=at(7))
    gang = after(gang, grace_ended("1/app"), now=at(40))

    assert (gang.stop.signalled_at, gang.stop.killed_at) == (at(6), at(40))


def test_a_node_that_is_terminated_alone_shows_its_own_order():
    alone = on.TerminateRequested(reason="not you", user="ada", node=1)
    gang = after(after(running_gang(), alone, now=at(5)), is_signalled("1/app"), now=at(6))
    shown = views.node_view(gang, 1)

    assert gang.stop_orders == ()
    assert facts(shown) == [(StopKind.TERMINATE, "ada", "not you", at(5))]
    assert shown.stop.signalled_at == at(6)
    assert views.node_view(gang, 0).stop_orders == ()


def test_only_pauses_terminates_and_timeouts_stop_an_attempt():
    assert {StopKind.PAUSE, StopKind.TERMINATE, StopKind.TIMEOUT} == STOPS_ATTEMPT
