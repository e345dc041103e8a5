"""Which calls the executor makes, and how often, when answers are late or missing."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault, SimulatedRuntime
from batchq.compute.simulated.script import Script
from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.container import Logging
from batchq.domain.ids import Tag
from batchq.engine.checkpoints import Checkpoints, FinalMetrics
from batchq.engine.containers.executor import MAX_LOG_REFUSALS, SIGNAL_RETRY_INTERVAL, Executor
from batchq.engine.containers.start import MAX_PAUSE
from batchq.engine.containers.start_breaker import StartBreaker
from batchq.engine.mailbox import JobEvent, TimerFired
from batchq.engine.supervisor import Supervisor
from batchq.errors import (
    EngineUnknown,
    ImageMissing,
    LogRefused,
    StoreFailed,
)
from batchq.ports.runtime import ContainerState
from tests.domain.lives import after, started, starting
from tests.domain.part_lives import task_job
from tests.engine.harness import HOST
from tests.support.builders import NO_ACCOUNTS, task, task_container
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore, temporary_checkpoints
from tests.support.proxies import RecordingRuntime
from tests.support.scripts import spec

NO_DRIVER = Logging()


class Outside:
    """An executor over a simulated engine, what it was asked, and the news that came of it."""

    def __init__(self, *, logging=NO_DRIVER, **container):
        self.clock = clock = VirtualClock()
        self.simulated = SimulatedRuntime(clock=clock, capacity=HOST)
        self.engine = RecordingRuntime(self.simulated)
        self.news, self.low_priority, self.alive, self.tasks = [], [], 0, Supervisor(clock)
        self.saved, self.made, self.disk_full, self.saving = {}, [], False, asyncio.Event()
        self.saving.set()
        self.keeping = asyncio.Event()
        self.keeping.set()
        self.goes_with_its_log = False
        self.log_refused, self.logs_read = None, 0
        self.executor = Executor(
            runtime=self.engine,
            network_on=lambda _: None,
            accounts=NO_ACCOUNTS,
            checkpoints=Checkpoints(
                store=InlineStore(),
                files=temporary_checkpoints(clock.now),
                retention=None,
                clock=clock,
                tasks=self.tasks,
                post=self._hear,
            ),
            breaker=StartBreaker(clock=clock, tasks=self.tasks),
            capture_log=self._keep_log,
            final_metrics=FinalMetrics(read=None, post=None),
            clock=clock,
            tasks=self.tasks,
            saved_job=self.saved.get,
            post=self._hear,
        )
        self.job = starting(container=spec(Script(**container), logging=logging))

    @property
    def tag(self) -> Tag:
        return self.job.tag

    def _hear(self, message):
        match message:
            case JobEvent(event=on.ContainerCreated() as made, answer=answer):
                self.made.append(made)
                self.tasks.spawn("save", self._save(answer))
            case JobEvent(event=event, low_priority=low_priority):
                self.news.append(event)
                self.low_priority.append(low_priority)
            case TimerFired(running_container=tag) if tag == self.tag:
                self.alive += 1

    async def _save(self, answer):
        await self.saving.wait()
        if self.disk_full:
            answer.set_exception(StoreFailed("no space left on device"))
        else:
            answer.set_result(None)

    async def _keep_log(self, _):
        self.logs_read += 1
        await self.keeping.wait()
        if self.log_refused is not None:
            raise self.log_refused
        return self.goes_with_its_log

    async def does(self, effect):
        """Ask for it, and wait until nothing more is under way."""
        self.executor.execute(effect, self.job)
        await self.tasks.drain(max_seconds=1000)


async def test_an_abandoned_start_retries_with_pauses_while_the_engine_is_away():
    outside = Outside(seconds=60)
    outside.engine.unreachable = True
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)

    outside.executor.execute(do.AbandonStart(tag=outside.tag), outside.job)
    await asyncio.sleep(10 * MAX_PAUSE)

    outside.engine.unreachable = False
    await outside.tasks.drain(max_seconds=1000)
    assert outside.engine.inspections < 20
    assert outside.news == [on.StartAbandoned(attempt=1)]


async def test_a_late_start_call_does_not_start_an_abandoned_container():
    outside = Outside(seconds=60)
    outside.simulated.faults.plan("start", Fault(takes_effect=True, delay=30))
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(0.1)

    outside.executor.execute(do.AbandonStart(tag=outside.tag), outside.job)
    await outside.tasks.drain(max_seconds=1000)
    await asyncio.sleep(60)

    assert outside.news == [on.StartAbandoned(attempt=1)]
    assert await outside.simulated.survey() == ()


async def test_a_container_whose_creation_cannot_be_saved_is_not_started():
    outside = Outside(seconds=60)
    outside.disk_full = True
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(60)
    assert "start" not in outside.engine.calls(outside.tag)

    outside.disk_full = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.engine.calls(outside.tag).count("start") == 1
    assert {it.container_id for it in outside.made} == {"1"}


async def test_a_start_abandoned_while_its_creation_is_saved_is_not_made():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.execute(do.AbandonStart(tag=outside.tag), outside.job)
    outside.saving.set()

    await outside.tasks.drain(max_seconds=1000)
    assert outside.engine.calls(outside.tag) == ["create", "remove"]
    assert outside.news == [on.StartAbandoned(attempt=1)]


async def test_a_start_that_waits_for_a_clean_up_is_abandoned_at_once():
    outside = Outside(seconds=60)
    earlier = replace(outside.tag, attempt=outside.tag.attempt - 1)
    outside.keeping.clear()
    outside.executor.execute(do.CleanUpContainer(tag=earlier), None)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.execute(do.AbandonStart(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    assert outside.news == [on.StartAbandoned(attempt=1)]
    assert "create" not in outside.engine.calls(outside.tag)
    outside.keeping.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_host_paths_that_were_created_are_saved_with_the_container(monkeypatch):
    outside = Outside(seconds=60)
    create = outside.simulated.create

    async def creating(launch):
        return replace(await create(launch), created_host_paths=("/data/x",))

    monkeypatch.setattr(outside.simulated, "create", creating)
    await outside.does(do.StartContainer(tag=outside.tag))

    assert [it.created_host_paths for it in outside.made] == [("/data/x",)]


async def test_an_absent_container_that_was_created_before_is_lost_and_not_created_again():
    outside = Outside(seconds=60)
    outside.job = after(outside.job, on.ContainerCreated(attempt=1, container_id="long ago"))

    await outside.does(do.StartContainer(tag=outside.tag))

    assert outside.news == [on.ContainerLost(attempt=1)]
    assert await outside.simulated.survey() == ()


async def test_a_container_that_vanished_after_an_unanswered_start_is_lost():
    outside = Outside(seconds=60)
    outside.simulated.faults.plan("start", LOST_REPLY)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(0.1)

    outside.simulated.remove_externally(outside.tag)

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news == [on.ContainerLost(attempt=1)]
    assert outside.engine.calls(outside.tag).count("start") == 1


async def test_a_container_created_late_under_a_used_name_is_not_started():
    outside = Outside(seconds=60)
    outside.simulated.faults.plan("create", Fault(takes_effect=True, delay=3))
    outside.simulated.faults.plan("start", LOST_REPLY)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(0.6)  # made by the second create, and started without an answer

    outside.simulated.remove_externally(outside.tag)
    outside.engine.unreachable = True
    await asyncio.sleep(3)  # the first create is carried out
    outside.engine.unreachable = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news == [on.ContainerLost(attempt=1)]
    assert [it.state for it in await outside.simulated.survey()] == [ContainerState.CREATED]


async def test_an_image_that_is_missing_after_a_pull_fails_the_start():
    outside = Outside(seconds=60)
    outside.engine.refusals["create"] = [ImageMissing("No such image")] * 8

    await outside.does(do.StartContainer(tag=outside.tag))

    (failed,) = outside.news
    assert failed.reason.startswith("CannotPullContainerError: ")
    assert outside.engine.calls(outside.tag) == ["create"] * 8


async def test_a_death_during_an_inspection_causes_another_inspection():
    outside = Outside(seconds=1, exit_code=3)
    await outside.does(do.StartContainer(tag=outside.tag))
    outside.engine.hold("inspect")
    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(2)

    outside.executor.inspect_again(outside.tag)
    outside.engine.release("inspect")

    await outside.tasks.drain(max_seconds=1000)
    assert isinstance(outside.news[-1], on.ContainerExited)


async def test_an_exit_is_reported_with_the_start_until_the_start_is_saved():
    unsaved, saved = Outside(seconds=1), Outside(seconds=1)
    saved.saved[saved.job.id] = after(saved.job, started())
    await unsaved.does(do.StartContainer(tag=unsaved.tag))
    await saved.does(do.StartContainer(tag=saved.tag))
    await asyncio.sleep(2)

    await unsaved.does(do.InspectContainer(tag=unsaved.tag))
    await saved.does(do.InspectContainer(tag=saved.tag))

    assert [type(it) for it in unsaved.news] == [on.ContainerStarted, on.ContainerStarted, on.ContainerExited]
    assert [type(it) for it in saved.news] == [on.ContainerStarted, on.ContainerExited]


async def test_a_start_report_has_low_priority_and_an_exit_does_not():
    outside = Outside(seconds=1)
    outside.saved[outside.job.id] = outside.job
    await outside.does(do.StartContainer(tag=outside.tag))
    await asyncio.sleep(2)

    await outside.does(do.InspectContainer(tag=outside.tag))

    assert [type(it) for it in outside.news] == [on.ContainerStarted, on.ContainerStarted, on.ContainerExited]
    assert outside.low_priority == [True, True, False]


async def test_an_inspection_of_a_running_container_posts_a_timer_message():
    outside = Outside(seconds=60)
    await outside.does(do.StartContainer(tag=outside.tag))

    await outside.does(do.InspectContainer(tag=outside.tag))

    assert outside.alive == 1


async def test_a_repeated_stop_sends_no_second_signal():
    outside = Outside(seconds=60, on_term=None)
    await outside.does(do.StartContainer(tag=outside.tag))
    await outside.does(do.StopContainer(tag=outside.tag))

    await outside.does(do.StopContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag).count("stop") == 1
    assert outside.news[1:] == [on.StopSignalDelivered(attempt=1)] * 2


# ------------------------------------------------------------------------------------------------------- one of several


class Several(Outside):
    """As above, of a task of two: of the `app` what the script says, of the other nothing."""

    def __init__(self, *, logging=NO_DRIVER, **container):
        super().__init__()
        scripted = spec(Script(**container))
        self.job = task_job(task_container("app"), task_container("other"))
        own = replace(self.job.spec.task.containers[0], spec=scripted)
        self.job = replace(self.job, spec=replace(self.job.spec, task=task(own, self.job.spec.task.containers[1])))

    @property
    def tag(self) -> Tag:
        return replace(self.job.tag, container_key="0/app")


async def test_no_stop_signal_is_sent_to_a_container_that_is_cleaned_up():
    outside = Outside(seconds=60, on_term=None)
    await outside.does(do.StartContainer(tag=outside.tag))
    outside.simulated.faults.plan("signal_stop", NO_EFFECT, times=1000)
    outside.executor.execute(do.StopContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(10)

    outside.executor.execute(do.CleanUpContainer(tag=outside.tag), None)
    await asyncio.sleep(2 * SIGNAL_RETRY_INTERVAL)

    assert outside.engine.calls(outside.tag)[-1] == "remove"
    assert await outside.simulated.survey() == ()
    await outside.tasks.drain(max_seconds=1000)


async def test_a_container_removed_with_its_log_is_not_removed_again():
    outside = Outside(seconds=60)
    outside.goes_with_its_log = True

    await outside.does(do.CleanUpContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag) == []


async def test_the_address_of_a_started_container_is_reported():
    outside = Several(seconds=60)

    await outside.does(do.StartContainer(tag=outside.tag))

    (started,) = outside.news
    assert (type(started), started.container_key, started.address is None) == (on.ContainerStarted, "0/app", False)


async def test_an_unanswered_inspection_of_the_address_is_repeated_without_another_start():
    outside = Several(seconds=60)
    outside.simulated.faults.plan("inspect", NO_EFFECT, times=2)

    await outside.does(do.StartContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag).count("start") == 1
    assert [(it.container_key, it.address is None) for it in outside.news] == [("0/app", False)]


async def test_events_of_a_multi_container_job_name_the_container():
    refused, given_up, asked = Several(refuse="no such file"), Several(seconds=60), Several(seconds=60)

    await refused.does(do.StartContainer(tag=refused.tag))
    given_up.executor.execute(do.StartContainer(tag=given_up.tag), given_up.job)
    await given_up.does(do.AbandonStart(tag=given_up.tag))
    await asked.does(do.StartContainer(tag=asked.tag))
    await asked.does(do.StopContainer(tag=asked.tag))

    assert [(type(it), it.container_key) for it in refused.news] == [(on.StartFailed, "0/app")]
    assert given_up.news == [on.StartAbandoned(attempt=1, container_key="0/app")]
    assert asked.news[-1] == on.StopSignalDelivered(attempt=1, container_key="0/app")


async def cleared(outside, times):
    """What is asked of the engine by so many surveys that find a container that is over."""
    await outside.does(do.StartContainer(tag=outside.tag))
    begun = len(outside.engine.calls(outside.tag))
    for _ in range(times):
        await outside.does(do.CleanUpContainer(tag=outside.tag))
    return outside.engine.calls(outside.tag)[begun:]


@pytest.mark.fault("SE30")
async def test_a_container_whose_log_stays_unreadable_is_removed(caplog):
    outside = Outside(seconds=60)
    outside.log_refused = LogRefused("logs: input/output error")

    assert await cleared(outside, MAX_LOG_REFUSALS) == ["remove"]

    assert "removed without its log, which cannot be read: logs: input/output error" in caplog.text


async def test_a_container_is_kept_until_the_engine_returns_its_log():
    outside = Outside(seconds=60)
    outside.log_refused = EngineUnknown("no answer")

    assert await cleared(outside, 2 * MAX_LOG_REFUSALS) == []


@pytest.mark.fault("SE30")
async def test_the_output_of_other_log_drivers_is_not_captured():
    outside = Outside(seconds=60, logging=Logging(driver="splunk"))

    assert await cleared(outside, 1) == ["remove"]

    assert outside.logs_read == 0


@pytest.mark.fault("EN02")
async def test_a_container_whose_start_was_not_requested_is_started_after_an_engine_restart():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(0.1)

    outside.simulated._engine.end()
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)

    assert outside.news == [on.ContainerStarted(attempt=1, started_at=outside.clock.now())]


@pytest.mark.fault("EN02")
async def test_a_start_request_that_was_not_sent_does_not_count():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(0.1)

    outside.engine.unreachable = True
    outside.saving.set()
    await asyncio.sleep(2)
    outside.simulated._engine.end()
    outside.engine.unreachable = False
    await outside.tasks.drain(max_seconds=1000)

    assert [type(it) for it in outside.news] == [on.ContainerStarted]
