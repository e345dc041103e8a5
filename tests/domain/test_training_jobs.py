"""The phase, the failure and the times of a training job, which every dialect spells."""

from datetime import timedelta

import pytest
from hypothesis import given, settings

from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.explanation.explain import REASONS
from batchq.domain.stop_values import Hold
from batchq.domain.training import MetricValue, TrainingPlan
from batchq.domain.training_jobs import (
    ENDED,
    FAILURE_BY_CODE,
    STOPPABLE,
    TrainingFailure,
    TrainingJobView,
    TrainingPhase,
    statuses_with,
)
from tests.domain.random_lives import histories
from tests.support.builders import NOON, attempt, cancel, gang, job, stop
from tests.support.examples import examples

HELD = Hold(reason="", held_at=NOON)
PAUSE = stop(kind=StopKind.PAUSE, attempt=1)
TIMEOUT = stop(kind=StopKind.TIMEOUT)


def seconds(number):
    return NOON + timedelta(seconds=number)


@pytest.mark.parametrize(
    ("members", "phase"),
    [
        ({"status": Status.SUBMITTED}, TrainingPhase.CREATED),
        ({"status": Status.PENDING}, TrainingPhase.QUEUED),
        ({"status": Status.RUNNABLE}, TrainingPhase.QUEUED),
        ({"status": Status.RUNNABLE, "hold": HELD}, TrainingPhase.PAUSED),
        ({"status": Status.STARTING}, TrainingPhase.STARTING),
        ({"status": Status.STARTING, "stop_orders": (PAUSE,)}, TrainingPhase.PAUSING_START),
        ({"status": Status.RUNNING, "hold": HELD}, TrainingPhase.RUNNING),
        ({"status": Status.RUNNING, "stop_orders": (PAUSE,)}, TrainingPhase.PAUSING),
        ({"status": Status.RUNNING, "stop_orders": (cancel(),)}, TrainingPhase.RUNNING),
        ({"status": Status.RUNNING, "stop_orders": (PAUSE, stop())}, TrainingPhase.STOPPING),
        ({"status": Status.RUNNING, "stop_orders": (TIMEOUT,)}, TrainingPhase.TIMING_OUT),
        ({"status": Status.SUCCEEDED, "stop_orders": (cancel(),)}, TrainingPhase.COMPLETED),
        ({"status": Status.FAILED, "stop_orders": (cancel(),)}, TrainingPhase.STOPPED),
        ({"status": Status.FAILED, "stop_orders": (stop(),)}, TrainingPhase.STOPPED),
        ({"status": Status.FAILED, "stop_orders": (TIMEOUT,)}, TrainingPhase.TIMED_OUT),
        ({"status": Status.FAILED}, TrainingPhase.FAILED),
    ],
)
def test_a_job_has_one_phase(members, phase):
    assert TrainingJobView(job(**members)).phase is phase


@settings(max_examples=examples(100))
@given(histories())
def test_a_phase_names_the_statuses_that_its_jobs_have(steps):
    for step in steps:
        view = TrainingJobView(step.after)

        assert step.after.status in view.phase.statuses
        assert (view.phase in ENDED) == (step.after.status in FINISHED) == (view.ended_at is not None)
        assert (view.failure is None) == (step.after.status is not Status.FAILED)
        assert (view.cancellation is not None) == (view.phase in {TrainingPhase.STOPPED, TrainingPhase.STOPPING})


def test_a_job_can_be_stopped_until_it_is_stopped_or_ends():
    assert [phase.name for phase in TrainingPhase if phase not in STOPPABLE] == [
        "STOPPING",
        "TIMING_OUT",
        "COMPLETED",
        "STOPPED",
        "TIMED_OUT",
        "FAILED",
    ]


def test_a_word_selects_the_statuses_of_all_its_phases():
    words = {phase: "over" if phase in ENDED else phase.name for phase in TrainingPhase}

    assert statuses_with(words, "over") == FINISHED
    assert statuses_with(words, "QUEUED", "STARTING") == {Status.PENDING, Status.RUNNABLE, Status.STARTING}


def test_every_explanation_of_a_failed_job_has_a_kind_of_failure():
    assert FAILURE_BY_CODE.keys() == {reason.code for reason in REASONS if Status.FAILED in reason.statuses}


def test_the_kind_of_failure_is_that_of_the_last_attempt():
    done = attempt(exit_code=3, started_at=NOON, stopped_at=seconds(1))

    assert TrainingJobView(job(status=Status.FAILED, attempts=(done,))).failure is TrainingFailure.PROGRAM
    assert TrainingJobView(job(status=Status.FAILED)).failure is TrainingFailure.NOT_STARTED


def test_times_are_those_of_all_attempts():
    never = attempt(number=1, stopped_at=NOON)
    first = attempt(number=2, started_at=seconds(10), stopped_at=seconds(30))
    now = attempt(number=3, started_at=seconds(50))
    view = TrainingJobView(job(status=Status.RUNNING, attempts=(never, first), attempt=now, started_at=seconds(50)))

    assert (view.first_start, view.run_time(seconds(60)), view.ended_at) == (seconds(10), timedelta(seconds=30), None)
    assert view.last_change == seconds(50)


def test_the_time_left_follows_from_the_average_speed():
    plan, metrics = TrainingPlan(total_epochs=10), {"epoch": MetricValue(value=4)}
    running = attempt(started_at=NOON)
    done = attempt(started_at=NOON, stopped_at=seconds(60))

    view = TrainingJobView(job(status=Status.RUNNING, attempt=running, plan=plan))
    ended = TrainingJobView(job(status=Status.FAILED, attempts=(done,), plan=plan))

    assert view.time_left(metrics, seconds(60)) == timedelta(seconds=90)
    assert view.time_left({}, seconds(60)) is ended.time_left(metrics, seconds(60)) is None


def test_nodes_have_the_resources_of_the_main_node():
    nodes = gang(3)

    view = TrainingJobView(job(nodes=nodes))

    assert (view.nodes, view.node_resources) == (3, nodes.task(0).resources)
    assert TrainingJobView(job(millicpus=250)).node_resources.millicpus == 250
