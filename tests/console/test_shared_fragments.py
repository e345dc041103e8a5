"""Live parts of pages are rendered once a second for all requests of a user."""

import asyncio
from http import HTTPStatus

import pytest

from batchq.api.console.live_updates import SHARED_FOR, Fragment, SharedFragments
from batchq.errors import StoreFailed
from tests.console.test_hints import Events, on_a_virtual_clock
from tests.console.test_live import PEOPLE, submit_as
from tests.console.test_login import visitor_of
from tests.support.clock import VirtualClock


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
        return Fragment.of(str(self.renderings), HTTPStatus.OK)


@pytest.fixture
async def visitor(tmp_path):
    async with visitor_of(tmp_path / "data", PEOPLE) as visitor:
        yield visitor


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
    assert [type(it) for it in results] == [StoreFailed] * 2


async def test_two_users_never_share_the_live_part_of_a_page(visitor):
    job_id = await submit_as(visitor, "ada")
    await visitor.log_in("ada")
    own = await visitor.open("/ui/jobs", X_Fragment="live")
    visitor.cookie = None
    await visitor.log_in("bob")
    other = await visitor.open("/ui/jobs", X_Fragment="live")
    assert (job_id in own.body, job_id in other.body) == (True, False)
