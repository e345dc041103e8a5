"""The signals of a stop, in order: the final checkpoint, the stop signal, SIGKILL. training.md 1.5."""

from datetime import timedelta

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import StopKind, StopProgress
from batchq.domain.lifecycle import stopping
from batchq.domain.lifecycle.deadlines import ClockShift, bounded_deadlines, next_wakeup, shifted
from batchq.domain.lifecycle.escalation import KILL_AGAIN, latest_kill
from batchq.domain.stop_values import SignalStep
from batchq.domain.training import CheckpointRules
from tests.domain.lives import (
    after,
    apply_events,
    at,
    checkpoint_seen,
    exited,
    force,
    grace_expired,
    running,
    signal_delivered,
    terminate,
    timed_out,
)
from tests.domain.part_lives import (
    app,
    effects_of,
    ends,
    grace_ended,
    is_signalled,
    multi_node_job,
    part,
    runs,
    sidecar,
    states,
    task_job,
)
from tests.support.builders import NOON, gang, task

USR1 = CheckpointRules(signal="USR1", timeout=timedelta(minutes=2))
CHECKPOINT = terminate("enough", checkpoint=True)


def trains(rules=USR1, **changes):
    """RUNNING since noon, with a checkpoint directory."""
    return running(checkpoints=rules, **changes)


def signals(effects):
    return [in_words_of(effect) for effect in effects]


def in_words_of(effect):
    return f"send {effect.signal}" if isinstance(effect, do.StopContainer) else type(effect).__name__


def test_the_checkpoint_signal_comes_first_and_its_wait_counts_from_its_delivery():
    job, effects = apply_events(trains(), CHECKPOINT, now=at(0))

    job = after(job, signal_delivered(), now=at(3))

    assert signals(effects) == ["send SIGUSR1"]
    assert (next_wakeup(job), job.stop.checkpoint_requested_at, job.stop.signalled_at) == (at(123), at(3), None)
    assert (job.stop.final_checkpoint_requested, job.stop.final_checkpoint) == (True, None)


def test_a_checkpoint_after_the_timeout_is_still_the_final_one():
    job = after(
        trains(), CHECKPOINT, signal_delivered(), grace_expired(), signal_delivered(step=1), checkpoint_seen("epoch-7")
    )

    assert (job.stop.final_checkpoint, job.stop.checkpoint_error, part(job, "").step) == ("epoch-7", None, 1)


def test_a_checkpoint_that_is_found_after_the_end_is_stored_and_changes_nothing_else():
    over = after(trains(), CHECKPOINT, signal_delivered(), exited(0))

    found, effects = apply_events(over, checkpoint_seen("epoch-7"), now=at(4))

    assert (found.stop.final_checkpoint, effects) == ("epoch-7", ())
    assert replace(found, stop_orders=over.stop_orders) == over
    assert apply_events(over, checkpoint_seen("epoch-7", attempt=2)) == (over, ())


def test_the_signal_and_the_grace_of_the_request_are_those_of_the_stop_step():
    job = after(trains(), on.TerminateRequested(reason="", grace=timedelta(0), signal="SIGINT", checkpoint=True))

    assert job.stop.steps[1] == SignalStep(signal="SIGINT", wait=timedelta(0))
    assert job.stop.steps == part(job, "").steps


def test_the_history_shows_each_step_of_the_ladder():
    events = [CHECKPOINT, signal_delivered(), checkpoint_seen("epoch-7"), signal_delivered(step=1), grace_expired()]
    job, found = trains(), []
    for event in events:
        later = after(job, event)
        found += stopping.steps(job, later)
        job = later

    assert [entry.progress for entry in found] == [
        StopProgress.ORDERED,
        StopProgress.CHECKPOINT_REQUESTED,
        StopProgress.CHECKPOINT_SEEN,
        StopProgress.SIGNALLED,
        StopProgress.KILLED,
    ]
    assert [step.checkpoint for step in found] == [None, None, "epoch-7", None, None]


def test_force_shows_that_the_final_checkpoint_is_missing():
    assert after(trains(), CHECKPOINT, signal_delivered(), force()).stop.checkpoint_error == "forced"
    assert after(trains(), CHECKPOINT, signal_delivered(), checkpoint_seen(), force()).stop.checkpoint_error is None


def test_force_shortens_a_timeout_and_keeps_its_kind():
    job = after(trains(timeout=timedelta(0)), timed_out(), signal_delivered(), force())

    assert (job.stop.kind, job.stop.killed_at) == (StopKind.TIMEOUT, NOON)


def test_force_kills_at_once_also_when_the_grace_ends_at_the_time_of_the_next_kill():
    stopping_job = after(running(stop_grace=timedelta(seconds=40)), terminate(), signal_delivered())

    killed, effects = apply_events(stopping_job, force(), now=at(40) - KILL_AGAIN)

    assert signals(effects) == ["KillContainer"]
    assert killed.stop.killed_at == at(40) - KILL_AGAIN


def test_the_latest_end_counts_all_steps():
    job = after(trains(), CHECKPOINT)

    assert latest_kill(part(job, ""), at(5)) == at(5 + 150)
    assert latest_kill(part(after(job, signal_delivered()), ""), at(5)) == at(150)
    assert job.stop.longest == timedelta(seconds=150)


