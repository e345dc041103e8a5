"""An engine that is absent, disappears, or does not answer. A proxy simulates it before the real one."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from batchq.compute.docker.operation_pools import Limits
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState
from tests.support.containers import (
    PATIENCE,
    RUNTIME_CALLS,
    death_of,
    docker_runtime,
    ended,
    launch,
    new_tag,
    output,
    over,
    started,
    until,
    until_answered,
)
from tests.support.proxy import proxy
from tests.support.scripts import Script

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, output=("ready",))
QUICK = Script(seconds=0, output=("one",))
CALLS = RUNTIME_CALLS | {"deaths": lambda runtime: runtime.deaths().__aenter__()}
SOON = 9.0  # seconds: less than any call is patient, and enough for a busy machine
EACH_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def engine(docker_engine, tmp_path):
    with proxy(tmp_path) as spec:
        yield spec


@pytest.fixture
async def direct(docker_engine):
    """A second runtime of the same instance, that speaks to the engine itself and sweeps up."""
    async with docker_runtime(docker_engine) as spec:
        yield spec


@pytest.fixture
async def runtime(engine, direct):
    async with docker_runtime(engine.url, instance=direct._instance, remove_after=False) as spec:
        await spec.survey()
        yield spec


def impatient(engine, direct, seconds):
    limits = Limits(receive_timeout=seconds, pull_receive_timeout=seconds, events_timeout=seconds)
    return docker_runtime(engine.url, instance=direct._instance, limits=limits, remove_after=False)


async def is_there(runtime, tag):
    return tag in [found.tag for found in await runtime.survey()]


def open_sockets():
    return sum(1 for path in Path("/proc/self/fd").iterdir() if path.is_socket())


@EACH_CALL
async def test_without_an_engine_the_outcome_is_unknown_at_once(runtime, engine, call):
    engine.close()

    with pytest.raises(RuntimeUnknown):
        async with asyncio.timeout(SOON):
            await call(runtime)


@EACH_CALL
@pytest.mark.fault("EN24")
async def test_an_unresponsive_engine_times_out(engine, direct, call):
    async with impatient(engine, direct, 0.3) as runtime:
        engine.silent = True

        with pytest.raises(RuntimeUnknown):
            async with asyncio.timeout(SOON):
                await call(runtime)


async def test_a_runtime_created_without_an_engine_works_once_there_is_one(engine, direct):
    engine.close()
    async with docker_runtime(engine.url, instance=direct._instance, remove_after=False) as runtime:
        with pytest.raises(RuntimeUnknown):
            await runtime.survey()

        engine.listen()

        assert (await ended(runtime, QUICK)).exit_code == 0


async def test_an_unanswered_create_that_took_effect_is_adopted(engine, direct):
    container = launch(QUICK)
    async with impatient(engine, direct, 2.0) as runtime:
        await until_answered(runtime.survey)
        engine.silent = True
        with pytest.raises(RuntimeUnknown):
            await runtime.create(container)
        await until(lambda: is_there(direct, container.tag))
        engine.recover()

        assert (await until_answered(partial(runtime.create, container))).state is ContainerState.CREATED

    await direct.start(container.tag)
    await over(direct, container.tag)
    assert await output(direct, container.tag) == ["one"]


async def test_an_unanswered_start_that_took_effect_is_not_repeated(engine, direct):
    container = launch(QUICK)
    async with impatient(engine, direct, 2.0) as runtime:
        await until_answered(partial(runtime.create, container))
        engine.silent = True
        with pytest.raises(RuntimeUnknown):
            await runtime.start(container.tag)
        before = await over(direct, container.tag)
        engine.recover()

        await until_answered(partial(runtime.start, container.tag))

    assert await direct.inspect(container.tag) == before
    assert await output(direct, container.tag) == ["one"]


@pytest.mark.fault("EN09")
async def test_an_interrupted_event_stream_ends_the_subscription(runtime, engine):
    async with runtime.deaths() as deaths:
        tag = await started(runtime, LONG)
        await runtime.kill(tag)
        await death_of(deaths, tag)

        engine.cut()

        async with asyncio.timeout(PATIENCE):
            assert [tag async for tag in deaths] == []


@pytest.mark.fault("EN09")
async def test_after_an_interruption_a_new_subscription_works(runtime, engine):
    async with runtime.deaths() as deaths:
        engine.cut()
        assert [tag async for tag in deaths] == []

    async with runtime.deaths() as deaths:
        tag = await started(runtime, QUICK)
        await death_of(deaths, tag)


async def test_an_interrupted_log_is_not_complete(runtime, engine):
    found = await ended(runtime, command=("seq", "1", "200000"))
    reading = runtime.logs(found.tag, after=0)
    await anext(reading)

    engine.cut()

    with pytest.raises(RuntimeUnknown):
        assert [line async for line in reading] == []


async def test_a_closed_runtime_leaves_no_thread_and_no_socket(docker_engine):
    before, others = open_sockets(), threading.enumerate()  # calls of other tests may still hang

    def threads():
        return [item for item in threading.enumerate() if item.name.startswith("docker") and item not in others]

    async with docker_runtime(docker_engine) as runtime, runtime.deaths():
        await ended(runtime, QUICK)

    async with asyncio.timeout(PATIENCE):
        while threads():  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0.01)
    assert open_sockets() <= before  # those of earlier tests may be collected meanwhile


async def test_many_containers_use_few_connections(docker_engine):
    async with docker_runtime(docker_engine) as runtime:
        before = open_sockets()

        await asyncio.gather(*(runtime.inspect(new_tag()) for _ in range(60)))

        assert open_sockets() - before <= Limits().inspect


async def test_closing_does_not_wait_for_hanging_calls(runtime, engine):
    engine.silent = True
    hanging = asyncio.create_task(runtime.survey())
    await asyncio.sleep(0.1)

    async with asyncio.timeout(SOON):
        await runtime.close()

    engine.cut()
    with pytest.raises(RuntimeUnknown):
        await hanging
