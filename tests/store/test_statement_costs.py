"""The cost of statements in steps of SQLite, while many jobs of other users wait."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.domain.enums import Status, StopKind
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.engine.mailbox import BulkStopRequest
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.store import job_reads, job_writes, statements
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.engine.harness import LoopHarness, catalog_of
from tests.store.many import GROUP, filled, make_group
from tests.store.test_many_jobs import EACH, Counter, watched
from tests.support.builders import ADMIN, job, job_id

PATTERNS = frozenset(f"no-such-{number}*" for number in range(100))
REACHES = [Visibility(user="ann"), Visibility(user="cora", accounts=frozenset({"lab", "team"}))]


async def costs(data, count):
    """The steps of SQLite in the read and in the commit of each order, while so many jobs of others wait."""
    filled(data, count, job(number=0, status=Status.RUNNABLE))
    store = await SqliteStore.open(data)
    harness, costs = LoopHarness(store, catalog_of()), []
    await harness.loop.load()
    for visibility in REACHES:
        selection = JobSelection(names=PATTERNS, statuses=frozenset({Status.RUNNABLE}), visibility=visibility)
        for connection in (store._database._browser.connection, store._database._writer):
            await connection.set_progress_handler(counter := Counter(), EACH)
            costs.append(counter)
        answer = asyncio.get_running_loop().create_future()
        order = StopRequest(kind=StopKind.CANCEL, reason="all")
        await harness.process(
            BulkStopRequest(
                request=order,
                selection=selection,
                as_of=count,
                report=lambda _: None,
                candidates=await harness.loop.candidate_reader.candidates(selection),
                answer=answer,
                caller=ADMIN,
            )
        )
        await answer
    await store.close()
    return [other_cost.steps for other_cost in costs]


@pytest.mark.fault("SE25")
async def test_the_cost_of_a_bulk_stop_does_not_grow_with_jobs_of_others(tmp_path):
    few = await costs(tmp_path / "few", 10)

    many = await costs(tmp_path / "many", 5_000)

    assert [cost for cost, before in zip(many, few, strict=True) if cost > before + 3] == []


WAITS = job(number=0, status=Status.RUNNABLE)
LAB = frozenset({"lab"})


async def cost_of_passing(data, count):
    """All but the last two are the lab's."""
    filled(data, count, WAITS)
    with closing(sqlite3.connect(data / NAME)) as connection, connection:
        connection.execute("UPDATE jobs SET account = CASE WHEN sequence < ? THEN 'lab' ELSE 'other' END", [count - 2])
    store = await SqliteStore.open(data)
    counter = await watched(store)
    before = counter.steps
    found = await store.runnable("default", 64, excluding=LAB)
    steps = counter.steps - before
    await store.close()
    assert [other_job.sequence for other_job in found] == [count - 2, count - 1]
    return steps


@pytest.mark.exhaustive
async def test_the_cost_of_skipping_an_account_does_not_grow_with_its_jobs(tmp_path):
    few = await cost_of_passing(tmp_path / "few", 100)

    assert await cost_of_passing(tmp_path / "many", 100_000) <= few + 3


ENDED = [job_id(number) for number in range(5)]


def cost(count):
    """The steps of SQLite in a page of 10, while so many wait for each of the jobs that have ended."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    statements.migrate(connection, statements.MIGRATIONS)
    waits = [(ended, order) for ended in ENDED for order in range(count)]
    connection.executemany(
        job_writes.SQL["insert_dependency"], [{"dependency_id": on, "sequence": order} for on, order in waits]
    )
    connection.set_progress_handler(counter := Counter(), EACH)
    job_reads.dependents(connection, ENDED, limit=10)
    connection.close()
    return counter.steps


@pytest.mark.fault("CO11")
async def test_the_cost_of_a_job_of_a_group_does_not_grow_with_the_page(tmp_path):
    """Whether a newer job repeats the same one is looked up by that one, not in the newer jobs of the group."""
    filled(tmp_path, 2000)
    make_group(tmp_path, 2000)
    store = await SqliteStore.open(tmp_path)
    counter = await watched(store)
    group = JobSelection(groups=frozenset({GROUP}))

    few, many = [await counter.cost(store.search(PageQuery(selection=group, limit=limit))) for limit in (100, 1000)]

    await store.close()
    assert many < 15 * few


def test_the_cost_of_a_page_of_dependents_does_not_grow_with_waiting_jobs():
    assert cost(5_000) <= cost(50) + 3


PAGE = 24 + 4096  # bytes of the log of writes


async def test_an_update_without_searched_changes_writes_only_the_row(store, tmp_path):
    before = job(status=Status.STARTING)
    await store.commit(Changes(inserted=(before,)))
    log = tmp_path / f"{NAME}-wal"
    size = log.stat().st_size

    await store.commit(Changes(updated=(replace(before, status_reason="made"),)))

    assert log.stat().st_size == size + PAGE
