"""Each line of a container is stored exactly once."""

import asyncio
from contextlib import closing, suppress
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchq.domain.ids import JobId, Tag
from batchq.errors import RuntimeUnknown, StoreFailed
from batchq.logs.capture import BATCH_CHARACTERS, BATCH_LINES, MAX_EVENT_BYTES, LogCapture
from batchq.logs.tail import COPY_INTERVAL
from batchq.ports.logs import LogLine
from batchq.store.log_files import LogFiles
from tests.logs.conftest import TAG
from tests.logs.fakes import SECOND, Engine, StillClock
from tests.support.examples import examples
from tests.support.inline import InlineLogFiles
from tests.support.stubs import UNLIMITED

ALL = 10**9


@pytest.fixture
def capture(archive, engine, clock):
    return LogCapture(archive=archive, runtime=engine, clock=clock, quota=UNLIMITED)


async def kept(archive):
    page = await archive.read(TAG.log_id, position=0, limit=ALL, max_bytes=ALL)
    return [line.message for line in page.lines]


# ----------------------------------------------------------------------------------------------------------- all, once


async def test_a_repeated_capture_stores_each_line_once_and_keeps_the_container(capture, engine, archive):
    engine.clears_silent = True
    engine.write(TAG, "a", "b", "a", "a")

    removed = [await capture.capture(TAG) for _ in range(2)]

    assert removed == [False, False]
    assert await kept(archive) == ["a", "b", "a", "a"]


async def test_a_silent_container_is_reported_as_removed(capture, engine, archive):
    engine.clears_silent = True
    engine.write(TAG)

    assert await capture.capture(TAG) is True

    assert (engine.written, await kept(archive)) == ({}, [])


async def test_stored_output_survives_the_container(capture, engine, archive):
    engine.write(TAG, "a")
    await capture.capture(TAG)
    del engine.written[TAG]

    await capture.capture(TAG)

    assert await kept(archive) == ["a"]


@pytest.mark.parametrize("lines", [0, 1, BATCH_LINES, BATCH_LINES + 1, 2 * BATCH_LINES + 7])
async def test_a_capture_continues_after_an_engine_failure(capture, engine, archive, lines):
    written = [str(number) for number in range(3 * BATCH_LINES)]
    engine.write(TAG, *written)
    engine.silent_after = lines
    with pytest.raises(RuntimeUnknown):
        await capture.capture(TAG)
    engine.silent_after = None

    await capture.capture(TAG)

    assert await kept(archive) == written


async def test_a_capture_continues_after_a_full_disk(capture, engine, archive):
    engine.write(TAG, "a", "b")
    archive.failing = True
    with pytest.raises(StoreFailed):
        await capture.capture(TAG)
    archive.failing = False

    await capture.capture(TAG)

    assert await kept(archive) == ["a", "b"]


@settings(max_examples=examples(40), deadline=None)
@given(torn_at=st.integers(0, 2_000), stamps=st.lists(st.integers(1, 5 * SECOND), max_size=30))
def test_a_kill_at_any_byte_stores_each_line_once(tmp_path_factory, torn_at, stamps):
    directory = tmp_path_factory.mktemp("torn")
    engine = Engine()
    for number, at in enumerate(sorted(stamps)):
        engine.write(TAG, f"line {number} " + "é" * (number % 7), at=at)

    asyncio.run(keep_in_files(directory, engine))
    for file in directory.rglob("*.log"):
        file.write_bytes(file.read_bytes()[:torn_at])
    found = asyncio.run(keep_in_files(directory, engine))

    assert found == [line.message for line in engine.written.get(TAG, [])]


async def keep_in_files(directory, engine):
    with closing(LogFiles(directory)) as files:
        await LogCapture(archive=files, runtime=engine, clock=StillClock(), quota=UNLIMITED).capture(TAG)
        return await kept(files)


async def test_concurrent_captures_store_each_line_once(capture, engine, archive):
    engine.write(TAG, *"abcdef")

    await asyncio.gather(
        *(capture.capture(TAG) for _ in range(5)), *(capture.copy_new(TAG, max_age=COPY_INTERVAL) for _ in range(5))
    )

    assert await kept(archive) == [*"abcdef"]


