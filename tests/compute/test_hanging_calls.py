"""Calls that hang: stuck containers, as after a hanging shim (SP24), and hanging starts and pulls of one account."""

import asyncio
import json
import threading
from contextlib import closing, suppress
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from batchq.compute.docker import operation_pools, thread_pool
from batchq.compute.docker.create_request import container_labels, container_name
from batchq.compute.docker.operation_pools import INITIAL_PAUSE, Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.domain.catalog import Network
from batchq.errors import ContainerGone, ContainerRuntimeError, ImageUnavailable, RuntimeUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support import processes
from tests.support.containers import docker_runtime, launch, new_tag, over, started, until_answered
from tests.support.docker_api import docker_api
from tests.support.fake_engine import engine as serve
from tests.support.fake_engine import responds
from tests.support.scripts import Script

INSTANCE, MANY = "i", 12  # three times the threads of a kind of call
IMPATIENT = Limits(stop=4, kill=4, inspect=4, silent=1, receive_timeout=60, container_timeout=0.2)
CALLS_AGAIN = 10
CALLS = ["signal_stop", "kill", "inspect"]


class StuckEngine:
    """Each container runs. The engine does not reply to calls about stuck ones until `let_go`."""

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
            return [self._row("1", self.well, "running"), *(self._row(*state) for state in self.states.items())]
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
async def stuck(tmp_path):
    engine = StuckEngine()
    with serve(tmp_path, engine.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, limits=IMPATIENT)
        yield engine, runtime
        engine.let_go()
        await runtime.close()


async def call_about_stuck_containers(runtime, engine, call):
    return [asyncio.create_task(getattr(runtime, call)(tag)) for tag in engine.silent]


async def have_failed(tasks):
    return all(isinstance(outcome, RuntimeUnknown) for outcome in await asyncio.gather(*tasks, return_exceptions=True))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.fault("SP24")
async def test_a_call_about_a_stuck_container_releases_its_thread_soon(stuck, call):
    engine, runtime = stuck

    async with asyncio.timeout(30):
        assert await have_failed(await call_about_stuck_containers(runtime, engine, call))


@pytest.mark.parametrize("call", ["inspect", *(pytest.param(call, marks=pytest.mark.exhaustive) for call in CALLS[:2])])
@pytest.mark.fault("SP24")
async def test_many_stuck_containers_do_not_delay_others(stuck, call, monkeypatch):
    monkeypatch.setattr(operation_pools, "INITIAL_PAUSE", 0.2)
    engine, runtime = stuck
    await have_failed(await call_about_stuck_containers(runtime, engine, call))
    again = await call_about_stuck_containers(runtime, engine, call)
    await asyncio.wait(again, timeout=0.3)

    await getattr(runtime, call)(engine.well)

    assert not all(call.done() for call in again)
    engine.let_go()
    await have_failed(again)


async def test_a_container_that_recovered_is_handled_normally(stuck):
    engine, runtime = stuck
    await have_failed(await call_about_stuck_containers(runtime, engine, "inspect"))
    engine.recover()

    await runtime.inspect(engine.well)

    async with asyncio.timeout(CALLS_AGAIN * INITIAL_PAUSE):
        assert all([await runtime.inspect(engine.well) for _ in range(CALLS_AGAIN)])


async def test_an_unknown_state_does_not_fail_a_survey(stuck):
    engine, runtime = stuck
    engine.states = {container_name(INSTANCE, tag): tag for tag in engine.silent[:1]}
    engine.let_go()  # each call about it breaks off

    seen = await runtime.survey()

    assert seen == tuple(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in (engine.well, engine.silent[0]))


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
            with pytest.raises(RuntimeUnknown):
                await runtime.kill(silent)
            seen = {found.tag: found.state for found in await runtime.survey()}
            await until_answered(partial(end, runtime, well))
            assert (await until_answered(partial(over, runtime, well))).exit_code == 137

        assert seen[silent] is ContainerState.RUNNING
        assert (await until_answered(partial(over, runtime, silent))).exit_code == 137


FEW = Limits(create=2, start=2, pull=2)


