"""Stuck containers, as after a hanging shim: the engine answers all other calls (SP24)."""

import asyncio
import json
import threading
from contextlib import closing, suppress
from functools import partial

import pytest

from batchq.compute.docker.create_request import container_labels, container_name
from batchq.compute.docker.operation_pools import INITIAL_PAUSE, Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.errors import ContainerGone, EngineUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support import processes
from tests.support.containers import docker_runtime, new_tag, over, started, until_answered
from tests.support.docker_api import docker_api
from tests.support.fake_engine import engine, responds
from tests.support.scripts import Script

INSTANCE, MANY = "i", 30
IMPATIENT = Limits(stop=4, kill=4, inspect=4, silent=1, receive_timeout=60, container_timeout=0.2)
CALLS_AGAIN = 10
CALLS = ["signal_stop", "kill", "inspect"]


class Engine:
    """Each container runs. It is silent about those that are stuck, until it is let go."""

    def __init__(self):
        self.silent = [new_tag() for _ in range(MANY)]
        self.well = new_tag()
        self.states = {}
        self._go = threading.Event()

    def answer(self, handler):
        if any(container_name(INSTANCE, tag) in handler.path for tag in self.silent):
            self._go.wait(10)
            handler.close_connection = True
            return
        responds(200, json.dumps(self._body(handler.path)).encode())(handler)

    def let_go(self):
        self._go.set()

    def recover(self):
        self.let_go()
        self.well, self.silent = self.silent[0], []

    def _body(self, path):
        if "/containers/json" in path:
            return [self._row("1", self.well, "running"), *(self._row(*it) for it in self.states.items())]
        if path.endswith("/json"):
            return self._inspected()
        return {}

    def _row(self, container_id, tag, state="dreaming"):
        return {"Id": container_id, "State": state, "Labels": container_labels(INSTANCE, tag)}

    def _inspected(self):
        state = {"Status": "running", "StartedAt": "2026-11-21T11:28:21Z"}
        return {
            "Id": container_name(INSTANCE, self.well),
            "State": state,
            "Config": {"Labels": container_labels(INSTANCE, self.well)},
        }


@pytest.fixture
async def world(tmp_path):
    its = Engine()
    with engine(tmp_path, its.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, limits=IMPATIENT)
        yield its, runtime
        its.let_go()
        await runtime.close()


async def ask_of_the_stuck(runtime, its, call):
    return [asyncio.create_task(getattr(runtime, call)(tag)) for tag in its.silent]


async def gave_up(tasks):
    return all(isinstance(it, EngineUnknown) for it in await asyncio.gather(*tasks, return_exceptions=True))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.fault("SP24")
async def test_a_call_about_a_stuck_container_releases_its_thread_soon(world, call):
    its, runtime = world

    async with asyncio.timeout(30):
        assert await gave_up(await ask_of_the_stuck(runtime, its, call))


@pytest.mark.parametrize("call", ["inspect", *(pytest.param(it, marks=pytest.mark.exhaustive) for it in CALLS[:2])])
@pytest.mark.fault("SP24")
async def test_many_stuck_containers_do_not_delay_others(world, call):
    its, runtime = world
    await gave_up(await ask_of_the_stuck(runtime, its, call))
    again = await ask_of_the_stuck(runtime, its, call)
    await asyncio.wait(again, timeout=INITIAL_PAUSE + 0.1)

    await getattr(runtime, call)(its.well)

    assert not all(it.done() for it in again)
    its.let_go()
    await gave_up(again)


async def test_a_container_that_recovered_is_handled_normally(world):
    its, runtime = world
    await gave_up(await ask_of_the_stuck(runtime, its, "inspect"))
    its.recover()

    await runtime.inspect(its.well)

    async with asyncio.timeout(CALLS_AGAIN * INITIAL_PAUSE):
        assert all([await runtime.inspect(its.well) for _ in range(CALLS_AGAIN)])


async def test_an_unknown_state_does_not_fail_a_survey(world):
    its, runtime = world
    its.states = {container_name(INSTANCE, tag): tag for tag in its.silent[:1]}
    its.let_go()  # each call about it breaks off

    seen = await runtime.survey()

    assert seen == tuple(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in (its.well, its.silent[0]))


async def end(runtime, tag):
    with suppress(ContainerGone):  # an attempt before was carried out
        await runtime.kill(tag)


def shim(base_url, instance, tag):
    """The process that holds a container for the engine."""
    with closing(docker_api(base_url)) as client:
        (pid,) = processes.shims(client.inspect_container(container_name(instance, tag))["Id"])
    return pid


@pytest.mark.docker
@pytest.mark.fault("SP24")
async def test_a_really_stuck_container_is_killed_when_it_continues(docker_engine):
    async with docker_runtime(docker_engine, limits=Limits(container_timeout=1)) as runtime:
        silent, well = [await started(runtime, Script(seconds=None)) for _ in range(2)]
        with processes.frozen(shim(docker_engine, runtime._instance, silent)):
            with pytest.raises(EngineUnknown):
                await runtime.kill(silent)
            seen = {found.tag: found.state for found in await runtime.survey()}
            await until_answered(partial(end, runtime, well))
            assert (await until_answered(partial(over, runtime, well))).exit_code == 137

        assert seen[silent] is ContainerState.RUNNING
        assert (await until_answered(partial(over, runtime, silent))).exit_code == 137