# ------------------------------------------------------------------------------------------------- stamps as they come


async def test_lines_with_the_same_timestamp_are_stored_once(capture, engine, archive):
    engine.write(TAG, "a", at=5)
    engine.write(TAG, "b", at=5)
    await capture.capture(TAG)
    engine.write(TAG, "c", at=5)

    await capture.capture(TAG)

    assert await kept(archive) == ["a", "b", "c"]


async def test_a_line_out_of_order_is_stored(capture, engine, archive):
    engine.write(TAG, "out", at=10 * SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.write(TAG, "err", at=10 * SECOND - 5)

    await capture.capture(TAG)

    assert await kept(archive) == ["out", "err"]


async def test_a_late_part_of_a_cut_line_is_stored(capture, engine, archive):
    engine.write(TAG, "bar " * 5000, at=SECOND)
    engine.write(TAG, "between", at=50 * SECOND)
    engine.write(TAG, "out", at=100 * SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.write(TAG, "and the rest", at=SECOND)

    await capture.capture(TAG)
    await capture.capture(TAG)

    assert await kept(archive) == ["bar " * 5000, "between", "out", "and the rest"]


async def test_a_partly_stored_line_is_completed_once(capture, engine, archive):
    engine.write(TAG, "x" * 20_000, at=SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.written[TAG] = [LogLine(at=SECOND, message="x" * 20_000 + "y" * 400_000)]

    await capture.capture(TAG)
    await capture.capture(TAG)

    assert "".join(await kept(archive)) == "x" * 20_000 + "y" * 400_000


async def test_lines_dropped_by_the_engine_stay_stored_and_the_gap_is_reported(capture, engine, archive):
    engine.write(TAG, "old", at=SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.written[TAG] = []
    engine.write(TAG, "new", at=50 * SECOND)

    await capture.capture(TAG)

    old, new, dropped = await kept(archive)
    assert (old, new) == ("old", "new")
    assert "lines from 1970-01-01 00:00:01 UTC to 1970-01-01 00:00:50 UTC may be missing" in dropped


# ---------------------------------------------------------------------------------------------------- what is an event


@pytest.mark.parametrize(
    ("written", "stored"), [(("a", "", " ", ""), ["a", " "]), (("a\ud800b",), ["a?b"])], ids=["empty", "surrogate"]
)
async def test_empty_lines_and_invalid_characters_are_no_events(capture, engine, archive, written, stored):
    engine.write(TAG, *written)

    await capture.capture(TAG)
    await capture.capture(TAG)

    assert await kept(archive) == stored


async def test_a_long_line_is_split_between_characters(capture, engine, archive):
    line = "é" * MAX_EVENT_BYTES
    engine.write(TAG, "x" + line, "after")

    await capture.capture(TAG)
    await capture.capture(TAG)

    *events, last = await kept(archive)
    assert (last, "".join(events)) == ("after", "x" + line)
    assert max(len(event.encode()) for event in events) <= MAX_EVENT_BYTES


# ------------------------------------------------------------------------------------------------------- what it costs


@pytest.mark.fault("SE44")
async def test_lines_are_appended_in_batches(engine, archive, clock):
    taken = []

    class Counting(InlineLogFiles):
        async def append(self, log_id, lines):
            taken.append((len(lines), sum(len(line.message) for line in lines)))
            return await super().append(log_id, lines)

    engine.write(TAG, *["x"] * 5000, *["y" * 100_000] * 30)

    await LogCapture(archive=Counting(), runtime=engine, clock=clock, quota=UNLIMITED).capture(TAG)

    assert max(lines for lines, _ in taken) == taken[0][0] == taken[1][0] == BATCH_LINES
    assert max(characters for _, characters in taken) < BATCH_CHARACTERS + MAX_EVENT_BYTES
    assert sum(lines for lines, _ in taken) == 5030


async def test_a_container_without_output_does_not_access_the_archive(engine, clock):
    engine.write(TAG)

    await LogCapture(archive=None, runtime=engine, clock=clock, quota=UNLIMITED).capture(TAG)

    assert engine.reads == [(TAG, 0)]


async def test_a_capture_reads_only_new_output(capture, engine, archive):
    engine.write(TAG, "a", at=100 * SECOND)
    engine.write(TAG, "b", at=200 * SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    engine.reads.clear()

    await capture.capture(TAG)

    assert engine.reads == [(TAG, 0), (TAG, 199 * SECOND)]  # of the first no more than one line
    assert await kept(archive) == ["a", "b"]


async def test_a_copy_reads_only_the_last_second_again(capture, engine, clock):
    engine.write(TAG, "a", at=100 * SECOND)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    clock.pass_seconds(1)

    await capture.copy_new(TAG, max_age=COPY_INTERVAL)

    assert engine.reads == [(TAG, 0), (TAG, 99 * SECOND)]


async def test_copies_are_rate_limited(capture, engine, clock):
    engine.write(TAG, "a")
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)

    clock.pass_seconds(0.19)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)
    clock.pass_seconds(0.02)
    await capture.copy_new(TAG, max_age=COPY_INTERVAL)

    assert len(engine.reads) == 2


async def test_copy_times_are_dropped_when_they_expire(capture, engine, clock):
    tags = [Tag(job_id=JobId("a-job"), attempt=number) for number in range(20)]

    for tag in tags:
        await capture.copy_new(tag, max_age=COPY_INTERVAL)
        clock.pass_seconds(0.5)
    await capture.capture(TAG)

    assert len(capture._locks) == 0
    assert len(capture._copied_at) <= 2


# ---------------------------------------------------------------------------------------------------------------- laws

OVERTAKING = st.integers(-SECOND + 1, 0)
ACTIONS = st.lists(
    st.tuples(st.just("write"), OVERTAKING, st.sampled_from(["", "a", "b", "c" * 5000]))
    | st.tuples(st.just("copy_new"), st.sampled_from([None, 0, 1, 3]), st.none())
    | st.tuples(st.just("capture"), st.sampled_from([None, 0, 1, 3]), st.none())
    | st.tuples(st.just("deliver"), st.integers(1, 3), st.none())
    | st.tuples(st.just("break"), st.none(), st.none()),
    max_size=40,
)


@settings(max_examples=examples(150), deadline=None)
@given(actions=ACTIONS)
def test_any_sequence_of_captures_stores_each_line_once(actions):
    engine, archive, clock = Engine(), InlineLogFiles(), StillClock()
    capture = LogCapture(archive=archive, runtime=engine, clock=clock, quota=UNLIMITED)
    engine.written[TAG] = []

    asyncio.run(perform(actions, engine=engine, capture=capture, clock=clock))

    written = sorted(line.message for line in engine.written[TAG] if line.message)
    assert sorted(asyncio.run(kept(archive))) == written


async def perform(actions, *, engine, capture, clock):
    """Each action, and a last capture. Of two lines one may overtake the other by less than a second.

    After "deliver" a follower receives the next lines, after "break" another one begins.
    """
    now, follower = count(10 * SECOND, SECOND // 3), None
    for action, how, message in actions:
        clock.pass_seconds(1)
        if action == "write":
            engine.write(TAG, message, at=next(now) + how)
            continue
        if action in {"deliver", "break"}:
            follower = follower or asyncio.create_task(capture.follow(TAG, _received, marks_gap=False))
            engine.deliveries.setdefault(TAG, asyncio.Queue()).put_nowait(how)
            await _settled(engine, follower)
            follower = None if follower.done() else follower
            continue
        if action == "capture" and follower is not None:  # the container has ended
            engine.deliveries[TAG].put_nowait(None)
            await follower
            follower = None
        engine.silent_after = how
        with suppress(RuntimeUnknown):
            await (capture.capture(TAG) if action == "capture" else capture.copy_new(TAG, max_age=COPY_INTERVAL))
        engine.silent_after = None
    if follower is not None:
        engine.deliveries[TAG].put_nowait(None)
        await follower
    await capture.capture(TAG)


async def _received(_characters):
    pass


async def _settled(engine, follower):
    """Let the follower run until it waits for the next lines."""
    while not follower.done() and not (engine.deliveries[TAG].empty() and engine.deliveries[TAG]._getters):  # noqa: ASYNC110
        await asyncio.sleep(0)
