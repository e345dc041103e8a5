"""Which calls the executor makes, and how often, when answers are late or missing."""

import asyncio
import logging
from contextlib import suppress

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault, SimulatedRuntime
from batchq.compute.simulated.script import Script
from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.container import Logging
from batchq.domain.explanation.facts import StartPhase
from batchq.domain.ids import Tag
from batchq.domain.machines import one_machine
from batchq.domain.task import one_task
from batchq.engine.checkpoints import Checkpoints, FinalMetrics
from batchq.engine.containers.executor import MAX_LOG_REFUSALS, SIGNAL_RETRY_INTERVAL, Executor
from batchq.engine.containers.start import MAX_PAUSE
from batchq.engine.containers.start_breaker import StartBreaker
from batchq.engine.containers.translation import launch_spec
from batchq.engine.mailbox import JobEvent, TimerFired
from batchq.engine.supervisor import Supervisor
from batchq.errors import ImageMissing, LogRefused, RuntimeUnknown, StartHadNoEffect, StartRefused, StoreFailed
from batchq.ports.runtime import ContainerState
from tests.domain.lives import after, started, starting
from tests.domain.part_lives import task_job
from tests.engine.harness import HOST, catalog_of
from tests.support.builders import NO_ACCOUNTS, task, task_container
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore, temporary_checkpoints
from tests.support.proxies import RecordingRuntime
from tests.support.scripts import spec

NO_DRIVER = Logging()


class ExecutorHarness:
    """An executor over a simulated engine; `events` are those that the executor posted."""

    def __init__(self, *, logging=NO_DRIVER, **container):
        self.clock = clock = VirtualClock()
        self.simulated = SimulatedRuntime(clock=clock, machines=one_machine(HOST))
        self.engine = RecordingRuntime(self.simulated)
        self.events, self.low_priority, self.timer_messages, self.tasks = [], [], 0, Supervisor(clock)
        breaker = StartBreaker(clock=clock, tasks=self.tasks)
        self.saved, self.created, self.disk_full, self.saving = {}, [], False, asyncio.Event()
        self.saving.set()
        self.capturing = asyncio.Event()
        self.capturing.set()
        self.removed_with_its_log = False
        self.log_refused, self.logs_read = None, 0
        self.executor = Executor(
            runtime=self.engine,
            catalog=catalog_of(),
            accounts=NO_ACCOUNTS,
            checkpoints=Checkpoints(
                store=InlineStore(),
                files=temporary_checkpoints(clock.now),
                retention=None,
                clock=clock,
                tasks=self.tasks,
                post=self._on_message,
            ),
            breaker_of=lambda _machine: breaker,
            capture_log=self._capture_log,
            final_metrics=FinalMetrics(read=None, post=None),
            clock=clock,
            tasks=self.tasks,
            saved_job=self.saved.get,
            post=self._on_message,
        )
        self.job = starting(container=spec(Script(**container), logging=logging))

    @property
    def tag(self) -> Tag:
        return self.job.tag

    def _on_message(self, message):
        match message:
            case JobEvent(event=on.ContainerCreated() as created, answer=answer):
                self.created.append(created)
                self.tasks.spawn("save", self._save(answer))
            case JobEvent(event=event, low_priority=low_priority):
                self.events.append(event)
                self.low_priority.append(low_priority)
            case TimerFired(running_container=tag) if tag == self.tag:
                self.timer_messages += 1

    async def _save(self, answer):
        await self.saving.wait()
        if self.disk_full:
            answer.set_exception(StoreFailed("no space left on device"))
        else:
            answer.set_result(None)

    async def _capture_log(self, _):
        self.logs_read += 1
        await self.capturing.wait()
        if self.log_refused is not None:
            raise self.log_refused
        return self.removed_with_its_log

    async def execute(self, effect):
        """Execute the effect, and wait until no task is running."""
        self.executor.execute(effect, self.job)
        await self.tasks.drain(max_seconds=1000)


