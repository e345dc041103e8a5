"""How a task is stopped: all its containers, each with its own deadline. aws-batch.md 5.4, 6.2, 11.3."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.lifecycle.deadlines import next_wakeup, tag_to_inspect
from batchq.domain.training import CheckpointRules
from tests.domain.lives import after, apply_events, at, cancel, due_event, force, outcome, starting, terminate
from tests.domain.part_lives import (
    app,
    effects_of,
    ends,
    grace_ended,
    is_abandoned,
    is_signalled,
    part,
    runs,
    sidecar,
    starts_too_late,
    task_job,
)
from tests.support.builders import gang, task, task_container

APP, SIDECAR, INIT = "0/app", "0/sidecar", "0/init"
MINUTE = timedelta(minutes=1)


def init(**changes):
    return task_container("init", **{"essential": False} | changes)


# --------------------------------------------------------------------------------------------------------- stop, cancel


@pytest.mark.parametrize("work", [{}, {"task": task()}, {"nodes": gang()}], ids=["container", "task", "nodes"])
def test_the_pause_of_an_array_does_not_stop_a_cancelled_child(work):
    job = starting(**work)
    cancelled = after(job, runs(job.attempt.containers[0].key), cancel())

    assert apply_events(cancelled, on.PauseRequested(reason="later", of_array=True)) == (cancelled, ())


def test_a_terminate_before_any_container_ran_uses_no_attempt():
    job = task_job(app(), sidecar())

    over = after(job, terminate("enough"), is_abandoned(APP), is_abandoned(SIDECAR))

    assert effects_of(job, terminate(), is_abandoned(APP), is_abandoned(SIDECAR)) == ["clear 0/app", "clear 0/sidecar"]
    assert (outcome(over), over.attempts) == ((Status.FAILED, "enough", False, True), ())


@pytest.mark.parametrize(
    ("work", "named"), [({"task": task(app(), sidecar())}, {"container": "app"}), ({"nodes": gang()}, {"node": 0})]
)
def test_a_terminate_of_an_essential_container_or_of_the_main_node_stops_the_job_and_no_part_alone(work, named):
    job = starting(**work)
    keys = [container.key for container in job.attempt.containers]

    stopped = after(job, *map(runs, keys), replace(terminate("enough"), **named))

    assert stopped.stop.reason == "enough"
    assert [container.terminated_by for container in stopped.attempt.containers] == [None] * len(keys)


def test_a_terminate_of_a_pausing_job_changes_no_container_that_another_one_stops_alone():
    job = after(task_job(app(), sidecar()), runs(APP), runs(SIDECAR), on.PauseRequested(reason="later"))
    alone = after(job, replace(terminate("alone", grace=MINUTE), container="sidecar"))

    whole = after(alone, terminate("whole", grace=5 * MINUTE))

    assert part(whole, SIDECAR) == part(alone, SIDECAR)
    assert part(whole, SIDECAR).terminated_by.reason == "alone"
    assert part(whole, APP).steps[-1].wait == 5 * MINUTE


def test_a_waiting_container_of_another_node_ends_at_once_although_a_checkpoint_is_awaited():
    rules = CheckpointRules(signal="USR1", timeout=10 * MINUTE)
    leader, other = task(app()), task(app(), sidecar(after={"app": "START"}))
    job = after(starting(nodes=gang(2, each=other, leader=leader), checkpoints=rules), runs(APP))

    stopped = after(job, terminate("enough", checkpoint=True))

    assert part(stopped, "1/sidecar").state is AttemptContainerState.ENDED


def test_a_terminate_after_a_non_essential_container_ran_uses_an_attempt():
    job = after(task_job(init(), app(after={"init": "SUCCESS"})), runs(INIT), terminate("enough"), ends(INIT, 143))

    assert (job.status, job.attempts[0].exit_code, job.attempts[0].status_reason) == (Status.FAILED, None, "enough")


def test_an_abandoned_container_does_not_decide_after_another_ran():
    other = task_container("other")
    job = after(task_job(app(), other), runs("0/other"), terminate(), is_abandoned(APP), ends("0/other", 143))

    assert (job.attempts[0].decided_by, job.attempts[0].exit_code) == ("0/other", 143)


def test_a_force_does_not_change_a_container_that_has_ended():
    job = after(task_job(app(), sidecar()), runs(APP), runs(SIDECAR), ends(SIDECAR, 3))

    forced = after(job, force())

    assert forced.attempt.containers[1] == job.attempt.containers[1]


def test_a_force_of_a_container_that_stops_with_its_task_kills_it_and_is_not_its_stop_order():
    job = after(task_job(app(), sidecar()), runs(APP), runs(SIDECAR), ends(APP, 0))

    stopped = after(job, on.StopForced(reason="at once", container="sidecar")).attempt.containers[1]

    assert (stopped.terminated_by, stopped.killed_at) == (None, at(0))


# ---------------------------------------------------------------------------------------------------------------- grace


@pytest.mark.parametrize(
    ("stop_timeout", "requested", "grace"),
    [(None, None, 30), (7, None, 7), (7, 0, 0)],
    ids=["of the job", "of the container", "of the request"],
)
def test_a_container_has_the_grace_period_of_the_request_else_its_own(stop_timeout, requested, grace):
    own, asked = (None if seconds is None else timedelta(seconds=seconds) for seconds in (stop_timeout, requested))
    job = after(task_job(app(stop_timeout=own)), runs(APP), terminate(grace=asked), is_signalled(APP))

    assert next_wakeup(job) == at(grace)
    assert due_event(job, at(grace)) == grace_ended(APP)


def test_a_container_that_stops_with_its_task_has_its_own_grace_period():
    job = after(task_job(app(), sidecar(stop_timeout=timedelta(seconds=7))), runs(APP), runs(SIDECAR), ends(APP))

    assert next_wakeup(after(job, is_signalled(SIDECAR))) == at(7)


# -------------------------------------------------------------------------------------------------------- start timeout


def waiting(**changes):
    """An app that waits for a container that has five seconds."""
    return task_job(init(start_timeout=timedelta(seconds=5), **changes), app(after={"init": "SUCCESS"}), sidecar())


def test_a_start_timeout_of_a_non_essential_container_stops_the_task():
    job = task_job(init(start_timeout=MINUTE), app(), sidecar(after={"init": "COMPLETE"}))

    over = after(job, runs(INIT), runs(APP), starts_too_late(INIT), ends(APP, 0), ends(INIT, 0))

    assert (over.status, over.attempts[0].decided_by, over.attempts[0].exit_code) == (Status.FAILED, SIDECAR, None)


def test_of_several_failed_waits_an_essential_container_decides():
    slow = init(start_timeout=MINUTE)
    job = task_job(slow, sidecar(after={"init": "SUCCESS"}), app(after={"init": "COMPLETE"}))

    over = after(job, runs(INIT), starts_too_late(INIT), ends(INIT, 143))

    why = "DependencyTimeoutError: container init did not reach COMPLETE within 60 seconds"
    assert (over.attempts[0].decided_by, over.attempts[0].reason) == (APP, why)


def test_a_waiting_container_is_stopped_without_a_failure():
    last = task_container("last", essential=False, after={"sidecar": "SUCCESS"})
    job = task_job(init(start_timeout=MINUTE), sidecar(), last, app(after={"init": "SUCCESS"}))

    over = after(job, runs(INIT), runs(SIDECAR), starts_too_late(INIT), ends(SIDECAR, 143), ends(INIT, 143)).attempts[0]

    assert [container.key for container in over.containers if container.reason is not None] == [APP]


def test_a_condition_met_at_the_start_timeout_is_met():
    job = after(waiting(), runs(INIT), ends(INIT))

    assert apply_events(job, starts_too_late(INIT)) == (job, ())
    assert apply_events(after(task_job(app(start_timeout=MINUTE)), runs(APP)), starts_too_late(APP))[1] == ()


def test_a_timeout_due_before_a_grace_period_is_first():
    job = after(task_job(app(), sidecar(), timeout=MINUTE), runs(APP), runs(SIDECAR))

    assert due_event(job, at(60)) == on.TimedOut(attempt=1)
    assert due_event(job, at(59.999)) is None


# ----------------------------------------------------------------------------------------- inspected before a timeout


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (after(starting(nodes=gang(2, main=1, leader=task(init(), app()))), runs("1/init"), runs("1/app")), "1/app"),
        (
            after(
                starting(nodes=gang(2, main=1, leader=task(init(), app(after={"init": "COMPLETE"})))),
                runs("1/init", address="10.0.0.1"),
                runs("0/app"),
            ),
            "1/init",
        ),
        (after(task_job(init(), app(after={"init": "COMPLETE"})), runs(INIT), ends(INIT)), None),
    ],
    ids=["the deciding container", "one of the main node", "none runs"],
)
def test_before_a_timeout_the_likeliest_to_decide_is_inspected(job, key):
    tag = tag_to_inspect(job, on.TimedOut(attempt=1))

    assert job.status is Status.RUNNING
    assert (None if tag is None else tag.container_key) == key
