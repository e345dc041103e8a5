"""The cost of a page of dependents grows with the page, not with the waiting jobs."""

import sqlite3

import pytest

from batchq.store import job_reads, job_writes, migrations
from tests.store.test_many_jobs import EACH, Counter
from tests.support.builders import job_id

ENDED = [job_id(number) for number in range(5)]


def cost(count):
    """The steps of SQLite in a page of 10, while so many wait for each of the jobs that have ended."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrations.migrate(connection, migrations.STEPS)
    waits = [(ended, order) for ended in ENDED for order in range(count)]
    connection.executemany(
        job_writes.SQL["insert_dependency"], [{"dependency_id": on, "ord": order} for on, order in waits]
    )
    connection.set_progress_handler(counter := Counter(), EACH)
    job_reads.dependents(connection, ENDED, -1, 10)
    connection.close()
    return counter.steps


@pytest.mark.fault("CO11")
def test_the_cost_of_a_page_of_dependents_does_not_grow_with_waiting_jobs():
    assert cost(5_000) <= cost(50) + 3