async def test_an_abandoned_start_retries_with_pauses_while_the_engine_is_away():
    harness = ExecutorHarness(seconds=60)
    harness.engine.unreachable = True
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)

    harness.executor.execute(do.AbandonStart(tag=harness.tag), harness.job)
    await asyncio.sleep(10 * MAX_PAUSE)

    harness.engine.unreachable = False
    await harness.tasks.drain(max_seconds=1000)
    assert harness.engine.inspections < 20
    assert harness.events == [on.StartAbandoned(attempt=1)]


async def test_a_start_without_room_waits_as_refused_and_is_logged_a_few_times(caplog):
    """As in a namespace of Kubernetes whose quota is used up for hours."""
    harness = ExecutorHarness(seconds=60)
    harness.engine.unreachable = True
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)
    harness.engine.unreachable = False
    harness.engine.errors["create"] = StartHadNoEffect("create: exceeded quota")
    await asyncio.sleep(100 * MAX_PAUSE)

    progress = harness.executor.starts()[harness.tag]
    assert (progress.phase, progress.error) == (StartPhase.REFUSED, "create: exceeded quota")
    assert 90 < progress.refusals < len(harness.engine.calls(harness.tag))
    assert 0 < len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 10

    del harness.engine.errors["create"]
    await harness.tasks.drain(max_seconds=1000)
    assert [type(event) for event in harness.events] == [on.ContainerStarted]


async def test_a_late_start_call_does_not_start_an_abandoned_container():
    harness = ExecutorHarness(seconds=60)
    harness.simulated.faults.plan("start", Fault(takes_effect=True, delay=30))
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.executor.execute(do.AbandonStart(tag=harness.tag), harness.job)
    await harness.tasks.drain(max_seconds=1000)
    await asyncio.sleep(60)

    assert harness.events == [on.StartAbandoned(attempt=1)]
    assert await harness.simulated.survey() == ()


async def created_before_the_engine_restarted():
    """A job whose container was created before the engine restarted. An earlier server requested its start."""
    harness = ExecutorHarness(seconds=60)
    await harness.simulated.create(launch_spec(harness.job, harness.tag))
    harness.job = after(harness.job, on.ContainerCreated(attempt=1, container_id="1"))
    harness.simulated.engine.end()
    harness.simulated.faults.plan("start", Fault(takes_effect=True, delay=30))
    with suppress(RuntimeUnknown):
        await harness.simulated.start(harness.tag)
    return harness


LOST = on.ContainerLost(attempt=1, reason=status_reasons.HOST_TERMINATED)


async def test_a_late_start_call_does_not_start_a_container_that_is_reported_as_lost():
    harness = await created_before_the_engine_restarted()

    await harness.execute(do.StartContainer(tag=harness.tag))
    await asyncio.sleep(60)

    assert harness.events == [LOST]
    assert harness.logs_read == 1
    assert await harness.simulated.survey() == ()


async def test_a_lost_start_is_reported_as_lost_although_the_reply_to_the_removal_was_lost():
    harness = await created_before_the_engine_restarted()
    harness.simulated.faults.plan("remove", LOST_REPLY)

    await harness.execute(do.StartContainer(tag=harness.tag))

    assert harness.events == [LOST]
    assert harness.engine.calls(harness.tag) == ["create", "remove", "remove"]


REFUSED = StartRefused("CannotStartContainerError: no such file", certain=True)


async def test_a_late_start_call_does_not_start_a_container_whose_start_was_refused():
    harness = ExecutorHarness(seconds=60)
    harness.simulated.faults.plan("start", Fault(takes_effect=True, delay=30))
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.engine.errors["start"] = REFUSED
    await harness.tasks.drain(max_seconds=1000)
    await asyncio.sleep(60)

    assert [type(event) for event in harness.events] == [on.StartFailed]
    assert await harness.simulated.survey() == ()


