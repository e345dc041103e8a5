"""The cost of finding the next candidate does not grow with the jobs of skipped accounts."""

import sqlite3
from contextlib import closing

import pytest

from batchq.domain.job import Status
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.store.many import filled
from tests.store.test_many_jobs import watched
from tests.support.builders import job

WAITS = job(number=0, status=Status.RUNNABLE)
LAB = frozenset({"lab"})


async def cost_of_passing(data, count):
    """All but the last two are the lab's."""
    filled(data, count, WAITS)
    with closing(sqlite3.connect(data / NAME)) as connection, connection:
        connection.execute("UPDATE jobs SET account = CASE WHEN ord < ? THEN 'lab' ELSE 'other' END", [count - 2])
    store = await SqliteStore.open(data)
    counter = await watched(store)
    before = counter.steps
    found = await store.runnable("default", 64, excluding=LAB)
    steps = counter.steps - before
    await store.close()
    assert [it.order for it in found] == [count - 2, count - 1]
    return steps


@pytest.mark.exhaustive
async def test_the_cost_of_skipping_an_account_does_not_grow_with_its_jobs(tmp_path):
    few = await cost_of_passing(tmp_path / "few", 100)

    assert await cost_of_passing(tmp_path / "many", 100_000) <= few + 3
