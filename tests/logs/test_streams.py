"""Pages of log streams in each order."""

from datetime import timedelta

import pytest

from batchq.logs.pages import StreamOrder, StreamQuery
from tests.logs.fakes import SECOND
from tests.support.builders import ADMIN, NOON

BY_NAME = StreamQuery(order=StreamOrder.NAME, descending=False)
NEWEST_FIRST = StreamQuery(order=StreamOrder.LAST_EVENT, descending=True)


@pytest.fixture
async def five(running):
    """Made in the order c, e, a, d, b, a second between them."""
    return [
        await running(name=f"{name}/default/0", created_at=NOON + timedelta(seconds=number))
        for number, name in enumerate("ceadb")
    ]


async def pages(logs, listing, *, limit=2, before_second_page=None):
    found, after = [], None
    while True:
        some, after = await logs.streams(listing, after=after, limit=limit, caller=ADMIN)
        found.append("".join(it.stream.name[0] for it in some))
        if after is None:
            return found
        if before_second_page and len(found) == 1:
            await before_second_page()


@pytest.mark.parametrize(
    ("order", "descending", "found"),
    [
        (StreamOrder.NAME, False, ["ab", "cd", "e"]),
        (StreamOrder.NAME, True, ["ed", "cb", "a"]),
        (StreamOrder.LAST_EVENT, True, ["bd", "ae", "c"]),
        (StreamOrder.LAST_EVENT, False, ["ce", "ad", "b"]),
    ],
)
async def test_streams_are_listed_in_each_order(logs, five, order, descending, found):
    assert await pages(logs, StreamQuery(order=order, descending=descending)) == found


@pytest.mark.parametrize("descending", [True, False])
async def test_a_full_last_page_has_no_next_position(logs, five, descending):
    assert len(await pages(logs, StreamQuery(order=StreamOrder.NAME, descending=descending), limit=5)) == 1


@pytest.mark.parametrize("descending", [True, False])
async def test_only_streams_with_the_prefix_are_listed(logs, five, descending):
    assert await pages(logs, StreamQuery(order=StreamOrder.NAME, descending=descending, prefix="d/")) == ["d"]


async def test_without_streams_the_page_is_empty(logs):
    assert [await pages(logs, it) for it in (BY_NAME, NEWEST_FIRST)] == [[""], [""]]


async def test_new_streams_do_not_repeat_any_on_the_next_page(logs, five, running):
    async def more_come():
        for number in range(3):
            await running(name=f"{number}/default/0", created_at=NOON + timedelta(hours=1))

    assert await pages(logs, NEWEST_FIRST, before_second_page=more_come) == ["bd", "ae", "c"]


@pytest.mark.fault("CO10")
@pytest.mark.parametrize("order", StreamOrder)
@pytest.mark.parametrize("descending", [True, False])
async def test_a_list_continues_behind_a_deleted_stream(logs, five, store, order, descending):
    listing = StreamQuery(order=order, descending=descending)
    whole = "".join(await pages(logs, listing))

    async def last_of_first_page_is_deleted():
        store.connection.execute("DELETE FROM log_streams WHERE name = ?", (f"{whole[1]}/default/0",))

    found = await pages(logs, listing, before_second_page=last_of_first_page_is_deleted)

    assert found == [whole[:2], whole[2:4], whole[4]]


async def test_streams_with_the_same_time_are_listed_once(logs, running):
    for name in "caedb":
        await running(name=f"{name}/default/0", created_at=NOON)

    assert await pages(logs, NEWEST_FIRST) == ["ed", "cb", "a"]


async def test_a_stream_has_its_first_and_last_times_and_size(logs, running, engine):
    stream = await running()
    engine.write(stream.tag, "a", "b", at=SECOND)
    await logs.capture(stream.tag)

    ((summary,), _) = await logs.streams(BY_NAME, after=None, limit=5, caller=ADMIN)

    assert (summary.stream, summary.first, summary.last) == (stream, SECOND, SECOND + 1)
    assert summary.size >= 2


async def test_an_empty_stream_has_no_times(logs, running):
    await running()

    ((summary,), _) = await logs.streams(BY_NAME, after=None, limit=5, caller=ADMIN)

    assert (summary.first, summary.last, summary.size) == (None, None, 0)
