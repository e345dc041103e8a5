"""Transactions are atomic and isolated, whichever caller is cancelled or fails."""

import asyncio
import sqlite3
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.domain.job_selection import JobSelection
from batchq.errors import Conflict, StoreFailed, StoreLost
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.store.conftest import Gate
from tests.support.builders import NOON, definition, job, job_id, moment, submission
from tests.support.examples import examples
from tests.support.inline import InlineDatabase

STATEMENTS_OF_A_SUBMISSION = 7


def submitted(number):
    """A job, its history, its wait and its key: seven statements, BEGIN and COMMIT among them."""
    new = job(number=number, depends_on=[job_id(10**6)])
    key = submission(invocation_id=str(number))
    return Changes(inserted=(new,), history=(moment(new),), submissions=((key, new.id, NOON),))


async def parts_kept(store, number):
    """Which of the job, its history, its wait and its key are there."""
    waiting = {dependent.sequence for dependent in await store.dependents([job_id(10**6)])}
    return {
        bool(await store.jobs([job_id(number)])),
        bool(await store.history(job_id(number))),
        bool(await store.submissions([submission(invocation_id=str(number))])),
        number in waiting,
    }


# ------------------------------------------------------------------------------------------------------- cancellation


@pytest.mark.fault("DB01")
@pytest.mark.parametrize("steps", range(8))
async def test_a_cancelled_commit_is_atomic(store, writer, steps):
    commit = asyncio.ensure_future(store.commit(submitted(1)))
    for _ in range(steps):
        await asyncio.sleep(0)

    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)

    await store.commit(submitted(2))
    assert writer.in_transaction is False
    assert len(await parts_kept(store, 1)) == 1
    assert await parts_kept(store, 2) == {True}


@pytest.mark.fault("DB01")
@pytest.mark.parametrize("number", range(STATEMENTS_OF_A_SUBMISSION))
async def test_a_commit_cancelled_before_its_first_statement_is_complete(store, writer, number):
    async with Gate(writer, number) as gate:
        commit = asyncio.ensure_future(store.commit(submitted(1)))
        await gate.reached.wait()

        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        gate.open()
        await store.commit(submitted(2))

    assert commit.cancelled()
    assert writer.in_transaction is False
    assert await parts_kept(store, 1) == {True}
    assert await parts_kept(store, 2) == {True}


@pytest.mark.fault("DB01")
async def test_a_cancelled_read_does_not_disturb_the_next(store):
    await store.commit(submitted(1))
    async with Gate(store._database._reader.connection) as gate:
        read = asyncio.ensure_future(store.active())
        await gate.reached.wait()

        read.cancel()
        await asyncio.gather(read, return_exceptions=True)

    assert await parts_kept(store, 1) == {True}


# ------------------------------------------------------------------------------------------------------------ failure


@pytest.mark.fault("DB02")
async def test_a_failed_commit_does_not_fail_another(store):
    await store.commit(Changes(inserted=(job(number=0),)))
    commits = [
        store.commit(Changes(inserted=(job(number=number),), updated=(job(number=0, version=number % 2 * 99),)))
        for number in range(1, 41)
    ]

    outcomes = await asyncio.gather(*commits, return_exceptions=True)

    acked = [number for number, outcome in enumerate(outcomes, start=1) if outcome is None]
    kept = await store.jobs([job_id(number) for number in range(1, 41)])
    assert acked == [2]
    assert {type(outcome) for outcome in outcomes if outcome is not None} == {Conflict}
    assert [other_job.sequence for other_job in kept.values()] == [2]


@pytest.mark.fault("DB03")
async def test_a_commit_on_a_full_disk_is_rolled_back_and_can_be_repeated(store, writer):
    known = job(number=10)
    await store.commit(Changes(inserted=(known,)))
    ((pages,),) = await writer.execute_fetchall("PRAGMA page_count")
    await writer.execute_fetchall(f"PRAGMA max_page_count = {pages}")
    much = replace(known, status=Status.FAILED, status_reason="x" * 100_000)

    with pytest.raises(StoreFailed, match="full"):
        await store.commit(Changes(inserted=(job(number=11),), updated=(much,)))
    there = await store.jobs([known.id, job_id(11)])
    await writer.execute_fetchall("PRAGMA max_page_count = 1000000")
    await store.commit(Changes(updated=(much,)))

    assert there == {known.id: known}
    assert await store.jobs([known.id]) == {known.id: replace(much, version=1)}


async def test_an_order_out_of_the_column_range_is_rolled_back(store):
    with pytest.raises(StoreFailed):
        await store.commit(Changes(inserted=(job(number=1), job(sequence=2**63))))

    assert await store.last_sequence() == -1


# ------------------------------------------------------------------------------------------------------ another writer


async def test_a_commit_waits_for_another_program_that_writes(store, writer, tmp_path):
    await writer.execute_fetchall("PRAGMA busy_timeout = 100000")  # longer than any test
    other = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    commit = asyncio.ensure_future(store.commit(submitted(1)))
    done, _ = await asyncio.wait({commit}, timeout=0.1)
    other.execute("ROLLBACK")
    other.close()
    await commit

    assert done == set()
    assert await parts_kept(store, 1) == {True}


