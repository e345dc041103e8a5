"""The facts of an order to stop a job: who gave it, when and why, and when the container was signalled and killed."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.ids import child_id
from batchq.domain.job import Status
from batchq.domain.lifecycle import arrays, node_view
from batchq.domain.lifecycle.array_view import apply_order
from batchq.domain.lifecycle.clock_shift import ClockShift, shifted
from batchq.domain.lifecycle.transitions import step
from batchq.domain.stop_orders import STOPS_ATTEMPT, StopKind
from tests.domain.lives import after, asked, at, exited, grace_over, pending, runnable, running, starting, timed_out
from tests.domain.part_lives import ganged, is_asked, runs
from tests.domain.part_lives import grace_over as grace_over_of
from tests.support.builders import NOON, job

CANCEL = on.CancelRequested(reason="too hot", user="cora")
TERMINATE = on.TerminateRequested(reason="at once", user="ada")


def facts(of):
    return [(it.kind, it.user, it.reason, it.ordered_at) for it in of.stop_orders]


def running_gang():
    return after(ganged(), runs("0/app", address="10.0.0.2"), runs("1/app"), runs("2/app"))


@pytest.mark.parametrize("queued", [pending, runnable])
@pytest.mark.parametrize(("event", "kind"), [(CANCEL, StopKind.CANCEL), (TERMINATE, StopKind.TERMINATE)])
def test_a_queued_job_shows_who_stopped_it(queued, event, kind):
    over = after(queued(), event, now=at(5))

    assert facts(over) == [(kind, event.user, event.reason, at(5))]
    assert (over.stop_orders[0].signalled_at, over.stop_orders[0].killed_at) == (None, None)


@pytest.mark.parametrize("active", [starting, running])
def test_a_cancel_of_an_active_job_is_shown_at_once_and_after_its_end(active):
    cancelled = after(active(attempts=3), CANCEL, now=at(5))
    over = after(cancelled, exited(1), now=at(9))

    assert (cancelled.status, facts(cancelled)) == (active().status, [(StopKind.CANCEL, "cora", "too hot", at(5))])
    assert (over.status, over.status_reason, over.is_cancelled) == (Status.FAILED, "too hot", True)
    assert facts(over) == facts(cancelled)


@pytest.mark.parametrize(("requested", "stored"), [(at(720), at(5)), (at(4), at(4))])
@pytest.mark.parametrize("event", [CANCEL, TERMINATE])
def test_an_order_is_not_in_the_future_after_the_clock_was_set_back(event, requested, stored):
    ordered = after(running(), replace(event, requested_at=requested), now=at(5))

    assert [it.ordered_at for it in ordered.stop_orders] == [stored]


def test_a_cancel_of_a_job_that_succeeds_stays_visible_and_is_no_cancel():
    over = after(running(), CANCEL, exited(0), now=at(5))

    assert (over.status, over.is_cancelled, facts(over)) == (
        Status.SUCCEEDED,
        False,
        [(StopKind.CANCEL, "cora", "too hot", at(5))],
    )


def test_a_terminate_after_a_cancel_leaves_both_orders():
    both = after(after(running(), CANCEL, now=at(5)), TERMINATE, now=at(6))
    over = after(both, exited(143), now=at(9))

    assert facts(both) == [(StopKind.CANCEL, "cora", "too hot", at(5)), (StopKind.TERMINATE, "ada", "at once", at(6))]
    assert (over.status_reason, over.is_cancelled, over.is_terminated) == ("at once", False, True)
    assert facts(over) == facts(both)


def test_a_later_order_that_changes_nothing_is_not_stored():
    first = after(running(), TERMINATE, now=at(5))

    for late in (on.TerminateRequested(reason="again", user="bob"), CANCEL, timed_out()):
        assert step(first, late, at(6)) == (first, ())


def test_a_timeout_is_an_order_of_the_server():
    stopped = after(running(timeout=timedelta(seconds=5)), timed_out(), now=at(5))

    assert [(it.kind, it.user, it.ordered_at) for it in stopped.stop_orders] == [(StopKind.TIMEOUT, "", at(5))]


def test_a_force_fail_is_stored_after_the_orders_before_it():
    forced = on.ForceFailed(reason="hangs", user="root")
    over = after(after(running(), CANCEL, TERMINATE, now=at(5)), forced, now=at(90))

    assert [it.kind for it in over.stop_orders] == [StopKind.CANCEL, StopKind.TERMINATE, StopKind.FORCE_FAIL]
    assert facts(over)[-1] == (StopKind.FORCE_FAIL, "root", "hangs", at(90))
    assert not over.is_cancelled


def test_a_forced_job_that_was_cancelled_is_not_shown_as_cancelled():
    over = after(running(), CANCEL, on.ForceFailed(reason="hangs", user="root"), now=at(5))

    assert (over.status, over.is_cancelled, over.is_terminated) == (Status.FAILED, False, False)


def test_the_first_signal_and_the_first_kill_are_stored():
    job = after(running(stop_grace=timedelta(seconds=2)), TERMINATE, now=at(5))
    for seconds, event in [(6, asked()), (7, asked()), (8, grace_over()), (13, grace_over())]:
        job = after(job, event, now=at(seconds))
    over = after(job, exited(137), now=at(14))

    assert (over.stop.ordered_at, over.stop.signalled_at, over.stop.killed_at) == (at(5), at(6), at(8))


def test_the_signal_is_stored_with_the_order_that_sent_it():
    both = after(running(), CANCEL, TERMINATE, asked(), now=at(5))

    assert [it.signalled_at for it in both.stop_orders] == [None, at(5)]


def test_a_request_keeps_the_time_at_which_it_was_accepted():
    request = on.TerminateRequested(reason="all of them", user="ada", requested_at=at(2))

    assert after(running(), request, now=at(5)).stop.ordered_at == at(2)


@pytest.mark.parametrize("event", [CANCEL, TERMINATE])
@pytest.mark.parametrize("status", [Status.RUNNABLE, Status.RUNNING])
def test_a_child_shows_the_author_and_the_time_of_the_order_to_its_array(event, status):
    array = arrays.begin(job(number=1, array_size=1), NOON)
    spawned, (child,) = arrays.spawn(array, 1, NOON)
    child = after(child, on.DependenciesMet())
    if status is Status.RUNNING:
        child = after(child, on.Placed(environment="local"), on.ContainerStarted(attempt=1, started_at=NOON))
    ordered, _ = arrays.step(spawned, event, at(5))

    stopped, _ = apply_order(child, ordered, at(60))

    assert facts(stopped) == facts(ordered) == [(stopped.stop_orders[0].kind, event.user, event.reason, at(5))]


@pytest.mark.parametrize("event", [CANCEL, TERMINATE])
def test_a_child_shows_the_author_and_the_time_of_an_order_before_it_existed(event):
    array = job(number=1, array_size=3)
    for index, seconds in [(2, 3), (0, 5)]:
        array = arrays.store_child_order(array, index, event, at(seconds))
    spawned, children = arrays.spawn(arrays.begin(array, at(60)), 3, at(60))
    stopped = [arrays.apply_child_order(child, array, at(60)) for child in children]

    assert [facts(it) and facts(it)[0][1:] for it in stopped] == [
        (event.user, event.reason, at(5)),
        [],
        (event.user, event.reason, at(3)),
    ]
    assert len(array.child_orders) == 1
    assert spawned.child_orders == ()
    assert stopped[0].id == child_id(array.id, 0)


def test_a_job_with_several_containers_stores_the_first_signal_and_the_first_kill():
    gang = after(running_gang(), TERMINATE, now=at(5))
    gang = after(gang, is_asked("1/app"), now=at(6))
    gang = after(gang, is_asked("0/app"), now=at(7))
    gang = after(gang, grace_over_of("1/app"), now=at(40))

    assert (gang.stop.signalled_at, gang.stop.killed_at) == (at(6), at(40))


def test_a_node_that_is_terminated_alone_shows_its_own_order():
    alone = on.TerminateRequested(reason="not you", user="ada", node=1)
    gang = after(after(running_gang(), alone, now=at(5)), is_asked("1/app"), now=at(6))
    shown = node_view.view(gang, 1)

    assert gang.stop_orders == ()
    assert facts(shown) == [(StopKind.TERMINATE, "ada", "not you", at(5))]
    assert shown.stop.signalled_at == at(6)
    assert node_view.view(gang, 0).stop_orders == ()


def test_the_times_of_an_order_follow_a_clock_that_was_set():
    stopped = after(after(running(), TERMINATE, now=at(5)), asked(), now=at(6))
    hour = timedelta(hours=1)

    moved = shifted(stopped, ClockShift(by=hour, since=NOON, until=at(10)))

    assert (moved.stop.ordered_at, moved.stop.signalled_at) == (at(5) + hour, at(6) + hour)


def test_only_pauses_terminates_and_timeouts_stop_an_attempt():
    assert {StopKind.PAUSE, StopKind.TERMINATE, StopKind.TIMEOUT} == STOPS_ATTEMPT