async def test_a_refused_start_whose_earlier_call_was_carried_out_is_reported_as_started():
    harness = ExecutorHarness(seconds=60)
    harness.simulated.faults.plan("start", Fault(takes_effect=True, delay=0.7))
    harness.simulated.faults.plan("inspect", NO_EFFECT)
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.engine.errors["start"] = REFUSED
    await harness.tasks.drain(max_seconds=1000)

    assert [type(event) for event in harness.events] == [on.ContainerStarted]


async def test_a_refused_start_without_an_unanswered_call_is_reported_at_once():
    harness = ExecutorHarness(seconds=60)
    harness.engine.errors["start"] = REFUSED

    await harness.execute(do.StartContainer(tag=harness.tag))

    assert [type(event) for event in harness.events] == [on.StartFailed]
    assert harness.engine.calls(harness.tag) == ["create", "start"]
    assert harness.engine.inspections == 0


async def test_a_start_abandoned_while_its_creation_is_saved_is_not_made():
    harness = ExecutorHarness(seconds=60)
    harness.saving.clear()
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)

    harness.executor.execute(do.AbandonStart(tag=harness.tag), harness.job)
    harness.saving.set()

    await harness.tasks.drain(max_seconds=1000)
    assert harness.engine.calls(harness.tag) == ["create", "remove"]
    assert harness.events == [on.StartAbandoned(attempt=1)]


async def test_a_start_that_waits_for_a_clean_up_is_abandoned_at_once():
    harness = ExecutorHarness(seconds=60)
    earlier = replace(harness.tag, attempt=harness.tag.attempt - 1)
    harness.capturing.clear()
    harness.executor.execute(do.CleanUpContainer(tag=earlier), None)
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(1)

    harness.executor.execute(do.AbandonStart(tag=harness.tag), harness.job)
    await asyncio.sleep(1)

    assert harness.events == [on.StartAbandoned(attempt=1)]
    assert "create" not in harness.engine.calls(harness.tag)
    harness.capturing.set()
    await harness.tasks.drain(max_seconds=1000)


async def test_host_paths_that_were_created_are_saved_with_the_container(monkeypatch):
    harness = ExecutorHarness(seconds=60)
    create = harness.simulated.create

    async def creating(launch):
        return replace(await create(launch), created_host_paths=("/data/x",))

    monkeypatch.setattr(harness.simulated, "create", creating)
    await harness.execute(do.StartContainer(tag=harness.tag))

    assert [event.created_host_paths for event in harness.created] == [("/data/x",)]


async def test_an_absent_container_that_was_created_before_is_lost_and_not_created_again():
    harness = ExecutorHarness(seconds=60)
    harness.job = after(harness.job, on.ContainerCreated(attempt=1, container_id="long ago"))

    await harness.execute(do.StartContainer(tag=harness.tag))

    assert harness.events == [on.ContainerLost(attempt=1)]
    assert await harness.simulated.survey() == ()


async def test_a_container_that_vanished_after_an_unanswered_start_is_lost():
    harness = ExecutorHarness(seconds=60)
    harness.simulated.faults.plan("start", LOST_REPLY)
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.simulated.remove_externally(harness.tag)

    await harness.tasks.drain(max_seconds=1000)
    assert harness.events == [on.ContainerLost(attempt=1)]
    assert harness.engine.calls(harness.tag).count("start") == 1


async def test_a_container_created_late_under_a_used_name_is_not_started():
    harness = ExecutorHarness(seconds=60)
    harness.simulated.faults.plan("create", Fault(takes_effect=True, delay=3))
    harness.simulated.faults.plan("start", LOST_REPLY)
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.6)  # made by the second create, and started without an answer

    harness.simulated.remove_externally(harness.tag)
    harness.engine.unreachable = True
    await asyncio.sleep(3)  # the first create is carried out
    harness.engine.unreachable = False

    await harness.tasks.drain(max_seconds=1000)
    assert harness.events == [on.ContainerLost(attempt=1)]
    assert [container.state for container in await harness.simulated.survey()] == [ContainerState.CREATED]