def test_a_step_that_is_too_far_ahead_is_brought_forward():
    job = after(trains(), CHECKPOINT, signal_delivered(), now=at(3600))

    assert next_wakeup(bounded_deadlines(job, NOON)) == at(120)


def test_the_times_of_a_ladder_move_with_the_clock():
    job = after(trains(), CHECKPOINT, signal_delivered(), now=at(10))
    back = ClockShift(by=timedelta(hours=-1), since=NOON, until=at(20))

    moved = shifted(after(job, grace_expired(), signal_delivered(step=1), now=at(15)), back)

    assert next_wakeup(shifted(job, back)) == at(130 - 3600)
    assert (moved.stop.ordered_at, moved.stop.checkpoint_requested_at) == (at(10 - 3600), at(10 - 3600))
    assert (moved.stop.signalled_at, stopping.next_step_at(moved)) == (at(15 - 3600), at(45 - 3600))


def test_a_start_on_another_node_is_abandoned_when_the_checkpoint_step_is_over():
    job = after(multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"))
    stopping = after(job, CHECKPOINT, is_signalled("0/app"))

    assert effects_of(job, CHECKPOINT) == ["stop 0/app"]
    assert effects_of(stopping, runs("2/app")) == []
    assert effects_of(stopping, checkpoint_seen()) == ["stop 0/app", "stop 1/app", "abandon 2/app"]


def test_the_other_nodes_keep_the_grace_and_signal_of_the_request():
    job = after(multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"), runs("2/app"))
    event = on.TerminateRequested(reason="", grace=timedelta(seconds=3), signal="SIGINT", checkpoint=True)

    stopping = after(job, event, is_signalled("0/app"), checkpoint_seen())

    assert part(stopping, "1/app").steps == (SignalStep(signal="SIGINT", wait=timedelta(seconds=3)),)


def test_a_terminate_of_another_node_during_a_pause_does_not_wait_for_the_checkpoint():
    job = after(multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"), on.PauseRequested(reason="later"))

    assert effects_of(job, on.TerminateRequested(reason="not you", node=1)) == ["stop 1/app"]


def test_a_missing_checkpoint_of_a_gang_is_stored_with_the_order():
    job = after(
        multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"), runs("2/app"), CHECKPOINT, is_signalled("0/app")
    )

    assert after(job, grace_ended("0/app")).stop.checkpoint_error == "none after 120 s"
    assert part(after(job, grace_ended("0/app")), "0/app").step == 1


def test_the_end_of_an_essential_container_ends_the_checkpoint_step_of_its_node():
    job = after(task_job(app(), sidecar(), checkpoints=USR1), runs("0/app"), runs("0/sidecar"))
    stopping = after(job, CHECKPOINT, is_signalled("0/app"), is_signalled("0/sidecar"))

    assert effects_of(stopping, ends("0/app")) == ["stop 0/sidecar", "clear 0/app"]


def test_force_kills_all_containers_of_a_gang():
    job = after(multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"))

    forced = after(job, force())

    assert effects_of(job, force()) == ["kill 0/app", "kill 1/app", "abandon 2/app"]
    assert effects_of(after(job, CHECKPOINT), force()) == ["kill 0/app", "kill 1/app", "abandon 2/app"]
    assert effects_of(forced, runs("2/app")) == ["kill 2/app"]
    assert (forced.stop.forced_at, forced.stop.killed_at) == (NOON, NOON)


def test_force_of_one_node_kills_that_node_alone():
    job = after(multi_node_job(gang(2, leader=task(app()))), runs("0/app"), runs("1/app"))
    alone = on.StopForced(reason="not you", user="ada", node=1)

    forced = after(job, alone)

    assert effects_of(job, alone) == ["kill 1/app"]
    assert (forced.stop, states(forced)["0/app"]) == (None, "RUNNING")
    assert part(forced, "1/app").terminated_by.forced_by == "ada"


def pausing(*events):
    return after(running(), on.PauseRequested(reason="later"), *events)


def test_the_grace_period_of_a_terminate_counts_from_the_delivery_of_the_pauses_stop_signal():
    job, _ = apply_events(pausing(), signal_delivered(), now=at(0))

    longer, effects = apply_events(job, terminate("enough", grace=timedelta(minutes=9)), now=at(5))
    over, _ = apply_events(job, terminate("enough", grace=timedelta(seconds=1)), now=at(5))

    assert (next_wakeup(longer), next_wakeup(over)) == (at(0) + timedelta(minutes=9), at(5))
    assert effects == ()


def test_a_terminate_changes_no_step_of_a_pause_that_has_come_to_its_kill():
    job = pausing(signal_delivered(), grace_expired())

    ended, effects = apply_events(job, terminate("enough", grace=timedelta(minutes=9), signal="SIGINT"), now=at(60))

    assert part(ended, "") == part(job, "")
    assert effects == ()


def test_a_delivery_to_a_node_that_is_not_stopped_yet_changes_nothing():
    job = after(multi_node_job(checkpoints=USR1), runs("0/app"), runs("1/app"), CHECKPOINT)

    assert after(job, is_signalled("1/app")) is job
