"""Events of several streams, merged by time."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.errors import Invalid
from batchq.logs import service
from batchq.logs.pages import Span
from batchq.logs.search import SLICE_BYTES, SearchBudget, parse_pattern
from batchq.logs.service import LogQuery, LogSearchPosition
from batchq.ports.jobs import Changes
from batchq.ports.logs import LogLine
from tests.logs.fakes import SECOND
from tests.support.builders import ADMIN, NOON, job, log_stream
from tests.support.timing import little_cpu

EVERYTHING = LogQuery(span=Span())
AT_ONCE, MANY = 50, 70  # streams that are searched at once, and all of them
NOW = int(NOON.timestamp()) * SECOND


def messages(events):
    return [event.line.message for event in events]


async def search(logs, query=EVERYTHING, *, limit=10_000):
    """Every page, as (page's messages, ...)."""
    pages, position = [], LogSearchPosition()
    while position is not None:
        events, position = await logs.filter(query, position=position, limit=limit, caller=ADMIN)
        pages.append(messages(events))
    return pages


def everything(pages):
    return [message for page in pages for message in page]


@pytest.fixture
async def three(running, engine):
    """Three streams that wrote at the same time; by name: x, y, z."""
    streams = [await running(name=f"{name}/default/0") for name in "xyz"]
    for number, stream in enumerate(streams):
        engine.write(stream.tag, *[f"{stream.name[0]}{line}" for line in range(4)], at=10 + number)
    return streams


BY_TIME = ["x0", "x1", "y0", "x2", "y1", "z0", "x3", "y2", "z1", "y3", "z2", "z3"]


@pytest.mark.parametrize("limit", [1, 2, 5, 11, 12, 13])
async def test_events_of_all_streams_are_sorted_by_time_for_any_page_size(logs, three, limit):
    pages = await search(logs, limit=limit)

    stamps = [12 + int(pair[1]) - "zyx".index(pair[0]) for pair in everything(pages)]
    assert stamps == sorted(stamps)
    assert sorted(everything(pages)) == sorted(BY_TIME)
    assert list(map(len, pages[:-1])) == [limit] * (11 // limit)


async def test_a_page_has_at_most_one_mebibyte(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, *["x" * 200_000] * 12)

    pages = await search(logs)

    assert [len(page) for page in pages] == [5, 5, 2]


@pytest.mark.exhaustive
async def test_a_page_may_be_empty_before_the_last(logs, running, engine, archive):
    stream = await running()
    engine.write(stream.tag, *["chaff"] * 60_000, "wheat")
    await logs.capture(stream.tag)

    pages = await search(logs, LogQuery(span=Span(), pattern="wheat"))

    assert pages == [[], ["wheat"]]


@pytest.fixture
async def many(store, engine, monkeypatch):
    """More streams than are searched at once, each with a line: `line 0`, `line 1`, ... The last by name are oldest."""
    monkeypatch.setattr(service, "MAX_STREAMS_PER_SEARCH", AT_ONCE)
    jobs = [job(status=Status.RUNNING) for _ in range(MANY)]
    streams = [log_stream(of) for of in jobs]
    await store.commit(Changes(inserted=tuple(jobs), streams=tuple(streams)))
    for number, stream in enumerate(streams):
        engine.write(stream.tag, f"line {number}", at=MANY - number)


async def test_many_streams_are_searched_in_parts(logs, many):
    pages = await search(logs, limit=30)

    assert sorted(everything(pages)) == sorted(f"line {number}" for number in range(MANY))
    assert [len(page) for page in pages] == [30, 20, 20]


async def test_new_streams_do_not_move_others_into_the_next_part(logs, many, running):
    first, position = await logs.filter(EVERYTHING, position=LogSearchPosition(), limit=30, caller=ADMIN)
    for number in range(20):
        await running(name=f"a new one {number}")

    rest = []
    while position is not None:
        events, position = await logs.filter(EVERYTHING, position=position, limit=30, caller=ADMIN)
        rest += messages(events)

    assert sorted(messages(first) + rest) == sorted(f"line {number}" for number in range(MANY))


async def test_a_new_stream_does_not_break_a_paged_search(logs, three, running, engine):
    first, position = await logs.filter(EVERYTHING, position=LogSearchPosition(), limit=5, caller=ADMIN)
    new = await running(name="xx/default/0")
    engine.write(new.tag, "new", at=SECOND)

    rest, position = await logs.filter(EVERYTHING, position=position, limit=100, caller=ADMIN)

    assert sorted(messages(first) + messages(rest)) == sorted([*BY_TIME, "new"])
    assert position is None


@pytest.fixture
async def two_that_write_while_they_are_read(running, engine, clock):
    """x and y have written x0 and y0. While y is read, which is after x, they write x1 and y1."""
    x, y = [await running(name=f"{name}/default/0") for name in "xy"]
    engine.write(x.tag, "x0", at=NOW - 2 * SECOND)
    engine.write(y.tag, "y0", at=NOW - SECOND)

    def write(tag):
        if tag == y.tag:
            clock.pass_seconds(0.05)
            engine.write(x.tag, "x1", at=NOW + 10)
            engine.write(y.tag, "y1", at=NOW + 20)
            engine.meanwhile = lambda _: None

    engine.meanwhile = write


async def test_a_follower_misses_no_events(logs, two_that_write_while_they_are_read, clock):
    first, _ = await logs.filter(EVERYTHING, position=LogSearchPosition(), limit=100, caller=ADMIN)
    newest = max(event.line.at for event in first)
    clock.pass_seconds(1)
    second, _ = await logs.filter(
        LogQuery(span=Span(start=newest + 1)), position=LogSearchPosition(), limit=100, caller=ADMIN
    )

    assert [messages(first), messages(second)] == [["x0", "y0"], ["x1", "y1"]]


async def test_timestamps_ahead_of_the_clock_are_returned(logs, running, engine):
    for number in range(2):
        stream = await running()
        engine.write(stream.tag, f"{number}", at=NOW + 3600 * SECOND)

    assert sorted(everything(await search(logs))) == ["0", "1"]


async def test_many_containers_are_found_by_one_survey(logs, store, engine, running):
    streams = [await running() for _ in range(20)]
    engine.write(streams[3].tag, "a")

    await search(logs)

    assert (engine.surveys, [tag for tag, _ in engine.reads]) == (1, [streams[3].tag])


async def test_without_the_engine_stored_output_is_read(logs, running, engine, clock):
    streams = [await running() for _ in range(20)]
    engine.write(streams[3].tag, "a")
    await search(logs)
    clock.pass_seconds(1)
    engine.silent_after = 0

    assert everything(await search(logs)) == ["a"]


class Compared(str):
    """A message that counts the bytes of it that are compared with terms."""

    __slots__ = ()
    in_round = 0

    def __contains__(self, term):
        Compared.in_round += len(self)
        return super().__contains__(term)


@pytest.mark.fault("SE24")
async def test_a_search_of_long_lines_yields_the_event_loop(logs, running, archive, monkeypatch):
    stream, read = await running(), archive.read
    await archive.append(
        stream.tag.log_id, [LogLine(at=number, message="x" * 200_000 + str(number)) for number in range(1, 21)]
    )

    async def read_counted(*args, **members):
        page = await read(*args, **members)
        return replace(page, lines=tuple(replace(line, message=Compared(line.message)) for line in page.lines))

    monkeypatch.setattr(archive, "read", read_counted)
    pattern = " ".join(["x" * 40, *(f"-{number}y" for number in range(17)), "?1", "?7"])
    most = 0

    async def watch():
        nonlocal most
        while True:
            most, Compared.in_round = max(most, Compared.in_round), 0
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    searches = [asyncio.create_task(search(logs, LogQuery(span=Span(), pattern=pattern))) for _ in range(3)]
    pages = await asyncio.gather(*searches)
    watching.cancel()

    assert 0 < most <= SLICE_BYTES + 2 * 200_002
    assert [message[200_000:] for message in everything(pages[0])] == [
        str(index) for index in range(1, 21) if set("17") & set(str(index))
    ]
    assert len(pages[0]) > 2


async def test_a_search_ends_early_when_the_client_disconnects(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, *["chaff"] * 10)

    _, position = await logs.filter(
        EVERYTHING, position=LogSearchPosition(), limit=10, caller=ADMIN, has_disconnected=lambda: True
    )

    assert position is not None
    assert position.after_key is not None


MESSAGES = (
    "[ERROR 400] BAD REQUEST",
    "[ERROR 401] UNAUTHORIZED REQUEST",
    "[WARN] a request was slow",
    'INFO wrote "hello"',
)


async def found(pattern):
    parsed, budget = parse_pattern(pattern), SearchBudget(asyncio.Lock())
    return [number for number, message in enumerate(MESSAGES) if await parsed.matches(message, budget)]


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("", [0, 1, 2, 3]),
        ("   ", [0, 1, 2, 3]),
        ('""', [0, 1, 2, 3]),
        ("ERROR", [0, 1]),
        ("error", []),
        ("ERROR REQUEST", [0, 1]),
        ("ERROR 401", [1]),
        ('"BAD REQUEST"', [0]),
        ('"REQUEST BAD"', []),
        ("?WARN ?INFO", [2, 3]),
        ('?"BAD REQUEST" ?INFO', [0, 3]),
        ("-ERROR", [2, 3]),
        ("ERROR -401", [0]),
        ('REQUEST -"BAD REQUEST"', [1]),
        ("?ERROR ?WARN -401", [0, 2]),
        ("REQUEST ?400 ?WARN", [0]),
        (r'"\"hello\""', [3]),
        ("a  request", [2]),
        ("\tWARN\n", [2]),
        ("401]", [1]),
    ],
)
async def test_terms_are_required_optional_or_excluded(pattern, numbers):
    assert await found(pattern) == numbers


