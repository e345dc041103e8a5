"""The contract of every log archive."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchq.errors import Invalid
from batchq.ports.logs import LogLine
from batchq.store.log_files import LogFiles
from tests.support.examples import examples
from tests.support.inline import InlineLogFiles

TASK = "0123456789abcdef" * 2
OTHER = "f" * 32
ALL = 10**6


@pytest.fixture
def archive(tmp_path):
    archive = LogFiles(tmp_path / "logs")
    yield archive
    archive.close()


def lines(*messages, at=1):
    return [LogLine(at=at + number, message=message) for number, message in enumerate(messages)]


def messages(page):
    return [line.message for line in page.lines]


async def read(archive, *, position=0, limit=ALL, max_bytes=ALL):
    return await archive.read(TASK, position=position, limit=limit, max_bytes=max_bytes)


async def read_back(archive, *, position=None, limit=ALL, max_bytes=ALL):
    return await archive.read_back(TASK, position=position, limit=limit, max_bytes=max_bytes)


# --------------------------------------------------------------------------------------------------------- keeping


async def test_an_unwritten_log_is_empty(archive):
    assert await archive.last(TASK) == 0
    assert await archive.size(TASK) == 0
    assert await archive.seek(TASK, 5) == 0
    assert (await read(archive)).lines == (await read_back(archive)).lines == ()


async def test_each_task_has_its_own_log(archive):
    await archive.append(TASK, lines("mine"))
    await archive.append(OTHER, lines("other"))

    assert messages(await read(archive)) == ["mine"]


async def test_the_lines_between_two_positions_are_counted(archive):
    await archive.append(TASK, lines("a", "b\n", "x" * 300_000, "d"))
    starts = [line.position for line in (await read(archive)).lines]

    assert [await archive.count(TASK, start=starts[0], end=start) for start in starts] == [0, 1, 2, 3]
    assert await archive.count(TASK, start=starts[1], end=starts[3]) == 2
    assert await archive.count(OTHER, start=0, end=0) == 0


@pytest.mark.parametrize("text", ["a\nb\r\n", "\0\x1b[31m", '"\\"', "É☃𝄞\u2028\u2029\x85", " ", "x" * 300_000, "{}"])
async def test_every_text_is_read_as_written(archive, text):
    await archive.append(TASK, lines("before", text, "after"))

    assert messages(await read(archive)) == messages(await read_back(archive)) == ["before", text, "after"]


async def test_an_unpaired_surrogate_becomes_a_question_mark(archive):
    await archive.append(TASK, lines("before", "\ud800", "after"))

    found = messages(await read(archive))

    assert (found[0], found[2]) == ("before", "after")


async def test_times_ascend_and_the_last_timestamp_is_stored(archive):
    await archive.append(TASK, [LogLine(at=5, message="a"), LogLine(at=3, message="late")])
    assert await archive.last(TASK) == 5
    await archive.append(TASK, [LogLine(at=4, message="later"), LogLine(at=6, message="b")])

    page = await read(archive)

    assert [line.at for line in page.lines] == [5, 5, 5, 6]
    assert [line.stamped for line in page.lines] == [5, 3, 4, 6]


async def test_the_size_grows_with_each_append(archive):
    await archive.append(TASK, lines("a"))
    before = await archive.size(TASK)

    await archive.append(TASK, lines("b" * 1000))

    assert await archive.size(TASK) >= before + 1000 > 1000


async def test_all_logs_together_have_the_size_of_each(archive):
    assert await archive.stored_bytes() == 0
    await archive.append(TASK, lines("a", "b"))
    await archive.append(OTHER, lines("c"))

    assert await archive.stored_bytes() == await archive.total([TASK, OTHER]) > 0


async def test_a_discarded_log_is_empty(archive):
    await archive.append(TASK, lines("a"))
    await archive.append(OTHER, lines("b"))

    await archive.discard(TASK)
    await archive.discard(TASK)

    assert (await archive.size(TASK), await archive.last(TASK)) == (0, 0)
    assert await archive.size(OTHER) > 0


@pytest.mark.parametrize(
    "log_id", ["", "..", "../../etc/passwd", "0" * 31, "0" * 33, "G" * 32, "0" * 31 + "\n", "A" * 32, "0" * 32 + "\0"]
)
async def test_an_invalid_task_id_is_refused(archive, log_id):
    with pytest.raises(Invalid):
        await archive.append(log_id, lines("a"))
    with pytest.raises(Invalid):
        await archive.read(log_id, position=0, limit=1, max_bytes=1)
    with pytest.raises(Invalid):
        await archive.last(log_id)


# --------------------------------------------------------------------------------------------------------- pages


async def test_a_line_has_the_same_position_in_every_page(archive):
    await archive.append(TASK, lines("a", "b", "c"))

    forwards, back = await read(archive), await read_back(archive, limit=2)

    assert forwards.lines[1:] == back.lines
    assert [forwards.start, *[line.position for line in forwards.lines][1:]] == [
        line.position for line in forwards.lines
    ]
    assert messages(await read(archive, position=forwards.lines[2].position)) == ["c"]


async def test_a_page_has_a_bounded_number_of_bytes(archive):
    await archive.append(TASK, lines(*["x" * 100] * 50))

    assert 0 < len((await read(archive, max_bytes=1000)).lines) <= 10
    assert 0 < len((await read_back(archive, max_bytes=1000)).lines) <= 10


async def test_an_old_end_is_the_start_of_later_lines(archive):
    await archive.append(TASK, lines("a"))
    end = (await read(archive)).end

    await archive.append(TASK, lines("b", at=10))

    assert messages(await read(archive, position=end)) == ["b"]


@pytest.mark.parametrize("position", [-1, 10**6, 2**63])
async def test_an_invalid_position_is_refused(archive, position):
    await archive.append(TASK, lines("a"))

    with pytest.raises(Invalid):
        await read(archive, position=position)
    with pytest.raises(Invalid):
        await read_back(archive, position=position)


# --------------------------------------------------------------------------------------------------------- time


async def test_a_time_is_found_at_its_first_line(archive):
    await archive.append(TASK, [LogLine(at=at, message=str(at)) for at in (10, 20, 20, 30)])

    found = [messages(await read(archive, position=await archive.seek(TASK, at))) for at in (0, 10, 11, 20, 30)]

    assert found == [["10", "20", "20", "30"]] * 2 + [["20", "20", "30"]] * 2 + [["30"]]


async def test_a_time_after_all_lines_is_the_end(archive):
    await archive.append(TASK, lines("a"))

    assert await archive.seek(TASK, 100) == (await read(archive)).end


# --------------------------------------------------------------------------------------------------------- laws

texts = st.text(max_size=30) | st.sampled_from(["x" * 1000, "\n", "\0" * 400, "y" * 70_000])
batches = st.lists(st.lists(st.builds(LogLine, at=st.integers(1, 50), message=texts), max_size=8), max_size=6)
limits = st.fixed_dictionaries({"limit": st.integers(1, 5), "max_bytes": st.sampled_from([1, 100, ALL])})


async def all_onwards(archive, limits):
    found = []
    page = await archive.read(TASK, position=0, **limits)
    while page.lines:
        found += page.lines
        page = await archive.read(TASK, position=page.end, **limits)
    return found


async def all_back(archive, limits):
    found = []
    page = await archive.read_back(TASK, position=None, **limits)
    while page.lines:
        found = [*page.lines, *found]
        page = await archive.read_back(TASK, position=page.start, **limits)
    return found


@settings(max_examples=examples(50))
@given(batches=batches, limits=limits, at=st.integers(0, 60))
def test_pages_have_each_line_once_in_both_directions(batches, limits, at):
    archive = InlineLogFiles()
    written = [(line.at, line.message) for batch in batches for line in batch]

    async def read_all():
        for batch in batches:
            await archive.append(TASK, batch)
        return await all_onwards(archive, limits), await all_back(archive, limits), await archive.seek(TASK, at)

    onwards, back, found = asyncio.run(read_all())

    assert onwards == back
    assert [(line.stamped, line.message) for line in onwards] == written
    assert [line.at for line in onwards] == sorted(line.at for line in onwards)
    assert [line for line in onwards if line.position >= found] == [line for line in onwards if line.at >= at]