@pytest.mark.fault("DB02")
async def test_no_other_writer_runs_inside_a_transaction(store, writer, tmp_path):
    await store.add_definition(definition(name="a"), caller=None)
    other = sqlite3.connect(tmp_path / NAME, isolation_level=None, timeout=0)
    async with Gate(writer, 2) as gate:  # after BEGIN and the last revision, before the INSERT
        adding = asyncio.ensure_future(store.add_definition(definition(name="a"), caller=None))
        await gate.reached.wait()

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("DELETE FROM job_definitions")
        gate.open()
        added = await adding
    other.close()

    assert added.ref.revision == 2


@pytest.mark.fault("DB07")
async def test_a_commit_waits_a_limited_time_for_another_writer(store, writer, tmp_path):
    await writer.execute_fetchall("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreFailed, match="locked"):
        await store.commit(submitted(1))
    other.close()
    await store.commit(submitted(2))

    assert await parts_kept(store, 1) == {False}
    assert await parts_kept(store, 2) == {True}


async def test_a_read_during_a_commit_sees_the_state_before_it(store, writer):
    async with Gate(writer, STATEMENTS_OF_A_SUBMISSION - 1) as gate:
        commit = asyncio.ensure_future(store.commit(submitted(1)))
        await gate.reached.wait()

        before = await parts_kept(store, 1)
        gate.open()
        await commit

    assert before == {False}
    assert await parts_kept(store, 1) == {True}


LIST = PageQuery(selection=JobSelection(statuses=frozenset({Status.RUNNING})), limit=10)
SEARCH = PageQuery(limit=10)


async def jobs_of(read):
    return (await read).jobs


@pytest.mark.parametrize(
    ("reader", "slow", "others"),
    [
        ("_browser", lambda value: value.list(LIST), [lambda value: value.active()]),
        (
            "_searcher",
            lambda store: store.search(SEARCH),
            [lambda value: value.active(), lambda value: jobs_of(value.list(LIST))],
        ),
    ],
    ids=["list", "search"],
)
async def test_other_reads_do_not_wait_for_a_long_one(store, reader, slow, others):
    running = job(number=1, status=Status.RUNNING)
    await store.commit(Changes(inserted=(running,)))
    async with Gate(getattr(store._database, reader).connection) as gate:
        reading = asyncio.ensure_future(slow(store))
        await gate.reached.wait()

        found = [await other(store) for other in others]
        gate.open()
        last = await reading

    assert found == [(running,)] * len(others)
    assert getattr(last, "jobs", last) == (running,)


@pytest.mark.fault("DB08")
async def test_a_removed_database_accepts_no_commits(store, tmp_path):
    await store.commit(submitted(1))
    await store.check()
    (tmp_path / NAME).unlink()

    with pytest.raises(StoreFailed, match="removed or replaced"):
        await store.commit(submitted(2))
    with pytest.raises(StoreFailed, match="removed or replaced"):
        await store.check()


async def test_a_lost_writer_thread_is_reported(store, writer):
    its_own = writer._thread
    writer._thread = threading.Thread()  # one that does not run: only its own may close the connection in the end

    with pytest.raises(StoreLost, match="a thread of"):
        await store.check()

    writer._thread = its_own


async def test_a_close_waits_for_running_transactions(store, tmp_path):
    commit = asyncio.ensure_future(store.commit(submitted(1)))
    await asyncio.sleep(0)

    await store.close()
    await commit

    with pytest.raises(StoreFailed):
        await store.commit(submitted(2))
    with sqlite3.connect(tmp_path / NAME) as left:
        assert left.execute("SELECT sequence FROM jobs").fetchall() == [(1,)]
    left.close()


# -------------------------------------------------------------------------------------------------------------- reads


def counted(connection):
    (count,) = connection.execute("SELECT count(*) FROM metadata").fetchone()
    return count


async def test_a_read_of_several_statements_sees_one_snapshot(store, tmp_path):
    def twice(connection):
        first = counted(connection)
        with sqlite3.connect(tmp_path / NAME) as other:
            other.execute("INSERT INTO metadata (name, value) VALUES ('meanwhile', '')")
        other.close()
        return first, counted(connection)

    before, after = await store._database.read(twice)

    assert before == after
    assert await store._database.read(counted) == before + 1


async def test_a_read_connection_cannot_write(store):
    with pytest.raises(StoreFailed, match="readonly"):
        await store._database.read(lambda connection: connection.execute("DELETE FROM metadata"))


ID = job_id(1)


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=30)


class Writer:
    """Writes down its name and a number, after what it read."""

    def __init__(self, name, store):
        self._name, self._store = name, store
        self._read = None
        self.acknowledged = []

    async def step(self, *, reads):
        if reads or self._read is None:
            self._read = (await self._store.jobs([ID]))[ID]
            return
        mark = (self._name, str(len(self.acknowledged)))
        try:
            await self._store.commit(Changes(updated=(replace(self._read, tags=(*self._read.tags, mark)),)))
        except Conflict:
            return
        self.acknowledged.append(mark)


async def play(steps):
    """The stored value at the end, and the acknowledged value of each writer."""
    store = SqliteStore(InlineDatabase())
    await store.commit(Changes(inserted=(job(number=1),)))
    writers = {name: Writer(name, store) for name in "ab"}
    for name, reads in steps:
        await writers[name].step(reads=reads)
    kept = (await store.jobs([ID]))[ID].tags
    await store.close()
    return kept, [mark for writer in writers.values() for mark in writer.acknowledged]


@pytest.mark.fault("DB02")
@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_concurrent_updates_keep_exactly_the_acknowledged_writes(steps):
    kept, acknowledged = asyncio.run(play(steps))

    assert sorted(kept) == sorted(acknowledged)
