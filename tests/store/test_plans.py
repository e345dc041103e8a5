"""How SQLite finds what it is asked for: by an index, never by looking at every row, and without sorting."""

import re
import sqlite3

import pytest

from batchq.domain.job import Status
from batchq.store import catalog, jobs, listing, migrations
from batchq.values import Filter, JobQuery

STATEMENTS = {f"jobs.{name}": sql for name, sql in jobs.SQL.items()}
STATEMENTS |= {f"catalog.{name}": sql for name, sql in catalog.SQL.items()}

# These tell all of a small table, or the first page of an index that is in their order.
WHOLE = {
    "catalog.consumables",
    "catalog.environments",
    "catalog.policies",
    "catalog.queues",
    "jobs.newest_streams",
    "jobs.shares",
    "jobs.used_up",
}


@pytest.fixture
def plan():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrations.migrate(connection, migrations.STEPS)

    def plan(statement, bound):
        return [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]

    yield plan
    connection.close()


def named(statement):
    return dict.fromkeys(re.findall(r":(\w+)", statement), 1)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - WHOLE))
def test_every_statement_finds_its_rows_by_an_index_and_in_order(plan, name):
    steps = plan(STATEMENTS[name], named(STATEMENTS[name]))

    found_so_far = "SCAN waiting"  # what a statement has itself found is no table
    looked_at = [step for step in steps if step.startswith("SCAN") and step != found_so_far]
    assert looked_at + [step for step in steps if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_is_told_whole_is_read_in_order(plan, name):
    (step,) = plan(STATEMENTS[name], named(STATEMENTS[name]))

    assert re.fullmatch(r"SCAN \w+( USING (COVERING )?INDEX \w+)?", step)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("runnable", "COVERING INDEX jobs_runnable"),
        ("misfits", "INDEX jobs_misfits"),
        ("active", "INDEX jobs_active"),
        ("runnable_in_share", "COVERING INDEX jobs_runnable_in_share"),
        ("parents_at_work", "INDEX jobs_at_work"),
        ("unfinished_in", "COVERING INDEX jobs_by_status"),
    ],
)
def test_what_the_engine_asks_reads_only_the_rows_it_gets(plan, name, index):
    steps = plan(jobs.SQL[name], named(jobs.SQL[name]))

    assert f"USING {index} " in steps[0]


LISTS = [(None, by) for by in [None, *Filter]] + [(Status.RUNNING, None), (Status.RUNNING, Filter.SHARE_IDENTIFIER)]


@pytest.mark.parametrize("value", ["a", "a*", "a:1", "5"])
@pytest.mark.parametrize(("status", "by"), LISTS)
def test_every_list_is_read_in_an_index_alone_whatever_its_filter(plan, status, by, value):
    query = JobQuery(queue="default", status=status, filter=by, values=(value, "b"), limit=10)

    (step,) = plan(*listing.select(query))

    index = "jobs_by_queue (queue=? AND ord<?)" if status is None else "jobs_by_status (queue=? AND status=? AND ord<?)"
    assert step == f"SEARCH jobs USING COVERING INDEX {index}"
