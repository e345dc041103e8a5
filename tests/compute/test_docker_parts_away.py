"""Tasks and multi-node jobs on an engine without the pause image, and on one that crashes and returns."""

import asyncio

import pytest

from batchq.domain.catalog import Network
from batchq.errors import ContainerRuntimeError, RuntimeUnknown
from batchq.ports.runtime import ContainerState
from tests.support.containers import docker_runtime, launch, new_tag, over, part_of, until
from tests.support.scripts import Script
from tests.support.second_engine import second_engine

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, on_term=7, output=("ready",))
NAMES = ("a", "b", "c")


@pytest.fixture
def engine():
    with second_engine() as second:
        yield second


@pytest.fixture
async def runtime(engine):
    async with docker_runtime(engine.url) as spec:
        yield spec


def task(tag):
    return [
        part_of(tag, f"0/{name}", LONG, beside=tuple(other_name for other_name in NAMES if other_name != name))
        for name in NAMES
    ]


async def begin(runtime, container):
    await runtime.create(container)
    await runtime.start(container.tag)


async def answers(runtime):
    try:
        await runtime.survey()
    except ContainerRuntimeError:
        return False
    return True


async def test_the_pause_image_is_imported_on_an_engine_without_it(runtime):
    tasks = [launch for _ in range(3) for launch in task(new_tag())]

    await asyncio.gather(*(begin(runtime, other_task) for other_task in tasks))

    seen = await runtime.survey()
    assert {found.tag for found in seen} == {other_task.tag for other_task in tasks}
    assert {found.state for found in seen} == {ContainerState.RUNNING}


async def test_after_a_crash_of_the_engine_a_shared_network_is_created_again(engine):
    async with docker_runtime(engine.url, network=Network.SHARED) as runtime:
        ran, waits = launch(LONG), launch(Script(seconds=0))
        await begin(runtime, ran)
        await runtime.create(waits)

        engine.kill()
        engine.start()
        await until(lambda: answers(runtime))

        assert (await over(runtime, ran.tag)).stopped_at is not None
        with pytest.raises(RuntimeUnknown):
            await runtime.start(waits.tag)
        await begin(runtime, waits)
        assert (await over(runtime, waits.tag)).exit_code == 0


async def test_with_live_restore_a_shared_network_survives_the_engine():
    with second_engine(live_restore=True) as engine:
        async with docker_runtime(engine.url, network=Network.SHARED) as runtime:
            ran, waits = launch(LONG), launch(Script(seconds=0))
            await begin(runtime, ran)
            await runtime.create(waits)

            engine.kill()
            engine.start()
            await until(lambda: answers(runtime))

            await runtime.start(waits.tag)
            assert (await over(runtime, waits.tag)).exit_code == 0
            assert (await runtime.inspect(ran.tag)).state is ContainerState.RUNNING


async def test_after_a_crash_of_the_engine_running_containers_have_ended_and_created_ones_start(runtime, engine):
    ran, ran_too, waits = task(new_tag())
    await begin(runtime, ran)
    await begin(runtime, ran_too)
    await runtime.create(waits)

    engine.kill()
    engine.start()
    await until(lambda: answers(runtime))

    assert (await over(runtime, ran.tag)).stopped_at is not None
    await begin(runtime, waits)
    assert (await runtime.inspect(waits.tag)).address is not None
