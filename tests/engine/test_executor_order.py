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
from batchq.domain.machines import one_machine
from batchq.domain.training import CheckpointRules
from batchq.engine.containers.executor import SIGNAL_RETRY_INTERVAL
from batchq.engine.containers.translation import events_of_inspection, is_urgent
from batchq.engine.containers.watcher import Watcher
from batchq.ports.runtime import ContainerState, DeathReport, Inspection, RuntimeIdentity
from tests.domain.lives import after, at, starting
from tests.domain.part_lives import is_created
from tests.engine.test_executor import ExecutorHarness, MultiContainerHarness
from tests.support.builders import job_id, resources
from tests.support.clock import VirtualClock


async def test_a_container_is_not_cleaned_up_during_its_start():
    harness = ExecutorHarness(seconds=60, start_delay=5)
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)

    harness.executor.execute(do.CleanUpContainer(tag=harness.tag), harness.job)
    await harness.tasks.drain(max_seconds=1000)

    assert [type(event) for event in harness.events] == [on.ContainerStarted]
    assert await harness.simulated.survey() == ()


async def test_a_reported_start_is_not_run_again():
    harness = ExecutorHarness(seconds=60)
    await harness.execute(do.StartContainer(tag=harness.tag))

    await harness.execute(do.StartContainer(tag=harness.tag))

    assert harness.engine.calls(harness.tag) == ["create", "start"]


async def test_a_stop_of_an_absent_container_causes_an_inspection():
    harness = ExecutorHarness(seconds=60)

    await harness.execute(do.StopContainer(tag=harness.tag))

    assert harness.events == [on.ContainerLost(attempt=1)]


async def started_and_ignoring_signals():
    harness = ExecutorHarness(seconds=60, on_term=None)
    await harness.execute(do.StartContainer(tag=harness.tag))
    return harness


def step(harness, number, signal=None):
    return do.StopContainer(tag=harness.tag, step=number, signal=signal)


async def test_each_step_is_sent_once_and_reported_with_its_number():
    harness = await started_and_ignoring_signals()

    for number in (0, 1, 1):
        await harness.execute(step(harness, number))

    assert harness.engine.calls(harness.tag).count("stop") == 2
    assert harness.events[1:] == [on.StopSignalDelivered(attempt=1, step=number) for number in (0, 1, 1)]


async def test_a_step_without_an_answer_is_not_repeated_once_a_later_one_is_requested():
    harness = await started_and_ignoring_signals()
    harness.engine.unreachable = True
    harness.executor.execute(step(harness, 0), harness.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    harness.executor.execute(step(harness, 1), harness.job)
    harness.engine.unreachable = False

    await harness.tasks.drain(max_seconds=1000)
    assert harness.events[1:] == [on.StopSignalDelivered(attempt=1, step=1)]


async def test_a_step_without_an_answer_does_not_delay_a_kill():
    harness = await started_and_ignoring_signals()
    harness.engine.unreachable = True
    harness.executor.execute(step(harness, 0), harness.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    harness.executor.execute(do.KillContainer(tag=harness.tag), harness.job)
    harness.engine.unreachable = False

    await harness.tasks.drain(max_seconds=1000)
    assert harness.engine.calls(harness.tag)[-1] == "kill"
    assert harness.events[1:] == []


async def test_no_signal_is_sent_after_a_kill():
    harness = await started_and_ignoring_signals()
    await harness.execute(do.KillContainer(tag=harness.tag))

    await harness.execute(step(harness, 0))

    assert "stop" not in harness.engine.calls(harness.tag)


ENDED = [on.ContainerStarted, on.ContainerExited]


@pytest.fixture
async def harness():
    """The container runs for a second; its start has been reported."""
    spec = ExecutorHarness(seconds=1, exit_code=3)
    await spec.execute(do.StartContainer(tag=spec.tag))
    spec.events.clear()
    return spec


async def death_report(harness):
    return DeathReport(tag=harness.tag, found=await harness.simulated.inspect(harness.tag))


async def inspection_answered_after_the_end(harness):
    harness.engine.hold("inspect")
    harness.executor.inspect_again(harness.tag)
    await asyncio.sleep(2)
    harness.executor.on_death(await death_report(harness))
    harness.engine.release("inspect")
    await harness.tasks.drain(max_seconds=1000)


def kinds(events):
    return [type(event) for event in events]


async def test_a_death_with_an_inspection_is_reported_without_another_inspection(harness):
    await asyncio.sleep(2)

    harness.executor.on_death(await death_report(harness))

    assert kinds(harness.events) == ENDED
    assert (harness.events[-1].exit_code, harness.engine.inspections) == (3, 0)


async def test_a_death_without_an_inspection_causes_an_inspection(harness):
    await asyncio.sleep(2)

    harness.executor.on_death(harness.tag)

    await harness.tasks.drain(max_seconds=1000)
    assert (kinds(harness.events), harness.engine.inspections) == (ENDED, 1)


async def test_an_absent_container_is_lost_after_an_inspection_of_our_own(harness):
    harness.simulated.remove_externally(harness.tag)

    harness.executor.on_death(DeathReport(tag=harness.tag, found=None))

    await harness.tasks.drain(max_seconds=1000)
    assert (harness.events, harness.engine.inspections) == ([on.ContainerLost(attempt=1)], 1)


@pytest.mark.fault("EN11")
async def test_a_container_that_was_started_again_is_reported_as_running(harness):
    harness.executor.on_death(await death_report(harness))

    assert (kinds(harness.events), harness.timer_messages) == ([on.ContainerStarted], 1)


async def test_only_the_exit_is_reported_for_a_container_saved_as_running(harness):
    harness.saved[harness.job.id] = after(harness.job, on.ContainerStarted(attempt=1, started_at=harness.clock.now()))
    await asyncio.sleep(2)

    harness.executor.on_death(await death_report(harness))

    assert kinds(harness.events) == [on.ContainerExited]


async def test_a_container_that_is_absent_during_its_start_is_not_lost():
    harness = ExecutorHarness(seconds=60)
    harness.saving.clear()
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)

    for report in (DeathReport(tag=harness.tag, found=None), harness.tag):
        harness.executor.on_death(report)
        await asyncio.sleep(1)

    assert harness.events == []
    harness.saving.set()
    await harness.tasks.drain(max_seconds=1000)


async def test_an_exit_before_the_start_is_answered_is_reported():
    harness = ExecutorHarness(seconds=60)
    harness.engine.hold("start")
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)
    ran = Inspection(
        tag=harness.tag,
        state=ContainerState.EXITED,
        started_at=harness.clock.now() - timedelta(seconds=1),
        stopped_at=harness.clock.now(),
        exit_code=0,
    )

    harness.executor.on_death(DeathReport(tag=harness.tag, found=ran))

    assert kinds(harness.events) == ENDED
    harness.engine.release("start")
    await harness.tasks.drain(max_seconds=1000)


