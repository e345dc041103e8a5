"""The engine and the store fail, are slow or report events unreliably, and nothing is lost. faults.md 4, 6.3, 6.4."""

import pytest

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.events import ContainerExited
from batchq.domain.ids import Tag
from batchq.engine.mailbox import JobEvent
from batchq.errors import RuntimeUnknown, StartRefused, StoreFailed
from tests.support.containers import launch
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, Script

UNANSWERED = RuntimeUnknown("no answer")


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
    job = await world.submit_until("create", Script(seconds=0))
    world.store.failing = True

    world.runtime.release("create")
    await world.sleep(2)

    assert "start" not in [what for _, what in world.runtime.all_calls]
    world.store.failing = False
    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_a_refusal_that_is_not_saved_yet_is_not_requested_again(world):
    world.runtime.refusals["start"] = [StartRefused("CannotStartContainerError: no such user", exit_code=128)]
    job = await world.submit_until("start", Script(seconds=60))
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
    assert [(job.status, job.status_reason) for job in shown] == [(Status.RUNNABLE, status_reasons.ENGINE_AWAY)] * 2
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


EACH_CALL = 5.0  # seconds


class Slow:
    """A runtime each of whose calls takes long, before it is carried out and after."""

    def __init__(self, runtime, clock):
        self._runtime = runtime
        self._clock = clock

    def __getattr__(self, name):
        call = getattr(self._runtime, name)
        if name in {"deaths", "logs"}:
            return call

        async def slowly(*given):
            await self._clock.sleep(EACH_CALL / 2)
            answer = await call(*given)
            await self._clock.sleep(EACH_CALL / 2)
            return answer

        return slowly


@pytest.fixture
async def orphan(simulated):
    """Containers of ours that no job knows, and that run when a server starts."""

    async def left_behind(number):
        await simulated.crash()
        launches = [launch(Script(seconds=None, on_term=None)) for _ in range(number)]
        for other_launch in launches:
            await simulated.machine.create(other_launch)
            await simulated.machine.start(other_launch.tag)
        await simulated.boot()
        return {other_launch.tag for other_launch in launches}

    return left_behind


async def there(simulated):
    return {container.tag for container in await simulated.machine.survey()}


@pytest.mark.fault("EN11")
@pytest.mark.parametrize("death_delays", [(), (0, 0), (0, 0.5, 40), (3,)], ids=["never", "twice", "thrice", "late"])
@pytest.mark.parametrize("inspected", [True, False], ids=["inspected", "not inspected"])
async def test_each_attempt_ends_once_as_inspected_whatever_the_events(simulated, death_delays, inspected):
    simulated.machine.faults.death_delays, simulated.machine.faults.inspects_deaths = death_delays, inspected
    jobs = [await simulated.submit(Script(seconds=seconds, exit_code=7), attempts=2) for seconds in (0, 1, 5)]

    done = [await simulated.wait_for(job, Status.FAILED) for job in jobs]
    await simulated.sleep(60)

    assert [[attempt.exit_code for attempt in job.attempts] for job in done] == [[7, 7]] * 3
    assert [await simulated.job(job) for job in jobs] == done


@pytest.mark.fault("EN17")
async def test_a_few_orphaned_containers_are_removed_after_a_minute(simulated, orphan):
    orphans = await orphan(3)

    await simulated.sleep(50)
    assert await there(simulated) == orphans
    await simulated.sleep(30)

    assert await there(simulated) == set()


@pytest.mark.fault("EN17")
async def test_many_orphaned_containers_are_kept_and_reported(simulated, orphan, caplog):
    orphans = await orphan(4)

    await simulated.sleep(200)

    assert await there(simulated) == orphans
    assert "have no known job" in caplog.text
    for tag in orphans:
        await simulated.machine.remove(tag)


@pytest.mark.fault("EN29")
async def test_a_slow_engine_does_nothing_twice_and_delays_no_request(simulated):
    machine = simulated.machine
    assert isinstance(machine, SimulatedRuntime)
    simulated.runtime.runtime = Slow(machine, simulated.clock)
    began = simulated.clock.now()
    jobs = [await simulated.submit(Script(seconds=1), attempts=2) for _ in range(20)]
    stopped = await simulated.start(Script(seconds=None))
    before = simulated.clock.now()
    await simulated.terminate(stopped)
    answered_after = simulated.clock.now() - before

    done = [await simulated.wait_for(job, Status.SUCCEEDED) for job in jobs]

    assert answered_after.total_seconds() < 0.1
    assert {len(job.attempts) for job in done} == {1}
    assert [(await simulated.engine_calls(job)).count("start") for job in jobs] == [1] * 20
    assert (simulated.clock.now() - began).total_seconds() > 4 * EACH_CALL
