"""Hanging starts and pulls of one account do not delay those of another."""

import asyncio
import json
import threading
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import container_name
from batchq.compute.docker.operation_pools import Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.domain.catalog import Network
from batchq.errors import EngineError, ImageUnavailable
from tests.support.containers import launch
from tests.support.fake_engine import engine, responds

INSTANCE = "i"
FEW = Limits(create=2, start=2, pull=2)


class Engine:
    """Its starts and pulls of what `slow` names hang until the client hangs up, or all is let go."""

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
            handler.connection.recv(1)  # until the client hangs up
            self.left.release()
        else:
            handler.wfile.write(b"0\r\n\r\n")


@pytest.fixture
async def world(tmp_path):
    its = Engine()
    with engine(tmp_path, its.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, network=Network.BRIDGE, limits=FEW)
        yield its, runtime
        its.go.set()
        await runtime.close()


async def count(semaphore, number):
    for _ in range(number):
        assert await asyncio.to_thread(semaphore.acquire, timeout=60)


async def abandoned(calls):
    for call in calls:
        call.cancel()
        with suppress(asyncio.CancelledError, EngineError):
            await call


@pytest.mark.fault("SE22")
async def test_starts_that_hang_do_not_delay_those_of_another_account(world):
    its, runtime = world
    attack = [replace(launch(), account="eve") for _ in range(8)]
    its.slow = {container_name(INSTANCE, it.tag) for it in attack}
    for it in attack:
        await runtime.create(it)
    starts = [asyncio.ensure_future(runtime.start(it.tag)) for it in attack]
    await count(its.hanging, FEW.start)

    for _ in range(4):
        other = replace(launch(), account="ann")
        async with asyncio.timeout(FEW.receive_timeout / 2):
            await runtime.create(other)
            await runtime.start(other.tag)

    assert not its.hanging.acquire(blocking=False), "no more threads than all accounts have together"
    await abandoned(starts)


@pytest.mark.fault("SE23")
async def test_pulls_that_hang_do_not_delay_those_of_another_account_and_end_when_they_are_abandoned(world):
    its, runtime = world
    its.slow = {f"slow.example/{number}" for number in range(6)}
    pulls = [asyncio.ensure_future(runtime.pull(it, None, account="eve")) for it in its.slow]
    await count(its.hanging, FEW.pull)

    async with asyncio.timeout(FEW.pull_receive_timeout / 2):
        await runtime.pull("fast.example/image", None, account="ann")

    await abandoned(pulls)
    await count(its.left, FEW.pull)


@pytest.mark.fault("SE23")
async def test_a_pull_that_waits_behind_hanging_ones_delays_no_other_account_that_needs_the_same_image(world):
    its, runtime = world
    its.slow = {"slow.example/0", "slow.example/1"}
    pulls = [asyncio.ensure_future(runtime.pull(it, None, account="eve")) for it in (*its.slow, "fast.example/image")]
    await count(its.hanging, FEW.pull)

    async with asyncio.timeout(FEW.pull_receive_timeout / 20):
        await runtime.pull("fast.example/image", None, account="ann")

    assert not pulls[-1].done()
    await abandoned(pulls)


@pytest.mark.fault("SE23")
async def test_a_pull_has_a_deadline_however_steady_its_progress(tmp_path):
    its = Engine()
    its.slow = {"slow.example/0"}
    with engine(tmp_path, its.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url, limits=Limits(pull_timeout=0))

        with pytest.raises(ImageUnavailable, match="CannotPullContainerError: not complete after 0 seconds"):
            await runtime.pull("slow.example/0", None)

        await runtime.close()
