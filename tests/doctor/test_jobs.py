"""Findings about jobs that do not stop, and about orphaned containers."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.doctor.facts import Level
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer
from batchq.domain.lifecycle.reconcile import tags_under_way
from batchq.ports.runtime import ContainerState, Inspection
from tests.doctor.installation import active, engine, failure, failures
from tests.support.builders import NOON, attempt, cancel, job, job_id, one_step, stop

LONG_AGO, JUST_NOW = NOON - timedelta(minutes=10), NOON - timedelta(seconds=20)


def running(**changes):
    return job(status=Status.RUNNING, started_at=LONG_AGO, **changes)


def containers(*tags):
    return engine(containers=tuple(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in tags))


@pytest.mark.parametrize(
    "ordered",
    [
        stop(ordered_at=LONG_AGO, killed_at=LONG_AGO + timedelta(seconds=30)),
        stop(ordered_at=LONG_AGO),  # no stop signal was delivered in ten minutes
    ],
)
def test_a_stuck_job_is_reported_with_force_fail(ordered):
    stuck = running(stop_orders=(ordered,))

    level, component, text = failure(**active(stuck))

    assert (level, component) == ("problem", "jobs")
    assert f"batchq force-fail {stuck.id}" in text


@pytest.mark.parametrize(
    "ordered",
    [
        cancel(),
        stop(ordered_at=JUST_NOW),
        stop(ordered_at=LONG_AGO, steps=one_step(3600)),
        stop(ordered_at=LONG_AGO, killed_at=JUST_NOW),
    ],
)
def test_a_job_within_its_grace_period_is_healthy(ordered):
    assert failures(**active(running(stop_orders=(ordered,)))) == []


def test_one_stuck_container_of_several_is_reported():
    dead = AttemptContainer(key="0/app", state=AttemptContainerState.ENDED, stopped_at=LONG_AGO, killed_at=LONG_AGO)
    stuck_container = AttemptContainer(
        key="0/sidecar", state=AttemptContainerState.RUNNING, stop_ordered=True, killed_at=LONG_AGO
    )
    stuck = job(
        status=Status.RUNNING,
        attempt=attempt(containers=(dead, stuck_container)),
        stop_orders=(stop(ordered_at=LONG_AGO),),
    )

    assert [other_failure[:2] for other_failure in failures(**active(stuck))] == [("problem", "jobs")]
    assert failures(**active(replace(stuck, attempt=attempt(containers=(dead,)), stop_orders=()))) == []


def test_containers_of_active_jobs_are_healthy():
    job_ = running()

    assert failures(engine=containers(*tags_under_way(job_)), **active(job_)) == []


def test_an_orphan_is_a_warning():
    orphan = Tag(job_id=job_id(9), attempt=1)

    level, component, text = failure(engine=containers(orphan), **active())

    assert (level, component) == ("warning", "containers")
    assert str(orphan) in text


def test_orphans_that_the_operator_kept_are_healthy():
    orphan = Tag(job_id=job_id(9), attempt=1)

    assert failures(engine=containers(orphan), **active(spared=frozenset({orphan}))) == []


@pytest.mark.parametrize("many", [1, 9])
def test_orphans_wait_for_the_operator_in_safe_mode(many):
    orphans = [Tag(job_id=job_id(number), attempt=1) for number in range(many)]

    found = failures(engine=containers(*orphans), **active(restored_at=NOON))

    assert [
        (level, "batchq leave-safe-mode --purge removes them" in text)
        for level, component, text in found
        if component == "containers"
    ] == [("warning", True)]


def test_many_orphans_are_a_problem():
    orphans = [Tag(job_id=job_id(number), attempt=1) for number in range(9)]

    level, _, text = failure(engine=containers(*orphans), **active())

    assert level == "problem"
    assert "9 containers of this instance have no known job" in text
    assert "docker rm -f" in text
    assert "and others" in text


def test_a_leftover_container_is_a_warning():
    over = attempt(started_at=LONG_AGO, stopped_at=LONG_AGO)
    waits = job(status=Status.RUNNABLE, attempts=(over,))
    known = active()
    known["store"].database.container_jobs[waits.id] = waits

    level, component, text = failure(engine=containers(Tag(job_id=waits.id, attempt=1)), **known)

    assert (level, component) == ("warning", "containers")
    assert f"{waits.id}/1" in text


def test_the_container_of_a_recent_attempt_is_healthy():
    done = job(status=Status.SUCCEEDED, attempts=(attempt(stopped_at=JUST_NOW),), stopped_at=JUST_NOW)
    known = active()
    known["store"].database.container_jobs[done.id] = done

    assert failures(engine=containers(Tag(job_id=done.id, attempt=1)), **known) == []


@pytest.mark.fault("CO03")
def test_another_engine_than_that_of_the_jobs_is_a_problem():
    running = job(status=Status.RUNNING, attempt=attempt(), started_at=NOON)

    level, component, text = failure(engine=replace(engine(), id="another"), **active(running, engine_id="theirs"))

    assert (level, component) == (Level.PROBLEM, "jobs")
    assert "is not the container engine that 1 jobs run on (theirs)" in text
    assert failures(engine=replace(engine(), id="theirs"), **active(running, engine_id="theirs")) == []
    assert failures(engine=replace(engine(), id="another"), **active(engine_id="theirs")) == []
