"""Jobs that do not end, and containers that no job owns."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.doctor.finding import Level
from batchq.domain.ids import Tag
from batchq.domain.job import Part, PartState, Status
from batchq.domain.lifecycle.containers import tags_under_way
from batchq.ports.runtime import ContainerState, Inspection
from tests.doctor.looked import active, engine, ill, ills
from tests.support.builders import NOON, attempt, job, job_id, stop

LONG_AGO, JUST_NOW = NOON - timedelta(minutes=10), NOON - timedelta(seconds=20)


def runs(**changes):
    return job(status=Status.RUNNING, attempt=attempt(started_at=LONG_AGO), started_at=LONG_AGO, **changes)


def containers(*tags):
    return engine(containers=tuple(Inspection(tag=it, state=ContainerState.RUNNING) for it in tags))


@pytest.mark.parametrize(
    "ordered",
    [
        stop(ordered_at=LONG_AGO, kill_at=NOON, killed_at=LONG_AGO + timedelta(seconds=30)),
        stop(ordered_at=LONG_AGO),  # and never asked, for ten minutes
    ],
)
def test_a_job_that_does_not_end_when_it_must_is_told_with_the_last_resort(ordered):
    stuck = runs(stop=ordered)

    level, about, words = ill(**active(stuck))

    assert (level, about) == ("problem", "jobs")
    assert f"batchq force-fail {stuck.id}" in words


@pytest.mark.parametrize(
    "ordered",
    [
        None,
        stop(ordered_at=JUST_NOW, kill_at=NOON + timedelta(seconds=10)),
        stop(ordered_at=LONG_AGO, grace=timedelta(hours=1), kill_at=NOON + timedelta(minutes=50)),
        stop(ordered_at=LONG_AGO, kill_at=NOON, killed_at=JUST_NOW),
    ],
)
def test_a_job_that_may_yet_end_is_no_ill(ordered):
    assert ills(**active(runs(stop=ordered))) == []


def test_one_container_of_several_that_does_not_die_is_told():
    dead = Part(key="0/app", state=PartState.ENDED, stopped_at=LONG_AGO, killed_at=LONG_AGO)
    deaf = Part(key="0/sidecar", state=PartState.RUNNING, stopping=True, killed_at=LONG_AGO)
    stuck = job(status=Status.RUNNING, attempt=attempt(parts=(dead, deaf)), stop=stop(ordered_at=LONG_AGO))

    assert [it[:2] for it in ills(**active(stuck))] == [("problem", "jobs")]
    assert ills(**active(replace(stuck, attempt=attempt(parts=(dead,)), stop=None))) == []


def test_containers_of_jobs_under_way_are_owned():
    job_ = runs()

    assert ills(engine=containers(*tags_under_way(job_)), **active(job_)) == []


def test_a_few_containers_of_jobs_that_nobody_knows_are_told():
    stray = Tag(job_id=job_id(9), attempt=1)

    level, about, words = ill(engine=containers(stray), **active())

    assert (level, about) == ("warning", "containers")
    assert str(stray) in words


def test_containers_that_an_operator_left_alone_are_no_ill():
    stray = Tag(job_id=job_id(9), attempt=1)

    assert ills(engine=containers(stray), **active(spared=frozenset({stray}))) == []


@pytest.mark.parametrize("many", [1, 9])
def test_while_restored_data_is_held_what_no_job_owns_waits_for_an_operator(many):
    strays = [Tag(job_id=job_id(number), attempt=1) for number in range(many)]

    told = ills(engine=containers(*strays), **active(restored_at=NOON))

    assert [
        (level, "batchq resume --purge clears them away" in words)
        for level, about, words in told
        if about == "containers"
    ] == [("warning", True)]


def test_many_of_them_look_like_another_database_and_are_a_problem():
    strays = [Tag(job_id=job_id(number), attempt=1) for number in range(9)]

    level, _, words = ill(engine=containers(*strays), **active())

    assert level == "problem"
    assert "of no job that is known (9)" in words
    assert "docker rm -f" in words
    assert "and others" in words


def test_a_container_of_an_attempt_that_is_long_over_is_told():
    over = attempt(started_at=LONG_AGO, stopped_at=LONG_AGO)
    waits = job(status=Status.RUNNABLE, attempts=(over,))
    known = active()
    known["store"].records.named[waits.id] = waits

    level, about, words = ill(engine=containers(Tag(job_id=waits.id, attempt=1)), **known)

    assert (level, about) == ("warning", "containers")
    assert f"{waits.id}/1" in words


def test_a_container_that_has_just_ended_is_about_to_be_cleared_away():
    done = job(status=Status.SUCCEEDED, attempts=(attempt(stopped_at=JUST_NOW),), stopped_at=JUST_NOW)
    known = active()
    known["store"].records.named[done.id] = done

    assert ills(engine=containers(Tag(job_id=done.id, attempt=1)), **known) == []


@pytest.mark.fault("CO03")
def test_an_engine_that_jobs_do_not_run_on_is_named():
    running = job(status=Status.RUNNING, attempt=attempt(), started_at=NOON)

    level, about, words = ill(engine=replace(engine(), id="another"), **active(running, engine="theirs"))

    assert (level, about) == (Level.PROBLEM, "jobs")
    assert "is not the container engine that 1 jobs run on (theirs)" in words
    assert ills(engine=replace(engine(), id="theirs"), **active(running, engine="theirs")) == []
    assert ills(engine=replace(engine(), id="another"), **active(engine="theirs")) == []
