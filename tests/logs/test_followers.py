"""A followed log is stored while the container writes it, each line once."""

import asyncio
from datetime import timedelta

import pytest

from batchq.domain.enums import Status
from batchq.errors import RuntimeUnknown, StoreFailed
from batchq.logs.capture import DROPPED, LogCapture
from batchq.logs.followers import MANY_CHARACTERS, LogFollowers
from batchq.logs.tail import COPY_INTERVAL
from tests.logs.fakes import SECOND
from tests.support.builders import job
from tests.support.stubs import UNLIMITED

RUNNING = job(status=Status.RUNNING)
TAG = RUNNING.tag
ALL = 10**9


@pytest.fixture
def capture(archive, engine, clock):
    return LogCapture(archive=archive, runtime=engine, clock=clock, quota=UNLIMITED)


@pytest.fixture
async def followers(capture, engine, monkeypatch):
    monkeypatch.setattr("batchq.logs.followers.REOPEN_PAUSE", timedelta(seconds=0.01))
    monkeypatch.setattr("batchq.logs.followers.STORE_INTERVAL", timedelta(seconds=0.01))
    monkeypatch.setattr("batchq.logs.followers.QUIET_PERIOD", timedelta(seconds=0.1))
    asyncio.get_running_loop().live_really()
    engine.deliveries[TAG] = asyncio.Queue()
    followers = LogFollowers(capture, is_following=True)
    yield followers
    await followers.close()


async def stored(archive):
    return [line.message for line in (await archive.read(TAG.log_id, position=0, limit=ALL, max_bytes=ALL)).lines]


async def until_stored(archive, *messages):
    async with asyncio.timeout(10):
        while await stored(archive) != list(messages):  # noqa: ASYNC110 - a file sets no event
            await asyncio.sleep(0.001)


async def test_lines_are_stored_that_the_engine_has_dropped_before_the_end(followers, engine, archive):
    engine.write(TAG, "a", "b")
    followers.on_saved(RUNNING)
    engine.deliveries[TAG].put_nowait(2)
    await until_stored(archive, "a", "b")
    engine.written[TAG].clear()

    await followers.capture(TAG)

    assert await stored(archive) == ["a", "b"]


async def test_the_rest_is_received_before_the_last_copy(followers, engine, archive):
    engine.write(TAG, "a", "b", "c")
    followers.on_saved(RUNNING)
    engine.deliveries[TAG].put_nowait(1)
    await until_stored(archive, "a")
    engine.deliveries[TAG].put_nowait(2)
    engine.meanwhile = lambda _: engine.written[TAG].clear()

    await followers.capture(TAG)

    assert await stored(archive) == ["a", "b", "c"]


async def test_a_container_that_writes_much_is_read_without_pauses(followers, engine, archive, monkeypatch):
    monkeypatch.setattr("batchq.logs.followers.STORE_INTERVAL", timedelta(seconds=60))
    much = "x" * MANY_CHARACTERS
    engine.write(TAG, much, "b", "c")
    followers.on_saved(RUNNING)

    for _ in range(3):
        engine.deliveries[TAG].put_nowait(1)

    await until_stored(archive, much, "b", "c")


async def test_a_follower_that_receives_nothing_delays_the_removal_only_briefly(followers, engine, archive):
    engine.write(TAG, "a")
    followers.on_saved(RUNNING)

    async with asyncio.timeout(5):
        await followers.capture(TAG)

    assert await stored(archive) == ["a"]


async def test_a_reader_does_not_store_newer_lines_before_those_of_the_follower(followers, capture, engine, archive):
    engine.write(TAG, "a", at=SECOND)
    engine.write(TAG, "b", at=5 * SECOND)
    engine.write(TAG, "c", at=9 * SECOND)
    followers.on_saved(RUNNING)
    engine.deliveries[TAG].put_nowait(1)
    await until_stored(archive, "a")
    whole, engine.written[TAG] = engine.written[TAG], engine.written[TAG][2:]

    with pytest.raises(RuntimeUnknown):
        await capture.copy_new(TAG, max_age=COPY_INTERVAL)

    engine.written[TAG] = whole
    engine.deliveries[TAG].put_nowait(2)
    await followers.capture(TAG)
    assert await stored(archive) == ["a", "b", "c"]


async def test_after_a_failed_copy_of_a_reader_the_follower_begins_again(followers, capture, engine, archive):
    engine.write(TAG, "a", "b", at=SECOND)
    followers.on_saved(RUNNING)
    engine.deliveries[TAG].put_nowait(1)
    await until_stored(archive, "a")
    append, archive.append = archive.append, _failing

    with pytest.raises(StoreFailed):
        await capture.copy_new(TAG, max_age=COPY_INTERVAL)

    archive.append = append
    for _ in range(4):
        engine.deliveries[TAG].put_nowait(1)
    await until_stored(archive, "a", "b")


async def _failing(*_):
    raise StoreFailed("the disk is full")


async def test_lines_that_were_dropped_while_no_server_ran_are_reported(followers, engine, archive, capture):
    engine.write(TAG, "a", at=SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.written[TAG].clear()
    engine.write(TAG, "z", at=9 * SECOND)

    followers.on_saved(RUNNING)
    engine.deliveries[TAG].put_nowait(1)

    gap = DROPPED.format("from 1970-01-01 00:00:01 UTC to 1970-01-01 00:00:09 UTC")
    await until_stored(archive, "a", gap, "z")


async def test_nothing_is_followed_without_the_setting(capture, engine):
    followers = LogFollowers(capture, is_following=False)
    engine.write(TAG, "a")

    followers.on_saved(RUNNING)
    await asyncio.sleep(0)

    assert engine.deliveries == {}


async def test_a_log_of_which_the_engine_stores_enough_is_not_followed(followers, engine, archive):
    engine.follows = False
    engine.write(TAG, "a")

    followers.on_saved(RUNNING)
    await followers.capture(TAG)

    assert await stored(archive) == ["a"]
