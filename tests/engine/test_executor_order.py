"""Calls about one container are made one after another, and a container being started is not inspected."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import JobId, Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine.containers.executor import SIGNAL_RETRY_INTERVAL
from batchq.engine.containers.translation import events_of_inspection, is_urgent
from batchq.engine.containers.watcher import Watcher
from batchq.ports.runtime import ContainerState, DeathReport, EngineIdentity, Inspection
from tests.domain.lives import after, at, starting
from tests.engine.test_executor import Outside, Several
from tests.support.builders import job_id, resources
from tests.support.clock import VirtualClock


async def test_a_container_is_not_cleaned_up_during_its_start():
    outside = Outside(seconds=60, start_delay=5)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.execute(do.CleanUpContainer(tag=outside.tag), outside.job)
    await outside.tasks.drain(max_seconds=1000)

    assert [type(it) for it in outside.news] == [on.ContainerStarted]
    assert await outside.simulated.survey() == ()


async def test_a_reported_start_is_not_run_again():
    outside = Outside(seconds=60)
    await outside.does(do.StartContainer(tag=outside.tag))

    await outside.does(do.StartContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag) == ["create", "start"]


async def test_a_container_that_is_being_started_is_not_lost():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(1)

    assert outside.news == []
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_a_stop_of_an_absent_container_causes_an_inspection():
    outside = Outside(seconds=60)

    await outside.does(do.StopContainer(tag=outside.tag))

    assert outside.news == [on.ContainerLost(attempt=1)]


async def starts_deaf():
    outside = Outside(seconds=60, on_term=None)
    await outside.does(do.StartContainer(tag=outside.tag))
    return outside


def step(outside, number, signal=None):
    return do.StopContainer(tag=outside.tag, step=number, signal=signal)


async def test_each_step_is_sent_once_and_reported_with_its_number():
    outside = await starts_deaf()

    for number in (0, 1, 1):
        await outside.does(step(outside, number))

    assert outside.engine.calls(outside.tag).count("stop") == 2
    assert outside.news[1:] == [on.StopSignalDelivered(attempt=1, step=number) for number in (0, 1, 1)]


async def test_a_step_without_an_answer_is_not_repeated_once_a_later_one_is_requested():
    outside = await starts_deaf()
    outside.engine.unreachable = True
    outside.executor.execute(step(outside, 0), outside.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    outside.executor.execute(step(outside, 1), outside.job)
    outside.engine.unreachable = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news[1:] == [on.StopSignalDelivered(attempt=1, step=1)]


async def test_a_step_without_an_answer_does_not_delay_a_kill():
    outside = await starts_deaf()
    outside.engine.unreachable = True
    outside.executor.execute(step(outside, 0), outside.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    outside.executor.execute(do.KillContainer(tag=outside.tag), outside.job)
    outside.engine.unreachable = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.engine.calls(outside.tag)[-1] == "kill"
    assert outside.news[1:] == []


async def test_no_signal_is_sent_after_a_kill():
    outside = await starts_deaf()
    await outside.does(do.KillContainer(tag=outside.tag))

    await outside.does(step(outside, 0))

    assert "stop" not in outside.engine.calls(outside.tag)


ENDED = [on.ContainerStarted, on.ContainerExited]


@pytest.fixture
async def outside():
    """Its container runs for a second, and that is told."""
    it = Outside(seconds=1, exit_code=3)
    await it.does(do.StartContainer(tag=it.tag))
    it.news.clear()
    return it


async def looked(outside):
    return DeathReport(tag=outside.tag, found=await outside.simulated.inspect(outside.tag))


async def look_answered_after_the_end(outside):
    outside.engine.hold("inspect")
    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(2)
    outside.executor.on_death(await looked(outside))
    outside.engine.release("inspect")
    await outside.tasks.drain(max_seconds=1000)


def kinds(news):
    return [type(it) for it in news]


async def test_a_death_with_an_inspection_is_reported_without_another_inspection(outside):
    await asyncio.sleep(2)

    outside.executor.on_death(await looked(outside))

    assert kinds(outside.news) == ENDED
    assert (outside.news[-1].exit_code, outside.engine.inspections) == (3, 0)


async def test_a_death_without_an_inspection_causes_an_inspection(outside):
    await asyncio.sleep(2)

    outside.executor.on_death(outside.tag)

    await outside.tasks.drain(max_seconds=1000)
    assert (kinds(outside.news), outside.engine.inspections) == (ENDED, 1)


async def test_an_absent_container_is_lost_after_an_inspection_of_our_own(outside):
    outside.simulated.remove_externally(outside.tag)

    outside.executor.on_death(DeathReport(tag=outside.tag, found=None))

    await outside.tasks.drain(max_seconds=1000)
    assert (outside.news, outside.engine.inspections) == ([on.ContainerLost(attempt=1)], 1)


@pytest.mark.fault("EN11")
async def test_a_container_that_was_started_again_is_reported_as_running(outside):
    outside.executor.on_death(await looked(outside))

    assert (kinds(outside.news), outside.alive) == ([on.ContainerStarted], 1)


async def test_only_the_exit_is_reported_for_a_container_saved_as_running(outside):
    outside.saved[outside.job.id] = after(outside.job, on.ContainerStarted(attempt=1, started_at=outside.clock.now()))
    await asyncio.sleep(2)

    outside.executor.on_death(await looked(outside))

    assert kinds(outside.news) == [on.ContainerExited]


async def test_a_container_that_is_absent_during_its_start_is_not_lost():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.on_death(DeathReport(tag=outside.tag, found=None))

    assert outside.news == []
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_an_exit_before_the_start_is_answered_is_reported():
    outside = Outside(seconds=60)
    outside.engine.hold("start")
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)
    ran = Inspection(
        tag=outside.tag,
        state=ContainerState.EXITED,
        started_at=outside.clock.now() - timedelta(seconds=1),
        stopped_at=outside.clock.now(),
        exit_code=0,
    )

    outside.executor.on_death(DeathReport(tag=outside.tag, found=ran))

    assert kinds(outside.news) == ENDED
    outside.engine.release("start")
    await outside.tasks.drain(max_seconds=1000)


@pytest.mark.fault("EN11")
async def test_an_inspection_older_than_the_reported_death_has_no_effect(outside):
    await look_answered_after_the_end(outside)

    assert kinds(outside.news) == [*ENDED, on.ContainerStarted]
    over = after(outside.job, *outside.news[:-1])
    assert after(over, outside.news[-1]) == over


async def test_the_exit_of_one_of_several_containers_is_reported_with_its_name():
    outside = Several(seconds=1)
    await outside.does(do.StartContainer(tag=outside.tag))
    await look_answered_after_the_end(outside)

    assert {it.container_key for it in outside.news} == {"0/app"}
    assert kinds(outside.news) == [on.ContainerStarted, *ENDED, on.ContainerStarted]
    over = after(outside.job, *outside.news[:-1])
    assert after(over, outside.news[-1]) == over


async def test_a_death_of_an_unknown_container_leaves_no_state_behind(outside):
    other = replace(outside.tag, attempt=7)

    outside.executor.on_death(DeathReport(tag=other, found=None))

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news == [on.ContainerLost(attempt=7)]
    assert other not in outside.executor._ops


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
