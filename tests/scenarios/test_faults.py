"""The engine and the store fail, and nothing is lost. faults.md 4, 6.3, 6.4."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.events import ContainerExited
from batchq.domain.ids import Tag
from batchq.domain.job import Status
from batchq.engine.mailbox import JobEvent
from batchq.errors import EngineUnknown, StartRefused, StoreFailed
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, Script

UNANSWERED = EngineUnknown("no answer")


@pytest.mark.parametrize(
    ("call", "error"),
    [("create", UNANSWERED), ("start", StartRefused("port in use", exit_code=128, certain=False))],
    ids=["unanswered create", "temporary refusal"],
)
async def test_a_call_that_failed_is_repeated_and_costs_no_attempt(world, call, error):
    world.runtime.refusals[call] = [error, error]

    job = await world.submit(Script(seconds=0))

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_an_unanswered_start_that_took_effect_is_not_repeated(world):
    world.runtime.lost_replies["start"] = 1

    job = await world.submit(Script(seconds=2))

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert (await world.engine_calls(job)).count("start") == 1


@pytest.mark.parametrize(
    ("call", "script", "exit_code"),
    [("stop", HANDLES_SIGTERM, 0), ("kill", IGNORES_SIGTERM, 137)],
    ids=["stop", "kill"],
)
async def test_an_unanswered_signal_is_sent_again(world, call, script, exit_code):
    world.runtime.refusals[call] = [UNANSWERED]
    job = await world.start(script)

    await world.terminate(job, "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[exit_code])
    assert world.runtime.calls(Tag(job_id=job, attempt=1)).count(call) >= 2


async def test_a_container_that_ended_before_its_start_was_answered_is_not_started_again(world):
    world.runtime.lost_replies["start"] = 1
    job = await world.run()

    await world.runtime.remove(Tag(job_id=job, attempt=1))

    assert (await world.engine_calls(job)).count("start") == 1


async def test_a_container_is_started_only_after_its_creation_is_saved(world):
    world.runtime.hold("create")
    job = await world.submit(Script(seconds=0))
    await world.wait_for(job, Status.STARTING)
    world.store.failing = True

    world.runtime.release("create")
    await world.sleep(2)

    assert "start" not in [what for _, what in world.runtime.all_calls]
    world.store.failing = False
    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_a_refusal_that_is_not_saved_yet_is_not_requested_again(world):
    world.runtime.refusals["start"] = [StartRefused("CannotStartContainerError: no such user", exit_code=128)]
    world.runtime.hold("start")
    job = await world.submit(Script(seconds=60))
    await world.wait_for_call(job, "start")
    world.store.failing = True

    world.runtime.release("start")
    await world.sleep(1.1 * world.survey_interval)
    world.store.failing = False

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)
    assert (await world.engine_calls(job)).count("start") == 1


async def test_while_the_store_fails_requests_are_refused_and_events_are_kept(world):
    job = await world.start()
    world.store.failing = True
    await world.finish(job)
    await world.sleep(1)

    with pytest.raises(StoreFailed):
        await world.terminate(job, "stop it")
    world.store.failing = False

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_jobs_wait_with_a_reason_while_the_engine_is_away(world):
    world.runtime.unreachable = True
    await world.wait_for_engine(up=False)
    job, giant = await world.submit(Script(seconds=0)), await world.submit(Script(seconds=0), millicpus=64_000)
    await world.sleep(1)

    shown = await world.described(job, giant)
    assert [(it.status, it.status_reason) for it in shown] == [(Status.RUNNABLE, status_reasons.ENGINE_AWAY)] * 2
    assert (await world.job(job)).status_reason is None

    world.runtime.unreachable = False

    await world.wait_for(job, Status.SUCCEEDED)
    (hopeless,) = await world.described(giant)
    assert hopeless.status_reason == status_reasons.too_many_vcpus(64_000, 4000)


@pytest.mark.fault("EN09")
async def test_a_death_without_an_event_is_found_by_a_survey(world):
    world.runtime.drops_death_reports = True

    job = await world.submit(Script(seconds=0))

    await world.wait_for(job, Status.SUCCEEDED)


@pytest.mark.fault("EN11")
async def test_the_same_event_twice_changes_nothing(world):
    job = await world.submit(Script(seconds=0))
    done = await world.wait_for(job, Status.SUCCEEDED)

    moment = world.clock.now()
    exited = ContainerExited(attempt=1, exit_code=1, started_at=moment, stopped_at=moment)
    world.engine.mailbox.post(JobEvent(job_id=job, event=exited))

    await world.wait_until_idle()
    assert await world.job(job) == done
