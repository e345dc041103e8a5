"""The machine's clock was wrong when a server started, and is right when the next one does. Decision 0035."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.catalog import TimeLimit
from batchq.domain.enums import Status
from batchq.domain.lifecycle.stopping import next_step_at
from batchq.ports.runtime import RuntimeIdentity
from tests.support import builders
from tests.support.builders import ADMIN, task
from tests.support.clock import SetClock
from tests.support.scripts import IGNORES_SIGTERM, Script, contained
from tests.support.world import HOST

TWO_HOURS = timedelta(hours=2)
HOUR = 3600.0  # seconds
NEVER_ENDS = Script(seconds=None, on_term=None, output=("ready",))

pytestmark = pytest.mark.fault("CO01")


@pytest.fixture(params=[-TWO_HOURS, TWO_HOURS], ids=["two hours behind", "two hours ahead"])
def wrong_by(request):
    return request.param


@pytest.fixture
async def world(world, wrong_by):
    """Its server's clock is wrong; `right_clock` is the next one's."""
    return await with_wrong_clock(world, wrong_by)


@pytest.fixture
async def virtual(simulated, wrong_by):
    return await with_wrong_clock(simulated, wrong_by)


async def with_wrong_clock(world, by):
    world.right_clock = world.clock
    await world.restart_with_clock(SetClock(world.clock, by))
    return world


async def test_a_running_job_is_not_timed_out_early(world):
    job = await world.start(limit=HOUR, attempts=3)

    await world.restart_with_clock(world.right_clock)

    await world.finish(job)
    done = await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert done.created_at <= done.started_at <= done.stopped_at < done.started_at + timedelta(seconds=HOUR)


async def test_a_grace_period_that_has_begun_ends_in_time(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.terminate(job)
    stopping = await world.wait_until(job, lambda job: next_step_at(job) is not None)

    await world.restart_with_clock(world.right_clock)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert done.stopped_at - stopping.started_at < timedelta(minutes=1) + TWO_HOURS


async def test_a_timeout_applies_in_time(virtual):
    job = await virtual.start(Script(seconds=60, on_term=143, output=("ready",)), limit=3)

    await virtual.restart_with_clock(virtual.right_clock)

    await virtual.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)


async def test_a_container_of_a_task_is_killed_in_time(virtual):
    job = await virtual.submit(task=task(contained("app", IGNORES_SIGTERM)), limit=HOUR)
    await virtual.wait_for_output(job, "ready", container_key="0/app")
    await virtual.terminate(job)
    await virtual.wait_until(
        job, lambda job: job.attempt is not None and job.attempt.containers[0].next_step_at is not None
    )

    await virtual.restart_with_clock(virtual.right_clock)

    await virtual.wait_for(job, Status.FAILED, status_reason="stop it")


@pytest.mark.parametrize("shape", [{}, {"task": task(contained("app", NEVER_ENDS))}], ids=["container", "task"])
async def test_a_grace_period_stored_by_a_clock_ahead_ends_in_time_after_a_reboot(simulated, shape):
    """The engine is another machine's: its containers have not ended with this one."""
    await with_wrong_clock(simulated, TWO_HOURS)
    job = await simulated.submit(NEVER_ENDS, **shape)
    await simulated.wait_for_output(job, "ready", container_key="0/app" if shape else "")
    await simulated.terminate(job)
    await simulated.wait_until_idle()

    await simulated.restart_with_clock(SetClock(simulated.right_clock, timedelta(), boot_id="another"))

    await simulated.wait_for(job, Status.FAILED, status_reason="stop it")


async def test_a_blocked_job_is_cancelled_neither_early_nor_late(virtual):
    limit = TimeLimit(reason="MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE", most=timedelta(hours=1))
    limited = builders.queue("limited", time_limits=(limit,), created_at=virtual.clock.now())
    await virtual.catalog.job_queues.create(limited, caller=ADMIN)
    job = await virtual.submit(Script(seconds=1), queue="limited", millicpus=2 * HOST.millicpus)
    await virtual.wait_for(job, Status.RUNNABLE, unschedulable=True)

    await virtual.restart_with_clock(virtual.right_clock)

    assert (await virtual.job(job)).status is Status.RUNNABLE
    await virtual.sleep(HOUR - 60)
    assert (await virtual.job(job)).status is Status.RUNNABLE
    await virtual.sleep(120)
    assert (await virtual.job(job)).status is Status.FAILED


async def after_a_reboot(world, *, engine_ahead, clock_ahead=1.5 * TWO_HOURS, limit=2 * HOUR, **fields):
    """The server's machine was booted, and its clock is three hours ahead of what a long job has seen."""
    job = await world.submit(IGNORES_SIGTERM, limit=limit, **fields)
    started = (await world.wait_for(job, Status.RUNNING)).started_at

    async def identity():
        return RuntimeIdentity(id="simulated", time=world.right_clock.now() + engine_ahead)

    world.right_clock = world.clock
    world.runtime.identity = identity
    await world.restart_with_clock(SetClock(world.clock, clock_ahead, boot_id="another"))
    assert (await world.job(job)).started_at == started
    return job


async def test_after_a_reboot_the_wall_time_counts(simulated):
    job = await after_a_reboot(simulated, engine_ahead=1.5 * TWO_HOURS)

    await simulated.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)


async def test_after_a_reboot_a_timeout_waits_for_the_clock_of_a_remote_engine(simulated):
    job = await after_a_reboot(simulated, engine_ahead=timedelta())

    await simulated.wait_for(job, Status.SUCCEEDED)


def slow_init(limit):
    """A task whose application waits for a container that does not end, for `limit` at most."""
    init = contained("init", NEVER_ENDS, essential=False, start_timeout=limit)
    return task(init, contained("app", Script(seconds=0), after={"init": "COMPLETE"}))


async def test_after_a_reboot_a_start_timeout_does_not_wait_for_the_timeout_of_the_job(simulated):
    shape = slow_init(timedelta(seconds=30))
    job = await after_a_reboot(simulated, engine_ahead=timedelta(), clock_ahead=timedelta(), task=shape)

    await simulated.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)


async def test_after_a_reboot_two_timeouts_that_wait_are_inspected_with_surveys_only(simulated):
    shape = slow_init(timedelta(seconds=90))
    shape = replace(shape, containers=(*shape.containers, contained("main", NEVER_ENDS)))
    job = await after_a_reboot(simulated, engine_ahead=timedelta(), task=shape)

    await simulated.sleep(55)

    inspected = await simulated.engine_calls_by_container(job, "inspect")
    assert len(inspected) <= 15  # two of each survey, and those of the restart
    await simulated.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)


async def test_after_a_reboot_a_start_timeout_waits_for_the_clock_of_a_remote_engine(simulated):
    shape = slow_init(timedelta(seconds=90))
    job = await after_a_reboot(simulated, engine_ahead=timedelta(), limit=None, task=shape)

    await simulated.sleep(60)
    assert (await simulated.job(job)).status is Status.RUNNING
    await simulated.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)
