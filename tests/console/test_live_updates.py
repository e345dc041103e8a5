"""Notices of changes and shared fragments on a virtual clock: how many, for whom, and when pages must wait."""

import asyncio
from datetime import timedelta
from http import HTTPStatus
from itertools import count

import pytest

from batchq.api.console.refresh import (
    INTERVAL,
    MAX_BUSY_INTERVAL,
    MAX_STREAMS,
    MAX_UNREAD,
    MAX_USER_STREAMS,
    SHARED_FOR,
    ChangeNotice,
    ChangeNotices,
    Fragment,
    Load,
    SharedFragments,
)
from batchq.api.http.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Owner
from batchq.domain.enums import Role, Status
from batchq.domain.ids import JobId
from batchq.errors import StoreFailed
from batchq.ports.history import FeedEntry, FeedPage, HistoryEntry
from tests.support.builders import NOON
from tests.support.clock import VirtualClock, VirtualLoop

ADMIN, ADA, BOB = Caller(user="root", role=Role.ADMIN), Caller(user="ada"), Caller(user="bob")


class Events:
    """The event service: each read returns the entries of jobs that have changed since the last one."""

    def __init__(self):
        self.last = 0
        self.closed = False
        self.reads = 0
        self._changed = asyncio.Event()
        self._entries = []

    def change(self, job_id, owner="ada"):
        self.last += 1
        entry = HistoryEntry(job_id=JobId(job_id), at=NOON, status=Status.RUNNING, reason=None, attempt=1)
        owned = Owner(user=owner)
        self._entries.append(FeedEntry(number=self.last, entry=entry, job_name="a", queue="q", owner=owned))
        self._changed.set()

    def close(self):
        self.closed = True
        self._changed.set()

    async def page(self, after, wanted, *, limit, wait, caller):
        self.reads += 1
        while after == self.last and not self.closed:
            self._changed.clear()
            await self._changed.wait()
        visible = [entry for entry in self._entries if entry.number > after and caller.reaches(entry.owner)]
        return FeedPage(entries=tuple(visible[:limit]), next=self.last, gap=False)


class Bench:
    def __init__(self, delay=timedelta()):
        self._sessions = count()
        self.events = Events()
        self.load = Load(lambda: delay)
        self.notices = ChangeNotices(events=self.events, clock=VirtualClock(), load=self.load)

    def open(self, caller=ADMIN, *, is_connected=lambda: True):
        """A stream of a session of its own."""
        return self.notices.stream(caller, session=str(next(self._sessions)), after=None, is_connected=is_connected)


def on_a_virtual_clock(test):
    def run():
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test())

    run.__name__ = test.__name__
    return run


async def read(stream, seconds):
    """The frames of so many seconds."""
    frames, loop = [], asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        async with asyncio.timeout_at(end):
            while True:
                frames.append(await stream.next())
    except TimeoutError:
        return frames


@on_a_virtual_clock
async def test_at_most_four_hints_are_sent_in_a_second():
    bench = Bench()

    async def change_often():
        for number in range(100):
            bench.events.change(str(number))
            await bench.notices._clock.sleep(0.01)

    with bench.open() as stream:
        changing = asyncio.create_task(change_often())
        frames = await read(stream, 1.2)
        await changing
    assert 1 / INTERVAL <= len(frames) <= 1 / INTERVAL + 2


@on_a_virtual_clock
async def test_callers_who_see_the_same_jobs_share_one_reader():
    bench = Bench()
    with bench.open() as one, bench.open() as two:
        bench.events.change("job")
        assert await read(one, 1) == await read(two, 1)
    assert bench.events.reads == 2, "one for the change, and one that waits for the next"


@on_a_virtual_clock
async def test_a_caller_gets_hints_of_own_jobs_only():
    bench = Bench()
    with bench.open(ADA) as ada, bench.open(BOB) as bob:
        bench.events.change("job", owner="ada")
        assert [b'"jobs":["job"]' in event for event in await read(ada, 1)] == [True]
        assert await read(bob, 1) == []


