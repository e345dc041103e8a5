"""Users take turns at the threads that read the database."""

import asyncio

import pytest

from batchq.domain.lifecycle.views import PendingArrayOrders
from batchq.errors import StoreFailed
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.services.job_reads import PendingOrdersView
from batchq.store.sqlite_store import SqliteStore
from batchq.system.turns import SERVER, working_for
from tests.store.conftest import Gate
from tests.support.builders import job

pytestmark = pytest.mark.fault("SE25")


class Reads:
    """Starts reads, which run in the order of `done`."""

    def __init__(self, database):
        self._database = database
        self.done = []

    def start(self, user, count=1):
        with working_for(user):
            return [asyncio.ensure_future(self._read(f"{user or 'server'} {number}")) for number in range(count)]

    async def _read(self, name):
        await self._database.browse(lambda _: self.done.append(name))


@pytest.fixture
def reads(store):
    return Reads(store._database)


@pytest.fixture
async def gate(store):
    """Stops the thread of lists before its next statement."""
    return Gate(store._database._browser.connection)


async def test_many_reads_of_one_user_delay_another_user_by_two(reads, gate):
    async with gate:
        tasks = reads.start("eve", 12)
        await gate.reached.wait()
        tasks += reads.start("ann", 2) + reads.start("bob")
        gate.open()
        await asyncio.gather(*tasks)

    assert reads.done[:6] == ["eve 0", "eve 1", "ann 0", "bob 0", "eve 2", "ann 1"]
    assert reads.done[6:] == [f"eve {number}" for number in range(3, 12)]


async def test_the_server_reads_before_all_users(reads, gate):
    async with gate:
        tasks = reads.start("eve", 3)
        await gate.reached.wait()
        tasks += reads.start(SERVER, 2)
        gate.open()
        await asyncio.gather(*tasks)

    assert reads.done == ["eve 0", "server 0", "server 1", "eve 1", "eve 2"]


async def test_a_cancelled_read_keeps_its_turn_until_its_thread_is_free(reads, gate):
    """Else a user could queue reads at the thread, by disconnecting."""
    async with gate:
        running, waiting, *others = reads.start("eve", 3)
        await gate.reached.wait()
        running.cancel()
        waiting.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        others += reads.start("ann", 1) + reads.start(SERVER, 1)
        gate.open()
        await asyncio.gather(*others)

    assert reads.done == ["eve 0", "server 0", "ann 0", "eve 2"]


async def test_a_failed_read_ends_its_turn(store, reads):
    with pytest.raises(StoreFailed):
        await store._database.browse(lambda connection: connection.execute("SELECT no_column"))
    await asyncio.gather(*reads.start("ann"))
    assert reads.done == ["ann 0"]


async def test_a_read_that_is_cancelled_as_its_turn_begins_passes_the_turn_on(reads):
    first, second, third = reads.start("eve", 3)
    await first
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await third

    assert (reads.done[0], reads.done[-1]) == ("eve 0", "eve 2")


async def test_a_list_of_many_jobs_is_read_in_several_turns(store, monkeypatch):
    monkeypatch.setattr("batchq.services.job_reads.SLICE", 2)
    await store.commit(Changes(inserted=tuple(job(number=number) for number in range(7))))
    query, limits = PageQuery(limit=5), []

    async def read(query):
        limits.append(query.limit)
        return await SqliteStore.list(store, query)

    monkeypatch.setattr(store, "list", read)
    page = await PendingOrdersView(store, PendingArrayOrders, lambda: None).list(query)

    assert limits == [2, 2, 1]
    assert page == await SqliteStore.list(store, query)