UNSUPPORTED = ['{ $.level = "ERROR" }', "[ip, user]", "%ERR.*%", "  {"]
MALFORMED = ['"', 'a "b', '"a"b', 'a"b"', '"a" -"', "'\"", '"\\']


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        *((pattern, "not supported by this server") for pattern in UNSUPPORTED),
        *((pattern, "Invalid filter pattern") for pattern in MALFORMED),
    ],
)
def test_an_unsupported_or_malformed_pattern_is_refused_with_the_reason(pattern, why):
    with pytest.raises(Invalid, match=why):
        parse_pattern(pattern)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("pattern", ['"' + "\\\\" * 511 + '"', "?a" * 512, "-" * 1024, "a " * 20, "(a+)+$" * 170])
async def test_the_longest_pattern_is_matched_quickly(pattern):
    with little_cpu():
        await parse_pattern(pattern).matches("a" * 256 * 1024, SearchBudget(asyncio.Lock()))


def test_a_pattern_of_more_than_twenty_terms_is_refused():
    parse_pattern("a " * 20)
    with pytest.raises(Invalid, match="it has 21 terms"):
        parse_pattern("a " * 21)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("pattern", ['"' * 1023, '"a"' * 340 + '"', "\\" * 1024 + '"', ('"\\' * 511) + " x"])
def test_the_longest_malformed_pattern_is_refused_quickly(pattern):
    with little_cpu(), pytest.raises(Invalid):
        parse_pattern(pattern)
