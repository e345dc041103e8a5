"""Failures of an engine at a certain point of a job: frozen, crashed with its machine, parts of it stuck."""

import asyncio
import signal
from decimal import Decimal

import pytest

from batchq.compute.docker.create_request import container_name
from batchq.compute.docker.runtime import DockerRuntime
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.prices import Prices
from tests.support import processes
from tests.support.containers import instance_of, until
from tests.support.scripts import Script, lasting
from tests.support.second_engine import second_engine

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, output=("ready",))
IGNORES_SIGTERM = Script(seconds=None, on_term=None, output=("ready",))
STUCK = 6


async def stops_at(world, call, script=LONG):
    """A job whose next call of this name has been made, and has not reached the engine."""
    world.runtime.hold(call)
    job = await world.submit(script)
    await world.wait_for_call(job, call)
    return job


async def gone(pid):
    return not processes.lives(pid)


def container_of(world, job_id):
    return container_name(instance_of(world.machine), world.engine.loop.state.active[job_id].tag)


@pytest.mark.fault("EN06", "EN07", "EN08", "SP08")
async def test_late_actions_of_a_frozen_engine_agree_with_the_answers(world, engine):
    running, ended = await world.submit(LONG), await world.submit(lasting(output=("ready",)))
    await world.wait_for_output(running, "ready")
    await world.wait_for_output(ended, "ready")
    pid = engine.container(container_of(world, ended))
    started, created = await stops_at(world, "start"), await stops_at(world, "create")

    with processes.frozen(engine.pid):
        world.runtime.release("create")
        world.runtime.release("start")
        await world.wait_for_engine(up=False)  # by now the calls have timed out too
        processes.send(signal.SIGTERM, pid)
        await until(lambda: gone(pid))
        world.runtime.hold("stop")
        for job in (running, ended, started, created):
            await world.terminate(job, "while it was frozen")  # this waits for no engine
        world.runtime.release("stop")

    done = [
        await world.wait_for(job, Status.FAILED, status_reason="while it was frozen")
        for job in (running, ended, started, created)
    ]
    assert [attempt.exit_code for attempt in done[1].attempts] == [0]
    assert done[3].attempts == ()
    assert "start" not in await world.engine_calls(created)
    assert (await world.engine_calls(started)).count("start") <= 1
    await world.wait_until_containers_are_gone()


@pytest.mark.fault("EN05")
async def test_after_a_crash_of_the_machine_running_jobs_are_lost_and_queued_ones_start(world, engine):
    ran = await world.start(LONG)
    created = await stops_at(world, "start", Script(seconds=0))

    await asyncio.to_thread(engine.crash)
    world.runtime.release("start")
    await asyncio.to_thread(engine.start)

    lost = await world.wait_for(ran, Status.FAILED, status_reason=status_reasons.HOST_TERMINATED)
    assert [attempt.exit_code for attempt in lost.attempts] == [255]
    assert len((await world.wait_for(created, Status.SUCCEEDED)).attempts) == 1


@pytest.mark.fault("BU07")
async def test_the_time_from_a_power_cut_to_the_engines_next_start_is_not_charged(world, engine):
    world.prices = Prices(currency="EUR", vcpu_hour=Decimal(4 * 3600))
    job = await world.start(LONG)

    await asyncio.to_thread(engine.crash)
    crashed_at = world.clock.now()
    await world.sleep(5)
    await asyncio.to_thread(engine.start)

    lost = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.HOST_TERMINATED)
    assert lost.attempts[0].charged_until <= crashed_at < lost.stopped_at


@pytest.fixture
def other_engine():
    """Another engine of this machine: in Docker 20.10 both read their ID from the same file."""
    with second_engine() as other:
        yield other


@pytest.mark.fault("CO03")
async def test_an_engine_with_another_data_root_is_another_engine(world, other_engine):
    job, theirs = await world.start(lasting()), world.machine
    other = DockerRuntime(instance=instance_of(theirs), base_url=other_engine.url)

    await exchange_engine(world, other)

    await world.wait_for_engine(up=False)
    assert "this is not the container engine that 1 jobs run on" in world.engine.health().engine
    assert (await world.job(job)).status is Status.RUNNING

    await exchange_engine(world, theirs)
    await other.close()

    await world.wait_for_engine(up=True)
    await world.finish(job, Status.SUCCEEDED)


async def exchange_engine(world, runtime):
    """Restart the server on another engine."""
    await world.crash()
    world.machine = world.runtime.runtime = runtime
    await world.boot()


@pytest.mark.fault("EN22")
async def test_while_containerd_is_stuck_or_dead_a_start_waits_and_costs_no_attempt(world, engine):
    with processes.frozen(engine.containerd):
        waiting = await world.submit(Script(seconds=0))
        await world.wait_for_call(waiting, "create", times=2)

    assert len((await world.wait_for(waiting, Status.SUCCEEDED)).attempts) == 1


@pytest.mark.fault("SP24")
async def test_containers_that_cannot_be_killed_hold_their_resources_and_delay_no_other_job(world, engine):
    stuck, well = [await world.submit(LONG) for _ in range(STUCK)], await world.submit(LONG)
    for job in (*stuck, well):
        await world.wait_for_output(job, "ready")

    with processes.frozen(*(engine.shim(container_of(world, job)) for job in stuck)):
        for job in stuck:
            await world.terminate(job, "stop it")
        await world.sleep(4)  # longer than the grace period; the calls about these containers time out
        await world.terminate(well, "stop it")
        await world.wait_for(well, Status.FAILED, status_reason="stop it")
        another = await world.submit(Script(seconds=0))
        await world.wait_for(another, Status.SUCCEEDED)
        held = [await world.job(job) for job in stuck]

    assert {(job.status, job.is_terminated) for job in held} == {(Status.RUNNING, True)}
    for job in stuck:
        await world.wait_for(job, Status.FAILED, status_reason="stop it")
