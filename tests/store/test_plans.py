"""SQLite finds rows by an index, without a scan of the table and without sorting."""

import re
import sqlite3
from contextlib import closing

import pytest

from batchq.domain.enums import Status
from batchq.domain.job_selection import JobSelection
from batchq.ports.catalog import NeedQuery
from batchq.store import (
    activity,
    audit,
    bulk_stops,
    catalog,
    groups,
    history,
    index_ranges,
    job_reads,
    job_writes,
    lists,
    quarantine,
    retention,
    statements,
)
from batchq.store.statements import execute_each
from tests.support.builders import job_id

FILES = {
    "activity": activity.SQL,
    "audit": audit.SQL,
    "bulk_stops": bulk_stops.SQL,
    "catalog": catalog.SQL,
    "groups": groups.SQL,
    "history": history.SQL,
    "lists": lists.SQL,
    "job_reads": job_reads.SQL,
    "job_search": index_ranges.SQL,
    "job_writes": job_writes.SQL,
    "quarantine": quarantine.SQL,
    "retention": retention.SQL,
}
PREVIEW = "bulk_stops.preview"  # completed by `selecting`
STATEMENTS = {f"{file}.{name}": sql for file, statements in FILES.items() for name, sql in statements.items()}
del STATEMENTS[PREVIEW]

# These statements read all of a small table, or the first page of an index in their order.
WHOLE = {
    "bulk_stops.bulk_stops",
    "job_reads.consumed_units",
    "job_reads.share_usage",
    "quarantine.count",
}

# These read every job once: after damage of a share's usage, and when a server starts.
WHOLE |= {"job_reads.share_recount", "job_reads.count_of_dependencies"}

# These sort a few rows: the first ones of each account, or the dependents of several jobs.
FEW = {"job_reads.dependents", "job_reads.runnable_jobs_excluding", "job_reads.runnable_jobs_in_share_excluding"}

# This groups the entries of the history that one page reads.
FEW |= {"activity.events"}

# This groups the jobs that repeat one another.
FEW |= {"job_reads.newest_of_lines"}

# These sort the numbers of the revisions of one name after another.
DEFINITIONS = {f"catalog.job_definitions{suffix}" for suffix in ("", "_with_status", "_of_owner", "_of_account")}
FEW |= DEFINITIONS

# These read an index of all queued jobs, once, when a server starts.
COUNTED = {"job_reads.queued_by_account", "job_reads.unfinished_counts"}


@pytest.fixture(scope="module")
def plan():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    statements.migrate(connection, statements.MIGRATIONS)

    def plan(statement, bound):
        return [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]

    yield plan
    connection.close()


def named(statement):
    return dict.fromkeys(re.findall(r":(\w+)", statement), 1)


def test_every_statement_finds_its_rows_by_an_index_and_in_order(plan):
    # Results of the statement itself, its parameters, and tables that hardly ever have a row.
    few = ("walk", "waiting", "next", "named", "page", "quarantine", "recent", "CONSTANT", "earlier", "line", "listed")
    may_scan = tuple(f"SCAN {table}" for table in few)
    for name in STATEMENTS.keys() - WHOLE - COUNTED:
        steps = plan(STATEMENTS[name], named(STATEMENTS[name]))
        scanned = [step for step in steps if step.startswith("SCAN") and not step.startswith(may_scan)]
        sorted_steps = [] if name in FEW else [step for step in steps if "TEMP B-TREE" in step]
        assert scanned + sorted_steps == [], name


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_definitions_are_sorted_by_an_index_alone_and_name_by_name(plan, name):
    step, sort = plan(STATEMENTS[name], named(STATEMENTS[name]))

    assert re.fullmatch(r"SEARCH job_definitions USING COVERING INDEX \w+ \(.*name>\?\)", step)
    assert sort in {"USE TEMP B-TREE FOR RIGHT PART OF ORDER BY", "USE TEMP B-TREE FOR LAST TERM OF ORDER BY"}


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_queued_jobs_are_counted_in_indexes_alone(plan, name):
    steps = plan(STATEMENTS[name], {})

    of_jobs = [step for step in steps if re.match(r"(SCAN|SEARCH) (jobs|child)\b", step)]
    read = [step for step in of_jobs if "COVERING INDEX" not in step]
    assert len(of_jobs) == {"job_reads.queued_by_account": 5, "job_reads.unfinished_counts": 3}[name]
    small = ("jobs_unschedulable", "jobs_active")
    assert all(any(table in step for table in small) for step in read), steps


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_small_tables_are_read_in_order(plan, name):
    (step,) = plan(STATEMENTS[name], named(STATEMENTS[name]))

    assert re.fullmatch(r"SCAN \w+( USING (COVERING )?INDEX \w+)?", step)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job_reads.runnable_jobs", "COVERING INDEX jobs_runnable"),
        ("job_reads.unschedulable_jobs", "INDEX jobs_unschedulable"),
        ("job_reads.active_jobs", "INDEX jobs_active"),
        ("job_reads.arrays_with_work", "INDEX jobs_with_array_work"),
        ("lists.count_unfinished_in_queue", "COVERING INDEX jobs_by_status"),
    ],
)
def test_reads_of_the_engine_visit_only_the_rows_they_return(plan, name, index):
    steps = plan(STATEMENTS[name], named(STATEMENTS[name]))

    assert f"USING {index} " in steps[0]


