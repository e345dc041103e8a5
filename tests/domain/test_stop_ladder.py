"""The signals of a stop, in order: the final checkpoint, the stop signal, SIGKILL. training.md 1.5."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.checkpoints import CheckpointRules
from batchq.domain.job import Status
from batchq.domain.lifecycle import arrays, stop_order
from batchq.domain.lifecycle.array_view import apply_order
from batchq.domain.lifecycle.clock_shift import ClockShift, bounded, shifted
from batchq.domain.lifecycle.deadlines import next_wakeup
from batchq.domain.lifecycle.ladder import KILL_AGAIN, latest_kill, may_repeat_at
from batchq.domain.lifecycle.reconcile import effects_for
from batchq.domain.stop_orders import SignalStep, StopKind, StopProgress
from tests.domain.lives import (
    after,
    asked,
    at,
    cancel,
    due_event,
    exited,
    force,
    grace_over,
    lived,
    lost,
    requested,
    runnable,
    running,
    seen,
    started,
    starting,
    terminate,
    timed_out,
)
from tests.domain.part_lives import app, asks, ends, ganged, in_words, is_asked, part, runs, sidecar, states, tasked
from tests.domain.part_lives import grace_over as grace_over_of
from tests.support.builders import NOON, gang, task

GRACE = timedelta(seconds=30)
USR1 = CheckpointRules(signal="USR1", timeout=timedelta(minutes=2))
NO_SIGNAL = CheckpointRules(timeout=timedelta(minutes=2))
CHECKPOINT = terminate("enough", checkpoint=True)


def trains(rules=USR1, **changes):
    """RUNNING since noon, with a checkpoint directory."""
    return running(checkpoints=rules, **changes)


def signals(effects):
    return [in_words_of(it) for it in effects]


def in_words_of(effect):
    return f"send {effect.signal}" if isinstance(effect, do.StopContainer) else type(effect).__name__


def sent(job, *events, now=NOON):
    return signals(lived(job, *events, now=now)[1])


# ----------------------------------------------------------------------------------------------------- final checkpoint


def test_the_checkpoint_signal_comes_first_and_its_wait_counts_from_its_delivery():
    job, effects = lived(trains(), CHECKPOINT, now=at(0))

    job = after(job, asked(), now=at(3))

    assert signals(effects) == ["send SIGUSR1"]
    assert (next_wakeup(job), job.stop.checkpoint_requested_at, job.stop.signalled_at) == (at(123), at(3), None)
    assert (job.stop.final_checkpoint_requested, job.stop.final_checkpoint) == (True, None)


def test_a_checkpoint_signal_that_is_saved_as_sent_is_repeated_only_after_its_whole_wait():
    job = after(trains(), CHECKPOINT, requested(), now=at(0))

    assert (job.stop.checkpoint_requested_at, next_wakeup(job)) == (at(0), None)
    assert may_repeat_at(job.stop) == at(120)
    assert may_repeat_at(after(job, requested(), now=at(130)).stop) == at(250)
    assert may_repeat_at(after(job, asked(), now=at(3)).stop) is None
    assert after(job, requested(step=1), now=at(5)) == job


def test_a_checkpoint_ends_its_step_and_the_stop_signal_follows_with_the_whole_grace():
    job, effects = lived(after(trains(), CHECKPOINT, asked()), seen("epoch-7"), now=at(9))

    job = after(job, asked(step=1), now=at(10))

    assert effects == (do.StopContainer(tag=job.tag, step=1, signal=None),)
    assert (job.stop.final_checkpoint, job.stop.checkpoint_seen_at, job.stop.checkpoint_error) == (
        "epoch-7",
        at(9),
        None,
    )
    assert (next_wakeup(job), job.stop.signalled_at) == (at(10) + GRACE, at(10))


def test_without_a_checkpoint_the_stop_signal_follows_after_the_timeout():
    job, effects = lived(after(trains(), CHECKPOINT, asked(), now=at(0)), grace_over(), now=at(120))

    assert signals(effects) == ["send None"]
    assert (job.stop.final_checkpoint, job.stop.checkpoint_error) == (None, "none after 120 s")


def test_sigkill_follows_the_last_step_and_is_repeated():
    job = after(trains(), CHECKPOINT, asked(), grace_over(), asked(step=1))

    job, effects = lived(job, grace_over(), now=at(200))

    assert signals(effects) == ["KillContainer"]
    assert (job.stop.killed_at, next_wakeup(job)) == (at(200), at(200) + KILL_AGAIN)
    assert sent(job, grace_over(), now=at(205)) == ["KillContainer"]


def test_a_late_delivery_of_an_earlier_step_starts_no_wait():
    job = after(trains(), CHECKPOINT, seen())

    assert lived(job, asked(step=0)) == (job, ())
    assert next_wakeup(job) is None


def test_the_first_checkpoint_is_the_final_one():
    job = after(trains(), CHECKPOINT, asked(), seen("epoch-7"))

    assert lived(job, seen("epoch-8"), now=at(5)) == (job, ())


def test_a_checkpoint_after_the_timeout_is_still_the_final_one():
    job = after(trains(), CHECKPOINT, asked(), grace_over(), asked(step=1), seen("epoch-7"))

    assert (job.stop.final_checkpoint, job.stop.checkpoint_error, job.stop.step) == ("epoch-7", None, 1)


def test_a_checkpoint_that_is_found_after_the_end_is_stored_and_changes_nothing_else():
    over = after(trains(), CHECKPOINT, asked(), exited(0))

    found, effects = lived(over, seen("epoch-7"), now=at(4))

    assert (found.stop.final_checkpoint, effects) == ("epoch-7", ())
    assert replace(found, stop_orders=over.stop_orders) == over
    assert lived(over, seen("epoch-7", attempt=2)) == (over, ())


def test_without_a_declared_signal_the_stop_signal_is_the_request_and_has_the_longer_time():
    job, effects = lived(trains(NO_SIGNAL), CHECKPOINT)

    job = after(job, asked(), now=at(1))

    assert signals(effects) == ["send None"]
    assert (next_wakeup(job), job.stop.final_checkpoint_requested) == (at(121), True)
    assert lived(job, seen("epoch-7"))[1] == ()
    assert after(job, seen("epoch-7")).stop.final_checkpoint == "epoch-7"


@pytest.mark.parametrize("rules", [None, NO_SIGNAL, USR1])
def test_without_a_request_for_a_checkpoint_no_checkpoint_signal_is_sent(rules):
    job, effects = lived(trains(rules), terminate())

    assert signals(effects) == ["send None"]
    assert job.stop.steps == (SignalStep(wait=GRACE),)
    assert not job.stop.final_checkpoint_requested


def test_a_job_without_a_checkpoint_directory_is_stopped_without_a_checkpoint():
    job = after(running(), CHECKPOINT)

    assert (job.stop.steps, job.stop.final_checkpoint_requested) == ((SignalStep(wait=GRACE),), False)


@pytest.mark.parametrize("job", [runnable(checkpoints=USR1), starting(checkpoints=USR1)])
def test_a_job_that_does_not_run_is_stopped_without_a_checkpoint(job):
    assert not after(job, CHECKPOINT).stop.final_checkpoint_requested


def test_a_container_that_starts_after_the_order_gets_the_stop_signal_only():
    assert sent(after(starting(checkpoints=USR1), CHECKPOINT), started()) == ["send None"]


def test_the_signal_and_the_grace_of_the_request_are_those_of_the_stop_step():
    job = after(trains(), on.TerminateRequested(reason="", grace=timedelta(0), signal="SIGINT", checkpoint=True))

    assert job.stop.steps[1] == SignalStep(signal="SIGINT", wait=timedelta(0))


def test_a_timeout_requests_a_final_checkpoint_if_the_job_declares_a_signal():
    minute = timedelta(minutes=1)

    job = after(trains(timeout=minute), timed_out(), asked(), seen("epoch-7"), now=at(60))

    assert sent(trains(timeout=minute), timed_out()) == ["send SIGUSR1"]
    assert (job.stop.kind, job.stop.final_checkpoint) == (StopKind.TIMEOUT, "epoch-7")
    assert sent(trains(NO_SIGNAL, timeout=minute), timed_out()) == ["send None"]
    assert not after(trains(NO_SIGNAL, timeout=minute), timed_out()).stop.final_checkpoint_requested


@pytest.mark.parametrize("event", [terminate("again"), cancel("again"), CHECKPOINT, timed_out()])
def test_the_first_order_stands(event):
    job = after(trains(timeout=timedelta(0)), terminate("first"))

    assert lived(job, event, now=at(5)) == (job, ())


@pytest.mark.parametrize("end", [exited(0), exited(1), lost()])
def test_the_end_of_the_container_in_the_checkpoint_step_ends_the_job(end):
    job, effects = lived(after(trains(retry=running().spec.retry), CHECKPOINT, asked()), end)

    assert (job.status, job.status_reason, signals(effects)) == (Status.FAILED, "enough", ["CleanUpContainer"])


def test_the_history_shows_each_step_of_the_ladder():
    events = [CHECKPOINT, asked(), seen("epoch-7"), asked(step=1), grace_over()]
    job, found = trains(), []
    for event in events:
        later = after(job, event)
        found += stop_order.steps(job, later)
        job = later

    assert [it.progress for it in found] == [
        StopProgress.ORDERED,
        StopProgress.CHECKPOINT_REQUESTED,
        StopProgress.CHECKPOINT_SEEN,
        StopProgress.SIGNALLED,
        StopProgress.KILLED,
    ]
    assert [it.checkpoint for it in found] == [None, None, "epoch-7", None, None]


# --------------------------------------------------------------------------------------------------------------- force


def test_force_kills_a_running_job_at_once():
    job, effects = lived(trains(), force("at once", "ada"), now=at(5))

    assert signals(effects) == ["KillContainer"]
    assert (job.stop.kind, job.stop.reason, job.stop.forced_at, job.stop.forced_by) == (
        StopKind.TERMINATE,
        "at once",
        at(5),
        "ada",
    )
    assert (job.stop.killed_at, next_wakeup(job)) == (at(5), at(5) + KILL_AGAIN)


@pytest.mark.parametrize(
    "before", [(), (asked(),), (asked(), seen()), (asked(), seen(), asked(step=1)), (asked(), grace_over())]
)
def test_force_ends_a_stop_at_any_step_and_keeps_its_reason(before):
    stopping = after(trains(), CHECKPOINT, *before, now=at(1))

    job, effects = lived(stopping, force("now", "ada"), now=at(5))

    assert signals(effects) == ["KillContainer"]
    assert (job.stop.reason, job.stop.ordered_at, job.stop.forced_at, job.status_reason) == (
        "enough",
        at(1),
        at(5),
        "enough",
    )
    assert sent(job, asked(), asked(step=1), seen("late")) == []


def test_force_shows_that_the_final_checkpoint_is_missing():
    assert after(trains(), CHECKPOINT, asked(), force()).stop.checkpoint_error == "forced"
    assert after(trains(), CHECKPOINT, asked(), seen(), force()).stop.checkpoint_error is None


def test_a_second_force_changes_nothing():
    job = after(trains(), force("first"))

    assert lived(job, force("second"), now=at(3)) == (job, ())


def test_force_abandons_a_start_and_kills_a_container_that_starts_anyway():
    job, effects = lived(starting(checkpoints=USR1), force())

    assert signals(effects) == ["AbandonStart"]
    assert sent(job, started(), now=at(4)) == ["KillContainer"]
    assert next_wakeup(after(job, started(), now=at(4))) == at(4) + KILL_AGAIN


def test_force_on_a_start_that_is_abandoned_kills_the_container_if_it_runs():
    job = after(starting(), terminate(), force())

    assert sent(job, started()) == ["KillContainer"]


def test_force_ends_a_queued_job_as_a_terminate_does():
    assert after(runnable(), force("now")).status is Status.FAILED
    assert after(runnable(), force("now")).is_terminated


def test_force_shortens_a_timeout_and_keeps_its_kind():
    job = after(trains(timeout=timedelta(0)), timed_out(), asked(), force())

    assert (job.stop.kind, job.stop.killed_at) == (StopKind.TIMEOUT, NOON)


def test_an_array_passes_force_on_to_children_that_are_stopping():
    spec = runnable(array_size=2, checkpoints=USR1)
    parent = arrays.begin(replace(spec, status=Status.PENDING), NOON)
    parent, _ = arrays.spawn(parent, 2, NOON)
    parent = arrays.count(parent, [arrays.Moved(index=0, before=None, after=Status.RUNNING)], NOON)
    child = replace(trains(), child=arrays.ArrayChild(parent=parent.id, index=0))
    once = arrays.step(parent, CHECKPOINT, NOON)[0]
    stopping = apply_order(child, once, NOON)[0]
    passed, _ = arrays.pass_order(once, 2)

    forced = arrays.step(passed, force("now", "ada"), at(4))[0]
    killed, effects = apply_order(stopping, forced, at(5))

    assert stopping.stop.final_checkpoint_requested
    assert signals(effects) == ["KillContainer"]
    assert (killed.stop.reason, killed.stop.forced_at) == ("enough", at(5))
    assert arrays.step(forced, force(), at(6))[0] is forced


# ---------------------------------------------------------------------------------------------------- restarts, clocks


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), ["send SIGUSR1"]),
        ((asked(),), []),
        ((asked(), seen()), ["send None"]),
        ((asked(), grace_over()), ["send None"]),
        ((asked(), seen(), asked(step=1)), []),
        ((asked(), seen(), asked(step=1), grace_over()), ["KillContainer"]),
        ((force(),), ["KillContainer"]),
    ],
)
def test_a_restart_sends_the_signal_that_is_due_unless_its_delivery_is_stored(events, expected):
    job = after(trains(), CHECKPOINT, *events)

    assert signals(effects_for(job, job.tag, None)) == expected
    assert expected or next_wakeup(job) is not None


def test_a_deadline_that_passed_without_a_server_begins_the_next_step():
    job = after(trains(), CHECKPOINT, asked())

    assert due_event(job, at(119)) is None
    assert due_event(job, at(3600)) == grace_over()


def test_the_latest_end_counts_all_steps():
    job = after(trains(), CHECKPOINT)

    assert latest_kill(job.stop, at(5)) == at(5 + 150)
    assert latest_kill(after(job, asked()).stop, at(5)) == at(150)
    assert job.stop.longest == timedelta(seconds=150)


def test_a_step_that_is_too_far_ahead_is_brought_forward():
    job = after(trains(), CHECKPOINT, asked(), now=at(3600))

    assert next_wakeup(bounded(job, NOON)) == at(120)


def test_the_times_of_a_ladder_move_with_the_clock():
    job = after(trains(), CHECKPOINT, asked(), now=at(10))
    back = ClockShift(by=timedelta(hours=-1), since=NOON, until=at(20))

    assert next_wakeup(shifted(job, back)) == at(130 - 3600)
    assert shifted(job, back).stop.checkpoint_requested_at == at(10 - 3600)


# --------------------------------------------------------------------------------------------------- several containers


def test_all_containers_of_a_task_get_the_checkpoint_signal():
    job = after(tasked(app(), sidecar(), checkpoints=USR1), runs("0/app"), runs("0/sidecar"))

    stopping, effects = lived(job, CHECKPOINT)

    assert signals(effects) == ["send SIGUSR1"] * 2
    assert asks(stopping, is_asked("0/app"), is_asked("0/sidecar"), seen()) == ["stop 0/app", "stop 0/sidecar"]
    assert after(stopping, seen("epoch-7")).stop.final_checkpoint == "epoch-7"


def test_the_other_nodes_run_on_until_the_main_node_has_written_its_checkpoint():
    job = after(ganged(checkpoints=USR1), runs("0/app"), runs("1/app"), runs("2/app"))
    stopping = after(job, CHECKPOINT, is_asked("0/app"))

    assert asks(job, CHECKPOINT) == ["stop 0/app"]
    assert asks(stopping, seen()) == ["stop 0/app", "stop 1/app", "stop 2/app"]
    assert asks(stopping, grace_over_of("0/app")) == ["stop 0/app", "stop 1/app", "stop 2/app"]
    assert asks(stopping, ends("0/app")) == ["stop 1/app", "stop 2/app", "clear 0/app"]


def test_a_start_on_another_node_is_abandoned_when_the_checkpoint_step_is_over():
    job = after(ganged(checkpoints=USR1), runs("0/app"), runs("1/app"))
    stopping = after(job, CHECKPOINT, is_asked("0/app"))

    assert asks(job, CHECKPOINT) == ["stop 0/app"]
    assert asks(stopping, runs("2/app")) == []
    assert asks(stopping, seen()) == ["stop 0/app", "stop 1/app", "abandon 2/app"]


def test_the_other_nodes_keep_the_grace_and_signal_of_the_request():
    job = after(ganged(checkpoints=USR1), runs("0/app"), runs("1/app"), runs("2/app"))
    event = on.TerminateRequested(reason="", grace=timedelta(seconds=3), signal="SIGINT", checkpoint=True)

    stopping = after(job, event, is_asked("0/app"), seen())

    assert part(stopping, "1/app").steps == (SignalStep(signal="SIGINT", wait=timedelta(seconds=3)),)


def test_a_missing_checkpoint_of_a_gang_is_stored_with_the_order():
    job = after(ganged(checkpoints=USR1), runs("0/app"), runs("1/app"), runs("2/app"), CHECKPOINT, is_asked("0/app"))

    assert after(job, grace_over_of("0/app")).stop.checkpoint_error == "none after 120 s"
    assert after(job, grace_over_of("0/app")).stop.step == 1


def test_the_end_of_an_essential_container_ends_the_checkpoint_step_of_its_node():
    job = after(tasked(app(), sidecar(), checkpoints=USR1), runs("0/app"), runs("0/sidecar"))
    stopping = after(job, CHECKPOINT, is_asked("0/app"), is_asked("0/sidecar"))

    assert asks(stopping, ends("0/app")) == ["stop 0/sidecar", "clear 0/app"]


def test_force_kills_all_containers_of_a_gang():
    job = after(ganged(checkpoints=USR1), runs("0/app"), runs("1/app"))

    forced = after(job, force())

    assert asks(job, force()) == ["kill 0/app", "kill 1/app", "abandon 2/app"]
    assert asks(after(job, CHECKPOINT), force()) == ["kill 0/app", "kill 1/app", "abandon 2/app"]
    assert asks(forced, runs("2/app")) == ["kill 2/app"]
    assert (forced.stop.forced_at, forced.stop.killed_at) == (NOON, NOON)


def test_force_of_one_node_kills_that_node_alone():
    job = after(ganged(gang(2, leader=task(app()))), runs("0/app"), runs("1/app"))
    alone = on.StopForced(reason="not you", user="ada", node=1)

    forced = after(job, alone)

    assert asks(job, alone) == ["kill 1/app"]
    assert (forced.stop, states(forced)["0/app"]) == (None, "RUNNING")
    assert part(forced, "1/app").terminated_by.forced_by == "ada"


def test_a_restart_sends_the_checkpoint_signal_of_each_container_again():
    job = after(tasked(app(), sidecar(), checkpoints=USR1), runs("0/app"), runs("0/sidecar"), CHECKPOINT)
    job = after(job, is_asked("0/app"))
    tags = [replace(job.tag, container_key=key) for key in ("0/app", "0/sidecar")]

    assert [in_words(it) for tag in tags for it in effects_for(job, tag, None)] == ["stop 0/sidecar"]
