"""Pages of the events of one stream, also while its container runs."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from batchq.errors import Invalid, StoreFailed
from batchq.logs.pages import Span
from batchq.ports.jobs import Changes
from tests.logs.fakes import SECOND
from tests.support.builders import NOON, attempt, job, log_stream
from tests.support.inline import InlineStore

EVER = Span()


def messages(page):
    return [line.message for line in page.lines]


async def page(logs, stream, *, span=EVER, position=None, limit=100, backwards=False):
    return await logs.events(stream, span=span, position=position, limit=limit, backwards=backwards)


@pytest.fixture
async def five_lines(running, engine):
    """A stream that has written a, b, c, d, e, at 1 to 5."""
    stream = await running()
    engine.write(stream.tag, *"abcde")
    return stream


# --------------------------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize(
    ("backwards", "found"), [(False, [["a", "b"], ["c"], []]), (True, [["b", "c"], ["a"], []])], ids=["on", "back"]
)
async def test_pages_stay_at_the_end_or_at_the_beginning(logs, running, engine, backwards, found):
    stream = await running()
    engine.write(stream.tag, "a", "b", "c")

    pages, positions = [], [None]
    for _ in range(3):
        pages.append(await page(logs, stream, limit=2, backwards=backwards, position=positions[-1]))
        positions.append(pages[-1].start if backwards else pages[-1].end)

    assert [messages(other_page) for other_page in pages] == found
    assert positions[-1] == positions[-2]


async def test_a_position_at_the_end_finds_later_lines(logs, running, engine, clock):
    stream = await running()
    engine.write(stream.tag, "a")
    first = await page(logs, stream)
    clock.pass_seconds(1)
    engine.write(stream.tag, "b", at=SECOND)

    assert messages(await page(logs, stream, position=first.end)) == ["b"]


@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize(
    ("span", "found"),
    [
        (Span(), "abcde"),
        (Span(start=2), "bcde"),
        (Span(start=2, end=4), "bc"),
        (Span(end=1), ""),
        (Span(start=6), ""),
        (Span(start=4, end=2), ""),
        (Span(start=3, end=3), ""),
        (Span(start=10**30, end=10**40), ""),
    ],
)
async def test_a_span_includes_its_start_and_excludes_its_end(logs, five_lines, span, found, backwards):
    whole = await page(logs, five_lines, span=span, backwards=backwards)
    end = whole.start if backwards else whole.end
    again = await page(logs, five_lines, span=span, backwards=backwards, position=end)

    assert "".join(messages(whole)) == found
    assert messages(again) == []


async def test_a_span_read_line_by_line_has_each_line_once(logs, five_lines):
    span = Span(start=2, end=5)

    found = []
    read = await page(logs, five_lines, span=span, limit=1)
    while read.lines:
        found += messages(read)
        read = await page(logs, five_lines, span=span, limit=1, position=read.end)

    assert "".join(found) == "bcd"


async def test_a_read_continues_beyond_a_span(logs, five_lines):
    first = await page(logs, five_lines, span=Span(start=2, end=4))
    last = await page(logs, five_lines, span=Span(start=3, end=5), backwards=True)

    assert messages(await page(logs, five_lines, position=first.end)) == ["d", "e"]
    assert messages(await page(logs, five_lines, position=last.start, backwards=True)) == ["a", "b"]


async def test_an_invalid_position_is_refused(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, "a")

    with pytest.raises(Invalid):
        await page(logs, stream, position=17)


# ----------------------------------------------------------------------------------------------------------- following


async def test_a_missing_container_has_no_events(logs, running):
    stream = await running()

    assert messages(await page(logs, stream)) == []


async def test_the_output_of_an_old_job_is_read_without_the_engine(logs, ended, engine):
    stream = await ended(NOON - timedelta(hours=1))

    await page(logs, stream)

    assert engine.reads == []


async def test_the_output_of_an_earlier_attempt_is_read_without_the_engine(logs, store, engine):
    retried = job(status=Status.RUNNING, attempts=(attempt(stopped_at=NOON - timedelta(hours=1)),))
    stream = log_stream(retried, tag=Tag(job_id=retried.id, attempt=1))
    await store.commit(Changes(inserted=(retried,), streams=(stream,)))

    await page(logs, stream)

    assert engine.reads == []


async def test_without_the_engine_stored_output_is_read(logs, running, engine, clock):
    stream = await running()
    engine.write(stream.tag, "a")
    await page(logs, stream)
    clock.pass_seconds(1)
    engine.silent_after = 0

    assert messages(await page(logs, stream)) == ["a"]


async def test_a_recovered_engine_is_read_again(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, "a")
    engine.silent_after = 0
    await page(logs, stream)
    engine.silent_after = None

    assert messages(await page(logs, stream)) == ["a"]


async def test_the_last_output_is_read_although_a_copy_is_recent(logs, store, running, engine):
    stream = await running()
    engine.write(stream.tag, "a")
    await page(logs, stream)
    engine.write(stream.tag, "last words", at=SECOND)
    (before,) = (await store.jobs([stream.tag.job_id])).values()
    over = replace(before, status=Status.SUCCEEDED, attempt=None, attempts=(attempt(stopped_at=NOON),))
    await store.commit(Changes(updated=(over,)))

    assert messages(await page(logs, stream)) == ["a", "last words"]


async def test_a_hanging_engine_delays_the_first_reader_only(logs, running, engine, clock):
    stream = await running()
    engine.write(stream.tag, "a")
    engine.hang()
    loop = asyncio.get_running_loop()

    first = messages(await page(logs, stream))
    waited = loop.time()
    second = messages(await page(logs, stream))

    assert (first, second) == ([], [])
    assert waited == pytest.approx(3, abs=0.1)
    assert loop.time() == waited


async def test_readers_of_one_container_share_one_copy(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, "a")
    engine.hang()

    await asyncio.gather(*(page(logs, stream) for _ in range(20)))

    assert len(engine.reads) == 1


async def test_a_hanging_container_does_not_delay_readers_of_others(logs, running, engine):
    hanging, other = await running(), await running()
    engine.write(other.tag, "a")
    engine.hang(hanging.tag)
    for _ in range(20):
        await page(logs, hanging)
    waited = asyncio.get_running_loop().time()

    assert messages(await page(logs, other)) == ["a"]
    assert asyncio.get_running_loop().time() == waited


async def test_a_slow_copy_completes_without_its_reader(logs, running, engine, clock):
    stream = await running()
    engine.write(stream.tag, "a")
    engine.hang()
    await page(logs, stream)
    engine.answers.set()
    await asyncio.sleep(1)

    assert messages(await page(logs, stream)) == ["a"]
    assert len(engine.reads) == 1


class Unreadable(InlineStore):
    async def jobs(self, ids):
        raise StoreFailed("input/output error")


@pytest.mark.parametrize("store", [Unreadable()], indirect=True)
async def test_a_failed_store_is_reported_to_the_reader(logs, running):
    stream = await running()

    with pytest.raises(StoreFailed):
        await page(logs, stream)


async def test_on_a_full_disk_stored_output_is_read(logs, running, engine, archive, clock):
    stream = await running()
    engine.write(stream.tag, "a")
    await page(logs, stream)
    clock.pass_seconds(1)
    engine.write(stream.tag, "b", at=SECOND)
    archive.failing = True

    assert messages(await page(logs, stream)) == ["a"]
