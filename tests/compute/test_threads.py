"""Threads for calls that block, and work that is shared."""

import asyncio
import threading

import pytest

from batchq.compute.docker.thread_pool import PoolSizes, ThreadPool, WorkQueue
from batchq.compute.single_flight import SingleFlight
from batchq.errors import EngineUnknown

ONE, TWO = PoolSizes(normal=1, per_account=1, max=1), PoolSizes(normal=2, per_account=2, max=2)


class Tool:
    def __init__(self):
        self.closed = threading.Event()
        self.thread = threading.current_thread()

    def close(self):
        self.closed.set()


@pytest.fixture
def tools():
    return []


@pytest.fixture
async def crew(tools):
    def prepare_tool(before):
        if before is None:
            tools.append(Tool())
        return before or tools[-1]

    it = ThreadPool("test", sizes=TWO, prepare_tool=prepare_tool)
    yield it
    await it.close()


async def test_an_answer_is_answered(crew):
    assert await crew.run(type) is Tool


async def test_an_error_is_raised_where_it_is_waited_for(crew):
    with pytest.raises(ZeroDivisionError):
        await crew.run(lambda _: 1 // 0)


async def test_a_tool_that_cannot_be_had_is_an_error_of_the_job_and_the_next_one_tries_again():
    wanted = iter([False, True])

    def prepare_tool(_):
        if not next(wanted):
            raise ConnectionRefusedError
        return Tool()

    crew = ThreadPool("test", sizes=ONE, prepare_tool=prepare_tool)
    with pytest.raises(ConnectionRefusedError):
        await crew.run(lambda _: None)

    assert await crew.run(lambda _: "there") == "there"
    await crew.close()


async def test_as_many_work_at_once_as_there_are_threads_and_no_more(crew):
    both = threading.Barrier(2, timeout=60)

    threads = await asyncio.gather(*(crew.run(lambda _: (both.wait(), threading.current_thread())) for _ in range(6)))

    assert len({thread for _, thread in threads}) == 2


async def test_each_thread_has_a_tool_of_its_own(crew, tools):
    both = threading.Barrier(2, timeout=60)

    owners = await asyncio.gather(
        *(crew.run(lambda tool: (both.wait(), tool.thread is threading.current_thread())) for _ in range(6))
    )

    assert all(is_own for _, is_own in owners)
    assert len(tools) == 2


async def test_closed_its_tools_are_closed_and_its_threads_end(crew, tools):
    await crew.run(lambda _: None)

    await crew.close()

    assert all(tool.closed.is_set() for tool in tools)


async def test_closed_it_can_be_used_again(crew):
    await crew.run(lambda _: None)
    await crew.close()

    assert await crew.run(lambda _: 1) == 1


async def test_to_close_does_not_wait_long_for_a_call_that_hangs(crew):
    go = threading.Event()
    hanging = asyncio.create_task(crew.run(lambda _: go.wait(10)))
    await crew.run(lambda _: None)

    async with asyncio.timeout(3):
        await crew.close()

    go.set()
    assert await hanging is True


async def test_work_not_begun_at_the_close_is_dropped():
    crew = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    begun, go = threading.Event(), threading.Event()
    first = asyncio.create_task(crew.run(lambda _: (begun.set(), go.wait(10))))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(crew.run(lambda _: None))
    await asyncio.sleep(0)

    await crew.close()
    go.set()

    await first
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_who_leaves_off_waiting_stops_no_work(crew):
    begun, go, done = threading.Event(), threading.Event(), threading.Event()
    waiting = asyncio.create_task(crew.run(lambda _: (begun.set(), go.wait(10), done.set())))
    await asyncio.to_thread(begun.wait)

    waiting.cancel()
    go.set()

    assert await asyncio.to_thread(done.wait, 5)


def test_an_answer_that_comes_when_the_loop_is_gone_harms_no_thread():
    crew = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    begun, go = threading.Event(), threading.Event()

    async def leave():
        waiting = asyncio.create_task(crew.run(lambda _: (begun.set(), go.wait(10))))
        await asyncio.to_thread(begun.wait)
        del waiting

    asyncio.run(leave())
    go.set()

    assert asyncio.run(crew.run(type)) is Tool


@pytest.fixture
async def shared():
    it = SingleFlight("test")
    yield it
    await it.close()


async def test_what_many_ask_for_at_once_is_done_once(shared):
    times = []
    go = asyncio.Event()

    async def work():
        times.append(1)
        await go.wait()

    waiting = [asyncio.create_task(shared.run("image", work)) for _ in range(5)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*waiting)

    assert times == [1]


async def test_what_was_done_is_done_again_for_who_asks_later(shared):
    times = []

    async def work():
        times.append(1)

    await shared.run("image", work)
    await shared.run("image", work)

    assert times == [1, 1]


async def test_all_who_wait_are_told_of_the_error(shared):
    async def work():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    answers = await asyncio.gather(*(shared.run("image", work) for _ in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 3


async def test_one_who_leaves_off_waiting_does_not_cancel_it_for_the_others(shared):
    go = asyncio.Event()
    impatient = asyncio.create_task(shared.run("image", go.wait))
    patient = asyncio.create_task(shared.run("image", go.wait))
    await asyncio.sleep(0)

    impatient.cancel()
    await asyncio.sleep(0)
    go.set()

    await patient


def no_thread(_):
    raise RuntimeError("can't start new thread")


async def test_where_the_machine_has_no_thread_left_those_that_are_there_do_the_work(crew, monkeypatch):
    await crew.run(type)
    monkeypatch.setattr(threading.Thread, "start", no_thread)

    assert await crew.run(type) is Tool


async def test_without_any_thread_nothing_is_known_and_when_there_is_one_it_works(crew, monkeypatch):
    with monkeypatch.context() as poor:
        poor.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(EngineUnknown, match="can't start new thread"):
            await crew.run(type)

    assert await crew.run(type) is Tool


class Parked:
    """Where a thread would wait; it goes away at once, and what it is given stays."""

    account = None

    def __init__(self):
        self.given = []

    def put(self, job):
        self.given.append(job)

    def get(self):
        return None


class Work:
    def __init__(self, account=""):
        self.account = account


def test_a_job_wakes_the_thread_that_was_busy_last_and_no_other():
    desk, first, last, job = WorkQueue(TWO), Parked(), Parked(), Work()
    desk.take(first)
    desk.take(last)

    assert not desk.put(job, threads=2), "no more threads are needed"

    assert (first.given, last.given) == ([], [job])


SHARED = PoolSizes(normal=2, per_account=1, max=3)


@pytest.fixture
def desk():
    return WorkQueue(SHARED)


def put(desk, *accounts):
    """Whether a thread was needed for each; there are as many as that."""
    threads = 0
    for account in accounts:
        threads += (needed := desk.put(Work(account), threads=threads))
        yield needed


def takes(desk, *seats):
    return [None if (job := desk.take(it)) is None else job.account for it in seats]


def test_an_account_alone_has_all_threads_and_no_more(desk):
    assert list(put(desk, "a", "a", "a", "a")) == [True, True, False, False]
    assert takes(desk, *(Parked() for _ in range(4))) == ["a", "a", None, None]


@pytest.mark.fault("SE22")
def test_an_account_has_its_share_while_another_holds_all_threads(desk):
    list(put(desk, "a", "a", "a"))
    takes(desk, Parked(), Parked())

    assert desk.put(Work("b"), threads=2), "a thread more for its share"
    assert not desk.put(Work("c"), threads=3), "of which there are no more than are said"
    assert takes(desk, third := Parked(), Parked()) == ["b", None]
    assert takes(desk, third) == ["c"]


def test_the_account_below_its_share_is_next(desk):
    first, second = Parked(), Parked()
    list(put(desk, "a", "a", "a", "b"))

    assert takes(desk, first, second) == ["a", "b"]
    assert takes(desk, second) == ["a"], "nobody else waits"


async def test_work_of_a_caller_that_was_cancelled_is_not_done():
    crew = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    hang, done = threading.Event(), []
    busy = asyncio.ensure_future(crew.run(lambda _: hang.wait()))
    waits = asyncio.ensure_future(crew.run(lambda _: done.append("cancelled")))
    await asyncio.sleep(0)

    waits.cancel()
    await asyncio.wait([waits])
    hang.set()
    await busy
    await crew.run(lambda _: done.append("next"))

    assert done == ["next"]
    await crew.close()
