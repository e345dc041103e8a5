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
        found.append("".join(found_stream.stream.name[0] for found_stream in some))
        if after is None:
            return found
        if before_second_page and len(found) == 1:
            await before_second_page()


@pytest.mark.fault("CO10")
@pytest.mark.parametrize(
    ("order", "descending", "found"),
    [
        (StreamOrder.NAME, False, ["ab", "cd", "e"]),
        (StreamOrder.NAME, True, ["ed", "cb", "a"]),
        (StreamOrder.LAST_EVENT, True, ["bd", "ae", "c"]),
        (StreamOrder.LAST_EVENT, False, ["ce", "ad", "b"]),
    ],
)
@pytest.mark.usefixtures("five")
async def test_streams_are_listed_in_each_order_also_behind_a_deleted_stream(logs, store, order, descending, found):
    listing = StreamQuery(order=order, descending=descending)

    async def delete_the_last_of_the_first_page():
        store.connection.execute("DELETE FROM log_streams WHERE name = ?", (f"{found[0][1]}/default/0",))

    assert await pages(logs, listing) == found
    assert await pages(logs, listing, before_second_page=delete_the_last_of_the_first_page) == found


@pytest.mark.parametrize("descending", [True, False])
async def test_a_full_last_page_has_no_next_position(logs, five, descending):
    assert len(await pages(logs, StreamQuery(order=StreamOrder.NAME, descending=descending), limit=5)) == 1


@pytest.mark.parametrize("descending", [True, False])
async def test_only_streams_with_the_prefix_are_listed(logs, five, descending):
    assert await pages(logs, StreamQuery(order=StreamOrder.NAME, descending=descending, prefix="d/")) == ["d"]


async def test_without_streams_the_page_is_empty(logs):
    assert [await pages(logs, order) for order in (BY_NAME, NEWEST_FIRST)] == [[""], [""]]


async def test_new_streams_do_not_repeat_any_on_the_next_page(logs, five, running):
    async def more_come():
        for number in range(3):
            await running(name=f"{number}/default/0", created_at=NOON + timedelta(hours=1))

    assert await pages(logs, NEWEST_FIRST, before_second_page=more_come) == ["bd", "ae", "c"]


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
