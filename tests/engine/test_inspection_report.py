"""The events that follow from the inspection of a container."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import JobId, Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine.containers.translation import events_of_inspection, is_urgent
from batchq.engine.containers.watcher import Watcher
from batchq.ports.runtime import ContainerState, EngineIdentity, Inspection
from tests.domain.lives import after, at, starting
from tests.support.builders import job_id, resources
from tests.support.clock import VirtualClock

TAG = Tag(job_id=JobId("a-job"), attempt=2)


TERMINATED = after(starting(), on.TerminateRequested(reason="enough"))


def found(state, **changes):
    return Inspection(tag=TAG, state=state, **changes)


def test_an_absent_container_is_lost():
    assert events_of_inspection(TAG, None) == (on.ContainerLost(attempt=2, reason=status_reasons.DISAPPEARED),)


@pytest.mark.fault("EN30")
def test_a_container_that_never_ran_is_lost():
    assert events_of_inspection(TAG, found(ContainerState.CREATED)) == (
        on.ContainerLost(attempt=2, reason="Container state lost"),
    )


def test_a_container_that_never_ran_on_a_lost_host_is_lost_with_the_host():
    assert events_of_inspection(TAG, found(ContainerState.CREATED, host_lost=True)) == (
        on.ContainerLost(attempt=2, reason=status_reasons.HOST_TERMINATED),
    )


def test_a_container_being_removed_causes_no_event():
    assert events_of_inspection(TAG, found(ContainerState.GOING)) == ()


def test_a_running_container_has_started():
    assert events_of_inspection(TAG, found(ContainerState.RUNNING, started_at=at(1))) == (
        on.ContainerStarted(attempt=2, started_at=at(1)),
    )


def test_an_exited_container_has_started_and_exited():
    over = found(ContainerState.EXITED, started_at=at(1), stopped_at=at(2), exit_code=137, out_of_memory=True)

    assert events_of_inspection(TAG, over) == (
        on.ContainerStarted(attempt=2, started_at=at(1)),
        on.ContainerExited(attempt=2, exit_code=137, started_at=at(1), stopped_at=at(2), out_of_memory=True),
    )


PART = replace(TAG, container_key="1/app")


def test_events_of_one_of_several_containers_have_its_key_and_address():
    runs = found(ContainerState.RUNNING, started_at=at(1), address="10.0.0.7")
    over = found(ContainerState.EXITED, started_at=at(1), stopped_at=at(2), exit_code=0)

    assert events_of_inspection(PART, None) == (on.ContainerLost(attempt=2, container_key="1/app"),)
    assert events_of_inspection(PART, runs) == (
        on.ContainerStarted(attempt=2, container_key="1/app", started_at=at(1), address="10.0.0.7"),
    )
    assert [it.container_key for it in events_of_inspection(PART, over)] == ["1/app", "1/app"]


def test_the_start_of_a_job_is_not_urgent():
    assert not is_urgent(on.ContainerStarted(attempt=1, started_at=at(1)), starting())


@pytest.mark.parametrize(
    ("event", "job"),
    [
        (on.ContainerExited(attempt=1, exit_code=0, started_at=at(1), stopped_at=at(2)), starting()),
        (on.ContainerStarted(attempt=1, started_at=at(1), container_key="0"), starting()),
        (on.ContainerStarted(attempt=1, started_at=at(1)), TERMINATED),
        (on.ContainerStarted(attempt=1, started_at=at(1)), None),
    ],
    ids=["its end", "one of several containers", "one that is to stop", "a job that nobody knows"],
)
def test_these_events_are_urgent(event, job):
    assert is_urgent(event, job)


EXPECTED, OTHER, RUNS = (Tag(job_id=job_id(number), attempt=1) for number in range(3))


class Engine:
    async def survey(self):
        removing = [Inspection(tag=it, state=ContainerState.GOING) for it in (EXPECTED, OTHER)]
        return [*removing, Inspection(tag=RUNS, state=ContainerState.RUNNING)]

    async def capacity(self):
        return resources()

    async def lost_before(self):
        return None

    async def identity(self):
        return EngineIdentity(id="an-engine", time=None)


async def test_containers_being_removed_are_left_out_of_a_survey_unless_they_are_expected():
    posted = []
    watcher = Watcher(
        runtime=Engine(),
        clock=VirtualClock(),
        survey_interval=60,
        expected=lambda: frozenset({EXPECTED}),
        on_death=posted.append,
        post=posted.append,
    )

    await watcher._survey_once()

    (surveyed,) = posted
    assert surveyed.containers == (
        SurveyedContainer(tag=EXPECTED, running=False, started=True),
        SurveyedContainer(tag=RUNS, running=True, started=True),
    )