@on_a_virtual_clock
async def test_a_stream_that_is_far_behind_gets_one_hint_that_concerns_all():
    bench = Bench()
    with bench.open() as slow, bench.open() as fast:
        for number in range(MAX_UNREAD + 1):
            bench.events.change(str(number))
            await read(fast, 1)
        assert await read(slow, 1) == [ChangeNotice(n=MAX_UNREAD + 1, jobs=()).frame]


@on_a_virtual_clock
async def test_all_sessions_together_have_a_limited_number_of_streams():
    bench = Bench()
    connected = True
    opened = [bench.open(Caller(user=str(number)), is_connected=lambda: connected) for number in range(MAX_STREAMS)]
    for stream in opened:
        stream.__enter__()
    with pytest.raises(HttpRefusal), bench.open():
        pass
    connected = False
    with bench.open():
        pass
    for other_value in opened:
        other_value.__exit__(None, None, None)


@pytest.mark.fault("SE72")
@on_a_virtual_clock
async def test_the_streams_of_one_user_leave_room_for_those_of_others():
    bench = Bench()
    opened = [bench.open(ADA) for _ in range(MAX_USER_STREAMS)]
    for stream in opened:
        stream.__enter__()
    with pytest.raises(HttpRefusal), bench.open(ADA):
        pass
    with bench.open(BOB):
        pass
    for other_value in opened:
        other_value.__exit__(None, None, None)


@on_a_virtual_clock
async def test_the_reader_ends_with_the_last_stream():
    bench = Bench()
    with bench.open():
        await read_nothing()
        assert len(asyncio.all_tasks()) == 2
    await read_nothing()
    assert len(asyncio.all_tasks()) == 1


async def read_nothing():
    """Let the other tasks run."""
    await VirtualClock().sleep(0.01)


@on_a_virtual_clock
async def test_a_stream_ends_when_the_server_shuts_down():
    bench = Bench()
    with bench.open() as stream:
        ended = asyncio.create_task(stream.next())
        await read_nothing()
        bench.events.close()
        assert await ended is None


@on_a_virtual_clock
async def test_pages_wait_while_rendering_takes_more_than_a_twentieth_of_a_core():
    bench = Bench()
    bench.load.rendered(0.2)
    assert bench.load.fetch_interval == 0
    bench.load.rendered(0.3)
    with bench.open() as stream:
        bench.events.change("job")
        assert b'"fetchInterval":10' in await stream.next()
    await VirtualClock().sleep(6)
    assert bench.load.fetch_interval == 0


@on_a_virtual_clock
async def test_pages_wait_while_the_event_loop_is_late_but_not_too_long():
    assert Bench(timedelta(seconds=0.2)).load.fetch_interval == 10
    assert Bench(timedelta(seconds=60)).load.fetch_interval == MAX_BUSY_INTERVAL


class Part:
    """A fragment whose text is the number of its rendering."""

    def __init__(self):
        self.renderings = 0
        self.events = Events()
        self._shared = SharedFragments(events=self.events, clock=VirtualClock())

    async def of(self, key="page"):
        return (await self._shared.of(key, self._render)).body

    async def _render(self):
        self.renderings += 1
        return Fragment(body=b"%d" % self.renderings, tag="", status=HTTPStatus.OK)


@on_a_virtual_clock
async def test_requests_of_a_second_share_a_rendering_while_nothing_changes():
    part = Part()
    assert [await part.of() for _ in range(3)] == [b"1"] * 3
    await VirtualClock().sleep(SHARED_FOR)
    assert await part.of() == b"2"


@on_a_virtual_clock
async def test_a_request_after_a_change_waits_for_the_next_rendering():
    part, loop = Part(), asyncio.get_running_loop()
    assert await part.of() == b"1"
    part.events.change("job")
    assert await asyncio.gather(part.of(), part.of()) == [b"2", b"2"]
    assert loop.time() == SHARED_FOR


@on_a_virtual_clock
async def test_different_pages_and_callers_do_not_share():
    part = Part()
    assert [await part.of("one"), await part.of("another")] == [b"1", b"2"]


@on_a_virtual_clock
async def test_a_failure_reaches_all_requests_of_its_second():
    async def fails():
        raise StoreFailed("disk full")

    part = Part()
    results = await asyncio.gather(*(part._shared.of("page", fails) for _ in range(2)), return_exceptions=True)
    assert [type(result) for result in results] == [StoreFailed] * 2