async def test_an_image_that_is_missing_after_a_pull_fails_the_start():
    harness = ExecutorHarness(seconds=60)
    harness.engine.refusals["create"] = [ImageMissing("No such image")] * 8

    await harness.execute(do.StartContainer(tag=harness.tag))

    (failed,) = harness.events
    assert failed.reason.startswith("CannotPullContainerError: ")
    assert harness.engine.calls(harness.tag) == ["create"] * 8


async def test_a_death_during_an_inspection_causes_another_inspection():
    harness = ExecutorHarness(seconds=1, exit_code=3)
    await harness.execute(do.StartContainer(tag=harness.tag))
    harness.engine.hold("inspect")
    harness.executor.inspect_again(harness.tag)
    await asyncio.sleep(2)

    harness.executor.inspect_again(harness.tag)
    harness.engine.release("inspect")

    await harness.tasks.drain(max_seconds=1000)
    assert isinstance(harness.events[-1], on.ContainerExited)


async def test_an_exit_is_reported_with_the_start_until_the_start_is_saved():
    unsaved, saved = ExecutorHarness(seconds=1), ExecutorHarness(seconds=1)
    saved.saved[saved.job.id] = after(saved.job, started())
    await unsaved.execute(do.StartContainer(tag=unsaved.tag))
    await saved.execute(do.StartContainer(tag=saved.tag))
    await asyncio.sleep(2)

    await unsaved.execute(do.InspectContainer(tag=unsaved.tag))
    await saved.execute(do.InspectContainer(tag=saved.tag))

    assert [type(event) for event in unsaved.events] == [on.ContainerStarted, on.ContainerStarted, on.ContainerExited]
    assert [type(event) for event in saved.events] == [on.ContainerStarted, on.ContainerExited]


async def test_a_start_report_has_low_priority_and_an_exit_does_not():
    harness = ExecutorHarness(seconds=1)
    harness.saved[harness.job.id] = harness.job
    await harness.execute(do.StartContainer(tag=harness.tag))
    await asyncio.sleep(2)

    await harness.execute(do.InspectContainer(tag=harness.tag))

    assert [type(event) for event in harness.events] == [on.ContainerStarted, on.ContainerStarted, on.ContainerExited]
    assert harness.low_priority == [True, True, False]


async def test_an_inspection_of_a_running_container_posts_a_timer_message():
    harness = ExecutorHarness(seconds=60)
    await harness.execute(do.StartContainer(tag=harness.tag))

    await harness.execute(do.InspectContainer(tag=harness.tag))

    assert harness.timer_messages == 1


class MultiContainerHarness(ExecutorHarness):
    """A job of two containers: the container `app` runs the script."""

    def __init__(self, *, logging=NO_DRIVER, **container):
        super().__init__()
        scripted = spec(Script(**container))
        self.job = task_job(task_container("app"), task_container("other"))
        _, other = self.job.spec.nodes.task(0).containers
        made = one_task(task(task_container("app", spec=scripted), other))
        self.job = replace(self.job, spec=replace(self.job.spec, nodes=made))

    @property
    def tag(self) -> Tag:
        return replace(self.job.tag, container_key="0/app")