class SlowEngine:
    """Starts and pulls of what `slow` names hang until the client disconnects, or `go` is set."""

    def __init__(self):
        self.slow = set()
        self.hanging, self.left = threading.Semaphore(0), threading.Semaphore(0)
        self.go = threading.Event()

    def answer(self, handler):
        url = urlsplit(handler.path)
        query = parse_qs(url.query)
        if url.path.endswith("/start") and url.path.split("/")[-2] in self.slow:
            self._hang()
            responds(500, b"{}")(handler)
        elif url.path.endswith("/images/create"):
            self._pull(handler, slow=query["fromImage"][0] in self.slow)
        elif url.path.endswith("/containers/create"):
            responds(201, json.dumps({"Id": query["name"][0]}).encode())(handler)
        else:
            responds(200, b"OK")(handler)

    def _hang(self):
        self.hanging.release()
        self.go.wait(60)

    def _pull(self, handler, *, slow):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"2\r\n{}\r\n")
        if slow:
            self.hanging.release()
            handler.connection.recv(1)  # until the client disconnects
            self.left.release()
        else:
            handler.wfile.write(b"0\r\n\r\n")


@pytest.fixture
async def slow(tmp_path):
    engine = SlowEngine()
    with serve(tmp_path, engine.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, network=Network.BRIDGE, limits=FEW)
        yield engine, runtime
        engine.go.set()
        await runtime.close()


async def count(semaphore, number):
    for _ in range(number):
        assert await asyncio.to_thread(semaphore.acquire, timeout=60)


async def abandoned(calls):
    for call in calls:
        call.cancel()
        with suppress(asyncio.CancelledError, ContainerRuntimeError):
            await call


@pytest.mark.fault("SE22")
async def test_starts_that_hang_do_not_delay_those_of_another_account(slow):
    engine, runtime = slow
    attack = [replace(launch(), account="eve") for _ in range(8)]
    engine.slow = {container_name(INSTANCE, container.tag) for container in attack}
    for value in attack:
        await runtime.create(value)
    starts = [asyncio.ensure_future(runtime.start(container.tag)) for container in attack]
    await count(engine.hanging, FEW.start)

    for _ in range(4):
        other = replace(launch(), account="ann")
        async with asyncio.timeout(FEW.receive_timeout / 2):
            await runtime.create(other)
            await runtime.start(other.tag)

    assert not engine.hanging.acquire(blocking=False), "no more threads than all accounts have together"
    await abandoned(starts)


@pytest.mark.fault("SE23")
async def test_pulls_that_hang_do_not_delay_those_of_another_account_and_end_when_they_are_abandoned(slow):
    engine, runtime = slow
    engine.slow = {f"slow.example/{number}" for number in range(6)}
    pulls = [asyncio.ensure_future(runtime.pull(image, None, account="eve")) for image in engine.slow]
    await count(engine.hanging, FEW.pull)

    async with asyncio.timeout(FEW.pull_receive_timeout / 2):
        await runtime.pull("fast.example/image", None, account="ann")

    await abandoned(pulls)
    await count(engine.left, FEW.pull)


@pytest.mark.fault("SE23")
async def test_a_pull_that_waits_behind_hanging_ones_delays_no_other_account_that_needs_the_same_image(slow):
    engine, runtime = slow
    engine.slow = {"slow.example/0", "slow.example/1"}
    pulls = [
        asyncio.ensure_future(runtime.pull(text, None, account="eve")) for text in (*engine.slow, "fast.example/image")
    ]
    await count(engine.hanging, FEW.pull)

    async with asyncio.timeout(FEW.pull_receive_timeout / 20):
        await runtime.pull("fast.example/image", None, account="ann")

    assert not pulls[-1].done()
    await abandoned(pulls)


@pytest.mark.fault("SE23")
async def test_a_pull_has_a_deadline_however_steady_its_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_pool, "CLOSE_TIMEOUT", 0.05)
    engine = SlowEngine()
    engine.slow = {"slow.example/0"}
    with serve(tmp_path, engine.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, limits=Limits(pull_timeout=0))

        with pytest.raises(ImageUnavailable, match="CannotPullContainerError: not complete after 0 seconds"):
            await runtime.pull("slow.example/0", None)

        await runtime.close()
