import asyncio
import socket
import threading
import time
from datetime import timedelta

import pytest

from tests.support import clock as clocks
from tests.support.builders import NOON
from tests.support.clock import StandingLoop, Stuck, VirtualClock, VirtualLoop


@pytest.fixture
def long_moment(monkeypatch):
    """Enough for a thread on a loaded machine."""
    monkeypatch.setattr(clocks, "OUTSIDE_TIMEOUT", 60.0)


async def test_a_long_sleep_is_over_at_once():
    clock = VirtualClock()

    await clock.sleep(100_000)  # longer than any test may take

    assert clock.now() == NOON + timedelta(seconds=100_000)


async def test_the_shortest_sleep_ends_first():
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(sleeper(3), sleeper(1), sleeper(2))

    assert woken == [1, 2, 3]


async def test_time_stands_still_while_a_call_is_in_a_thread():
    loop = asyncio.get_running_loop()

    async with asyncio.timeout(1):
        await asyncio.to_thread(time.sleep, 0.1)

    assert loop.time() == 0


@pytest.mark.usefixtures("long_moment")
async def test_the_loop_waits_a_moment_for_an_unknown_thread():
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def work():
        time.sleep(0.001)
        loop.call_soon_threadsafe(answer.set_result, "done")

    threading.Thread(target=work).start()
    async with asyncio.timeout(1):
        assert await answer == "done"

    assert loop.time() == 0


async def test_the_loop_waits_for_a_thread_without_limit_if_no_timer_is_set():
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def work():
        time.sleep(0.1)
        loop.call_soon_threadsafe(answer.set_result, "done")

    threading.Thread(target=work).start()

    assert await answer == "done"


async def test_a_timer_expires_although_a_thread_never_answers():
    rest = threading.Event()
    thread = threading.Thread(target=rest.wait)
    thread.start()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await asyncio.Event().wait()

    assert asyncio.get_running_loop().time() == 60
    rest.set()
    thread.join()


@pytest.mark.usefixtures("long_moment")
async def test_a_socket_wakes_its_task():
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    timer = threading.Timer(0.001, there.sendall, [b"hello\n"])

    timer.start()
    async with asyncio.timeout(1):
        line = await reader.readline()

    assert (line, asyncio.get_running_loop().time()) == (b"hello\n", 0)
    writer.close()
    there.close()
    timer.join()


async def test_time_can_be_made_real():
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1000)

    loop.live_really()
    began = time.monotonic()
    await asyncio.sleep(0.05)

    assert time.monotonic() - began >= 0.05
    assert loop.time() >= 1000.05


def test_a_wait_that_nothing_can_end_is_reported():
    with pytest.raises(Stuck), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(asyncio.Event().wait())


def test_standing_time_passes_only_by_let_pass():
    async def measured():
        loop = asyncio.get_running_loop()
        sleeper = asyncio.create_task(asyncio.sleep(60))
        await asyncio.to_thread(time.sleep, 0.01)
        before = loop.time(), sleeper.done()
        loop.advance(60)
        await sleeper
        return before, loop.time()

    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        assert runner.run(measured()) == ((0, False), 60)
