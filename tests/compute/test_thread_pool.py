"""Threads for calls that block, and work that is shared."""

import asyncio
import threading

import pytest

from batchq.compute.docker import thread_pool
from batchq.compute.docker.thread_pool import PoolSizes, ThreadPool, WorkQueue
from batchq.compute.shared import SingleFlight
from batchq.errors import RuntimeUnknown

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
async def pool(tools):
    def prepare_tool(before):
        if before is None:
            tools.append(Tool())
        return before or tools[-1]

    spec = ThreadPool("test", sizes=TWO, prepare_tool=prepare_tool)
    yield spec
    await spec.close()


async def test_run_returns_the_result_or_raises_the_error_of_the_work(pool):
    assert await pool.run(type) is Tool
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda _: 1 // 0)


async def test_a_failed_tool_fails_its_task_and_is_created_again():
    wanted = iter([False, True])

    def prepare_tool(_):
        if not next(wanted):
            raise ConnectionRefusedError
        return Tool()

    pool = ThreadPool("test", sizes=ONE, prepare_tool=prepare_tool)
    with pytest.raises(ConnectionRefusedError):
        await pool.run(lambda _: None)

    assert await pool.run(lambda _: "there") == "there"
    await pool.close()


async def test_threads_of_a_pool_work_at_the_same_time_and_each_has_a_tool_of_its_own(pool, tools):
    both = threading.Barrier(2, timeout=60)

    owners = await asyncio.gather(
        *(pool.run(lambda tool: (both.wait(), tool.thread is threading.current_thread())) for _ in range(6))
    )

    assert all(is_own for _, is_own in owners)
    assert len(tools) == 2


async def test_close_closes_the_tools_and_ends_the_threads(pool, tools):
    await pool.run(lambda _: None)

    await pool.close()

    assert all(tool.closed.is_set() for tool in tools)


async def test_a_closed_pool_can_be_used_again(pool):
    await pool.run(lambda _: None)
    await pool.close()

    assert await pool.run(lambda _: 1) == 1


async def test_close_does_not_wait_long_for_a_call_that_hangs(pool, monkeypatch):
    monkeypatch.setattr(thread_pool, "CLOSE_TIMEOUT", 0.05)
    go = threading.Event()
    hanging = asyncio.create_task(pool.run(lambda _: go.wait(10)))
    await pool.run(lambda _: None)

    async with asyncio.timeout(3):
        await pool.close()

    go.set()
    assert await hanging is True


async def test_close_drops_tasks_that_have_not_begun(monkeypatch):
    monkeypatch.setattr(thread_pool, "CLOSE_TIMEOUT", 0.05)
    pool = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    begun, go = threading.Event(), threading.Event()
    first = asyncio.create_task(pool.run(lambda _: (begun.set(), go.wait(10))))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(pool.run(lambda _: None))
    await asyncio.sleep(0)

    await pool.close()
    go.set()

    await first
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_cancelling_a_caller_does_not_stop_work_that_has_begun(pool):
    begun, go, done = threading.Event(), threading.Event(), threading.Event()
    waiting = asyncio.create_task(pool.run(lambda _: (begun.set(), go.wait(10), done.set())))
    await asyncio.to_thread(begun.wait)

    waiting.cancel()
    go.set()

    assert await asyncio.to_thread(done.wait, 5)


def test_a_result_after_the_end_of_the_loop_is_dropped():
    pool = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    begun, go = threading.Event(), threading.Event()

    async def leave():
        waiting = asyncio.create_task(pool.run(lambda _: (begun.set(), go.wait(10))))
        await asyncio.to_thread(begun.wait)
        del waiting

    asyncio.run(leave())
    go.set()

    assert asyncio.run(pool.run(type)) is Tool


@pytest.fixture
async def shared():
    flight = SingleFlight("test")
    yield flight
    await flight.close()


async def test_concurrent_calls_for_a_key_share_one_execution_and_a_later_one_does_not(shared):
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

    await shared.run("image", work)
    assert times == [1, 1]


async def test_all_callers_get_the_error(shared):
    async def work():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    answers = await asyncio.gather(*(shared.run("image", work) for _ in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 3


async def test_cancelling_one_caller_does_not_cancel_the_task_of_the_others(shared):
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


async def test_existing_threads_do_the_work_if_no_further_thread_can_be_started(pool, monkeypatch):
    await pool.run(type)
    monkeypatch.setattr(threading.Thread, "start", no_thread)

    assert await pool.run(type) is Tool


async def test_without_any_thread_the_outcome_is_unknown_until_one_can_be_started(pool, monkeypatch):
    with monkeypatch.context() as poor:
        poor.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeUnknown, match="can't start new thread"):
            await pool.run(type)

    assert await pool.run(type) is Tool


class Parked:
    """A queue without a waiting thread: a thread that reads it ends at once, and its items stay."""

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


def test_a_task_wakes_only_the_thread_that_became_idle_last():
    queue, first, last, job = WorkQueue(TWO), Parked(), Parked(), Work()
    queue.take(first)
    queue.take(last)

    assert not queue.put(job, threads=2), "no more threads are needed"

    assert (first.given, last.given) == ([], [job])


SHARED = PoolSizes(normal=2, per_account=1, max=3)


@pytest.fixture
def queue():
    return WorkQueue(SHARED)


def put(queue, *accounts):
    """Whether a thread was needed for each; there are as many as that."""
    threads = 0
    for account in accounts:
        threads += (needed := queue.put(Work(account), threads=threads))
        yield needed


def takes(queue, *seats):
    return [None if (job := queue.take(seat)) is None else job.account for seat in seats]


def test_a_single_account_may_use_all_normal_threads(queue):
    assert list(put(queue, "a", "a", "a", "a")) == [True, True, False, False]
    assert takes(queue, *(Parked() for _ in range(4))) == ["a", "a", None, None]


@pytest.mark.fault("SE22")
def test_an_account_gets_its_share_while_another_occupies_all_threads(queue):
    list(put(queue, "a", "a", "a"))
    takes(queue, Parked(), Parked())

    assert queue.put(Work("b"), threads=2), "a thread more for its share"
    assert not queue.put(Work("c"), threads=3), "the pool has its maximum of threads"
    assert takes(queue, third := Parked(), Parked()) == ["b", None]
    assert takes(queue, third) == ["c"]


def test_an_account_below_its_share_is_served_first(queue):
    first, second = Parked(), Parked()
    list(put(queue, "a", "a", "a", "b"))

    assert takes(queue, first, second) == ["a", "b"]
    assert takes(queue, second) == ["a"], "no other task waits"


async def test_a_task_cancelled_before_its_start_is_not_executed():
    pool = ThreadPool("test", sizes=ONE, prepare_tool=lambda current: current or Tool())
    hang, done = threading.Event(), []
    busy = asyncio.ensure_future(pool.run(lambda _: hang.wait()))
    waits = asyncio.ensure_future(pool.run(lambda _: done.append("cancelled")))
    await asyncio.sleep(0)

    waits.cancel()
    await asyncio.wait([waits])
    hang.set()
    await busy
    await pool.run(lambda _: done.append("next"))

    assert done == ["next"]
    await pool.close()
