"""Actions of operators and other users of the engine while jobs run, and of containers on the engine. faults.md 6.3."""

import asyncio
import threading
from contextlib import closing

import pytest

from batchq.compute.docker.create_request import container_name
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain import status_reasons
from batchq.domain.enums import Action, Status
from batchq.domain.ids import Tag
from batchq.domain.job import ExitRule
from batchq.settings import Privileged
from tests.support import world as worlds
from tests.support.containers import docker_runtime, ended, instance_of, output, over, started
from tests.support.docker_api import docker_api
from tests.support.proxy import proxy
from tests.support.scripts import IMAGE, Script
from tests.support.world import GRACE

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, output=("ready",))

PIDS = 64
SELDOM = 3600.0  # seconds between surveys, so that none of them helps


@pytest.fixture
async def world(docker_engine, tmp_path):
    async with worlds.docker(tmp_path, base_url=docker_engine) as living:
        yield living


@pytest.fixture
def engine(docker_engine):
    with closing(docker_api(docker_engine)) as client:
        yield client


@pytest.fixture
def foreign(engine):
    """A container of another client of the engine."""
    made = engine.create_container(IMAGE, ["sleep", "1000"])["Id"]
    engine.start(made)
    yield made
    engine.remove_container(made, force=True)


def named(world, job_id, attempt=1):
    return container_name(instance_of(world.machine), Tag(job_id=job_id, attempt=attempt))


def make_events(engine, container_id, over):
    """Call exec-create as fast as possible: each call causes an event of the engine, and has no other effect."""
    while not over.is_set():
        engine.exec_create(container_id, ["true"])


@pytest.mark.fault("EN10")
async def test_every_end_is_noticed_in_a_flood_of_foreign_events(world, engine, foreign):
    over = threading.Event()
    flood = asyncio.create_task(asyncio.to_thread(make_events, engine, foreign, over))
    jobs = [await world.submit(Script(seconds=1)) for _ in range(4)]

    try:
        for job in jobs:
            await world.wait_for(job, Status.SUCCEEDED)
    finally:
        over.set()
        await flood
    late = await world.submit(Script(seconds=0))

    await world.wait_for(late, Status.SUCCEEDED)


@pytest.mark.fault("EN14")
async def test_a_finished_container_started_again_externally_is_killed(world, engine):
    world.runtime.hold("remove")
    job = await world.submit(Script(seconds=1, exit_code=3))
    done = await world.wait_for(job, Status.FAILED)
    await world.wait_for_call(job, "remove")

    engine.start(named(world, job))
    world.runtime.release("remove")

    await world.wait_until_containers_are_gone()
    assert await world.job(job) == done


@pytest.mark.fault("EN15", "SP22")
async def test_a_container_paused_externally_is_stopped_by_its_timeout(world, engine):
    world.runtime.hold("stop")  # else it might be over before it is paused
    job = await world.start(Script(seconds=None, on_term=143, output=("ready",)), limit=2, attempts=2)

    engine.pause(named(world, job))

    await world.wait_for_call(job, "stop")
    assert (await world.job(job)).status is Status.RUNNING
    world.runtime.release("stop")
    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
    assert [attempt.exit_code for attempt in done.attempts] == [143]


@pytest.mark.fault("SP19", "SP22")
async def test_a_paused_container_that_ignores_sigterm_is_killed_after_the_grace_period(world, engine):
    job = await world.start(Script(seconds=None, on_term=None, output=("ready",)))
    engine.pause(named(world, job))

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert [attempt.exit_code for attempt in done.attempts] == [137]
    assert GRACE <= done.stopped_at - done.stop.ordered_at <= GRACE + world.slack


@pytest.mark.fault("EN16")
async def test_a_container_name_in_foreign_use_fails_the_attempt_and_is_kept(world, engine):
    world.runtime.hold("create")
    job = await world.submit(LONG)
    await world.wait_for_call(job, "create")
    foreign = engine.create_container(IMAGE, ["sleep", "1000"], name=named(world, job))["Id"]
    engine.start(foreign)

    world.runtime.release("create")

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)
    assert "does not belong to this server" in done.attempts[0].reason
    await world.wait_until_idle()
    assert engine.inspect_container(foreign)["State"]["Running"]
    engine.remove_container(foreign, force=True)


@pytest.mark.fault("EN26")
@pytest.mark.parametrize("code", [126, 127, 137, 143])
async def test_every_exit_code_is_kept(world, code):
    rules = (ExitRule(action=Action.EXIT, on_exit_code=str(code)),)
    job = await world.submit(Script(seconds=0, exit_code=code), attempts=2, rules=rules)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)

    assert [attempt.exit_code for attempt in done.attempts] == [code]


@pytest.mark.fault("EN25")
async def test_lack_of_memory_is_the_reason_of_failures_only(world):
    hog = "dd if=/dev/zero of=/dev/null bs=1G count=1"
    # Now and then an engine loses it, where it comes soon after the start (containerd's issue 8180): then once more.
    known = (ExitRule(action=Action.EXIT, on_reason="OutOfMemoryError:*"),)
    killed = await world.submit(command=("sh", "-c", f"exec {hog}"), attempts=5, rules=known)
    parent = await world.submit(command=("sh", "-c", f"{hog}; exit 0"))

    done = await world.wait_for(killed, Status.FAILED, status_reason=status_reasons.EXITED)
    assert {attempt.exit_code for attempt in done.attempts} == {137}
    assert done.attempts[-1].reason == status_reasons.OUT_OF_MEMORY
    done = await world.wait_for(parent, Status.SUCCEEDED)
    assert [(attempt.exit_code, attempt.reason) for attempt in done.attempts] == [(0, None)]


@pytest.mark.fault("EN32")
async def test_a_fork_bomb_ends_at_the_limit_of_its_container(docker_engine):
    policy = ServerPolicy(privileged=Privileged.ALLOW, volumes=(), pids=PIDS)
    forks = ("sh", "-c", "count=1; while sleep 1000 & do count=$((count + 1)); echo $count; done")
    async with docker_runtime(docker_engine, policy=policy) as runtime:
        storm = await started(runtime, command=forks)
        well = await ended(runtime, Script(seconds=0))
        await over(runtime, storm)

        assert well.exit_code == 0
        assert PIDS / 2 < max(int(line) for line in await output(runtime, storm) if line.isdigit()) <= PIDS


@pytest.mark.fault("EN32")
async def test_a_container_that_uses_too_much_memory_affects_no_other(world):
    # Docker loses about one report of a lack of memory of 50 (decision 0055): then once more.
    known = (ExitRule(action=Action.EXIT, on_reason="OutOfMemoryError:*"),)
    hog = await world.submit(command=("sh", "-c", "x=y; while :; do x=$x$x; done"), attempts=5, rules=known)
    well = await world.submit(Script(seconds=2))

    done = await world.wait_for(hog, Status.FAILED, status_reason=status_reasons.EXITED)

    assert done.attempts[-1].reason == status_reasons.OUT_OF_MEMORY
    await world.wait_for(well, Status.SUCCEEDED)


@pytest.mark.fault("EN09")
async def test_an_interrupted_event_stream_is_reopened_and_no_end_is_missed(tmp_path, docker_engine):
    with proxy(tmp_path) as middle:
        async with worlds.docker(tmp_path / "data", base_url=middle.url, survey_interval=SELDOM) as world:
            job = await world.start(Script(seconds=2, output=("ready",)))

            middle.cut()

            await world.wait_for(job, Status.SUCCEEDED)