def test_the_children_of_an_array_are_read_as_one_range(plan):
    statement = STATEMENTS["job_reads.unfinished_children"]
    children, spec = plan(statement, named(statement))

    assert children == "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
    assert spec == "SEARCH job_specs USING INTEGER PRIMARY KEY (rowid=?)"


def test_a_page_of_a_share_begins_by_a_seek(plan):
    steps = plan(job_reads.SQL["runnable_jobs_in_share"], named(job_reads.SQL["runnable_jobs_in_share"]))

    found = [step.removeprefix("SEARCH jobs USING COVERING INDEX jobs_runnable_in_share ") for step in steps]
    rest_of_this_rank, other_ranks = (
        "(queue=? AND share_identifier=? AND rank=? AND sequence>?)",
        "(queue=? AND share_identifier=? AND rank>?)",
    )
    assert found == ["MERGE (UNION ALL)", "LEFT", rest_of_this_rank, "RIGHT", other_ranks]


def test_shares_with_runnable_jobs_are_found_by_seeks(plan):
    steps = [
        step
        for step in plan(job_reads.SQL["shares_with_runnable_jobs"], named(job_reads.SQL["shares_with_runnable_jobs"]))
        if " jobs " in step
    ]

    jump = "SEARCH jobs USING COVERING INDEX jobs_runnable_in_share"
    assert steps == [f"{jump} (queue=? AND share_identifier>?)", f"{jump} (queue=? AND share_identifier>?)"]


@pytest.mark.parametrize("status", [None, Status.RUNNING])
@pytest.mark.parametrize("name", [None, "a", "a*"])
def test_jobs_that_require_a_resource_are_read_newest_first(plan, status, name):
    query = NeedQuery(resource="a", status=status, name=name, limit=10)

    walk, look = plan(*lists.select_requiring(query))

    assert walk == "SEARCH needed USING PRIMARY KEY (resource=? AND sequence<?)"
    assert look == "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"


# ---------------------------------------------------------------------------------------------- targets of a bulk stop

SOME = frozenset({"a"})
NAMED = tuple(job_id(number) for number in range(3))


@pytest.mark.parametrize(
    ("selection", "index"),
    [
        (JobSelection(users=SOME, names=SOME), "SEARCH jobs USING INDEX jobs_unfinished (owner=?)"),
        (JobSelection(queues=SOME), "SCAN jobs USING INDEX jobs_unfinished"),
        (JobSelection(environments=SOME), "SEARCH jobs USING INDEX jobs_active (status=?)"),
        (JobSelection(statuses=frozenset({Status.RUNNING})), "SEARCH jobs USING INDEX jobs_active (status=?)"),
        (JobSelection(children=True), "SCAN jobs USING INDEX jobs_unfinished"),
    ],
)
def test_a_bulk_stop_selects_targets_without_reading_finished_jobs(plan, selection, index):
    first, *_ = plan(*bulk_stops.select_targets(selection))

    assert first.startswith(index)


def test_named_targets_are_found_by_their_ids(plan):
    steps = plan(*bulk_stops.select_targets(JobSelection(ids=NAMED, children=True)))

    scanned = [step for step in steps if " jobs " in step or " array " in step]
    assert all(step.startswith("SEARCH") for step in scanned), steps


OUT_OF_ORDER = "INSERT INTO kept (b, a, c) VALUES (:b, :a, :b || :c)"
ROWS = [{"a": 1, "b": "b", "c": "c", "beside": 0}, {"beside": 0, "c": "z", "b": "y", "a": None}]


def test_named_parameters_are_bound_in_any_order_and_repeatedly():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE kept (a, b, c)")

        written = execute_each(connection, OUT_OF_ORDER, ROWS)

        assert written == 2
        assert list(connection.execute("SELECT a, b, c FROM kept")) == [(1, "b", "bc"), (None, "y", "yz")]