@pytest.mark.fault("EN11")
async def test_an_inspection_older_than_the_reported_death_has_no_effect(harness):
    await inspection_answered_after_the_end(harness)

    assert kinds(harness.events) == [*ENDED, on.ContainerStarted]
    over = after(harness.job, *harness.events[:-1])
    assert after(over, harness.events[-1]) == over


async def test_the_exit_of_one_of_several_containers_is_reported_with_its_name():
    harness = MultiContainerHarness(seconds=1)
    await harness.execute(do.StartContainer(tag=harness.tag))
    await inspection_answered_after_the_end(harness)

    assert {event.container_key for event in harness.events} == {"0/app"}
    assert kinds(harness.events) == [on.ContainerStarted, *ENDED, on.ContainerStarted]
    over = after(harness.job, *harness.events[:-1])
    assert after(over, harness.events[-1]) == over


async def test_the_directory_is_read_again_if_another_container_of_the_task_may_have_run_meanwhile(monkeypatch):
    harness, reads = MultiContainerHarness(seconds=60), []
    harness.job = replace(harness.job, spec=replace(harness.job.spec, checkpoints=CheckpointRules()))
    files = harness.executor._checkpoints.files
    prepare = files.prepare

    async def reading(job_id, *, ended, final):
        reads.append(ended)
        harness.saved[job_id] = after(harness.job, is_created("0/other"))
        return await prepare(job_id, ended=ended, final=final)

    monkeypatch.setattr(files, "prepare", reading)
    await harness.execute(do.StartContainer(tag=harness.tag))

    assert reads == [True, False]


async def test_a_death_of_an_unknown_container_leaves_no_state_behind(harness):
    other = replace(harness.tag, attempt=7)

    harness.executor.on_death(DeathReport(tag=other, found=None))

    await harness.tasks.drain(max_seconds=1000)
    assert harness.events == [on.ContainerLost(attempt=7)]
    assert other not in harness.executor._ops


TAG = Tag(job_id=JobId("a-job"), attempt=2)


TERMINATED = after(starting(), on.TerminateRequested(reason="enough"))
PART = replace(TAG, container_key="1/app")
RAN = {"started_at": at(1), "stopped_at": at(2), "exit_code": 137, "out_of_memory": True}


@pytest.mark.fault("EN30")
@pytest.mark.parametrize("tag", [TAG, PART], ids=["the only container", "one of several"])
@pytest.mark.parametrize(
    ("state", "details", "events"),
    [
        (None, {}, [(on.ContainerLost, {"reason": status_reasons.DISAPPEARED})]),
        (ContainerState.CREATED, {}, [(on.ContainerLost, {"reason": "Container state lost"})]),
        (ContainerState.CREATED, {"host_lost": True}, [(on.ContainerLost, {"reason": status_reasons.HOST_TERMINATED})]),
        (ContainerState.GOING, {}, []),
        (
            ContainerState.RUNNING,
            {"started_at": at(1), "address": "10.0.0.7"},
            [(on.ContainerStarted, {"started_at": at(1), "address": "10.0.0.7"})],
        ),
        (ContainerState.EXITED, RAN, [(on.ContainerStarted, {"started_at": at(1)}), (on.ContainerExited, RAN)]),
    ],
    ids=["absent", "never ran", "never ran on a lost host", "being removed", "running", "exited"],
)
def test_an_inspection_becomes_events(tag, state, details, events):
    found = None if state is None else Inspection(tag=tag, state=state, **details)

    assert events_of_inspection(tag, found) == tuple(
        kind(attempt=2, container_key=tag.container_key, **members) for kind, members in events
    )


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
    ids=["an exit", "a container of several", "a terminated job", "an unknown job"],
)
def test_these_events_are_urgent(event, job):
    assert is_urgent(event, job)


EXPECTED, OTHER, RUNS = (Tag(job_id=job_id(number), attempt=1) for number in range(3))


class Engine:
    async def survey(self):
        removing = [Inspection(tag=tag, state=ContainerState.GOING) for tag in (EXPECTED, OTHER)]
        return [*removing, Inspection(tag=RUNS, state=ContainerState.RUNNING)]

    async def machines(self):
        return one_machine(resources())

    async def lost_before(self):
        return None

    async def identity(self):
        return RuntimeIdentity(id="an-engine", time=None)


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