async def test_no_stop_signal_is_sent_to_a_container_that_is_cleaned_up():
    harness = ExecutorHarness(seconds=60, on_term=None)
    await harness.execute(do.StartContainer(tag=harness.tag))
    harness.simulated.faults.plan("signal_stop", NO_EFFECT, times=1000)
    harness.executor.execute(do.StopContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(10)

    harness.executor.execute(do.CleanUpContainer(tag=harness.tag), None)
    await asyncio.sleep(2 * SIGNAL_RETRY_INTERVAL)

    assert harness.engine.calls(harness.tag)[-1] == "remove"
    assert await harness.simulated.survey() == ()
    await harness.tasks.drain(max_seconds=1000)


async def test_a_container_removed_with_its_log_is_not_removed_again():
    harness = ExecutorHarness(seconds=60)
    harness.removed_with_its_log = True

    await harness.execute(do.CleanUpContainer(tag=harness.tag))

    assert harness.engine.calls(harness.tag) == []


async def test_an_unanswered_inspection_of_the_address_is_repeated_without_another_start():
    harness = MultiContainerHarness(seconds=60)
    harness.simulated.faults.plan("inspect", NO_EFFECT, times=2)

    await harness.execute(do.StartContainer(tag=harness.tag))

    assert harness.engine.calls(harness.tag).count("start") == 1
    assert [(event.container_key, event.address is None) for event in harness.events] == [("0/app", False)]


async def test_events_of_a_multi_container_job_name_the_container():
    refused = MultiContainerHarness(refuse="no such file")
    given_up, stopped = MultiContainerHarness(seconds=60), MultiContainerHarness(seconds=60)

    await refused.execute(do.StartContainer(tag=refused.tag))
    given_up.executor.execute(do.StartContainer(tag=given_up.tag), given_up.job)
    await given_up.execute(do.AbandonStart(tag=given_up.tag))
    await stopped.execute(do.StartContainer(tag=stopped.tag))
    await stopped.execute(do.StopContainer(tag=stopped.tag))

    assert [(type(event), event.container_key) for event in refused.events] == [(on.StartFailed, "0/app")]
    assert given_up.events == [on.StartAbandoned(attempt=1, container_key="0/app")]
    assert stopped.events[-1] == on.StopSignalDelivered(attempt=1, container_key="0/app")


async def cleared(harness, times):
    """The calls of the engine after `times` surveys that found the exited container."""
    await harness.execute(do.StartContainer(tag=harness.tag))
    begun = len(harness.engine.calls(harness.tag))
    for _ in range(times):
        await harness.execute(do.CleanUpContainer(tag=harness.tag))
    return harness.engine.calls(harness.tag)[begun:]


@pytest.mark.fault("SE30")
async def test_a_container_whose_log_stays_unreadable_is_removed(caplog):
    harness = ExecutorHarness(seconds=60)
    harness.log_refused = LogRefused("logs: input/output error")

    assert await cleared(harness, MAX_LOG_REFUSALS) == ["remove"]

    assert "removed without its log, which cannot be read: logs: input/output error" in caplog.text


async def test_a_container_is_kept_until_the_engine_returns_its_log():
    harness = ExecutorHarness(seconds=60)
    harness.log_refused = RuntimeUnknown("no answer")

    assert await cleared(harness, 2 * MAX_LOG_REFUSALS) == []


@pytest.mark.fault("SE30")
async def test_the_output_of_other_log_drivers_is_not_captured():
    harness = ExecutorHarness(seconds=60, logging=Logging(driver="splunk"))

    assert await cleared(harness, 1) == ["remove"]

    assert harness.logs_read == 0


@pytest.mark.fault("EN02")
async def test_a_container_whose_start_was_not_requested_is_started_after_an_engine_restart():
    harness = ExecutorHarness(seconds=60)
    harness.saving.clear()
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.simulated.engine.end()
    harness.saving.set()
    await harness.tasks.drain(max_seconds=1000)

    assert harness.events == [on.ContainerStarted(attempt=1, started_at=harness.clock.now())]


@pytest.mark.fault("EN02")
async def test_a_start_request_that_was_not_sent_does_not_count():
    harness = ExecutorHarness(seconds=60)
    harness.saving.clear()
    harness.executor.execute(do.StartContainer(tag=harness.tag), harness.job)
    await asyncio.sleep(0.1)

    harness.engine.unreachable = True
    harness.saving.set()
    await asyncio.sleep(2)
    harness.simulated.engine.end()
    harness.engine.unreachable = False
    await harness.tasks.drain(max_seconds=1000)

    assert [type(event) for event in harness.events] == [on.ContainerStarted]
