"""The CPU of a commit of five history entries, against a table with numbers within each job."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.ports.history import FeedFilter
from batchq.store import history, rows, statements
from batchq.store.statements import Begin, execute_each, run_transaction
from tests.bench.figures import Figure, Scale, at_most, compared, within
from tests.support.builders import job, moment

ENTRIES = 5  # of one commit
PAGE = 500  # entries
OF_JOBS = (
    "CREATE TABLE of_jobs (sequence INTEGER, number INTEGER, value TEXT, PRIMARY KEY (sequence, number)) WITHOUT ROWID"
)
INSERT = """INSERT INTO of_jobs (sequence, number, value)
VALUES (:sequence, (SELECT coalesce(max(number) + 1, 0) FROM of_jobs WHERE sequence = :sequence), :value)"""


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with (
        closing(_database(folder / "feed", scale.rows)) as feed,
        closing(_database(folder / "jobs", scale.rows)) as old,
    ):
        old.execute(OF_JOBS)
        yield compared(
            scale.pairs,
            lambda: _commits(old, scale, _insert_into_table_of_jobs),
            lambda: _commits(feed, scale, _insert_into_feed),
            name=f"us of CPU of a commit of {ENTRIES} history entries",
            against="numbers within each job",
            goal=at_most(1.05),
        )
        yield Figure(
            name=f"ms to read {PAGE} entries of the feed",
            measured=[_page(feed) for _ in range(scale.pairs)],
            goal=within(10),
        )


def _database(path: Path, jobs: int) -> sqlite3.Connection:
    """A database with rows of jobs, so that the history may refer to them."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # the same sync follows both
    statements.migrate(connection, statements.MIGRATIONS)
    connection.execute("PRAGMA foreign_keys = ON")
    first = job(number=0)
    row, spec = rows.new_job_row(first), rows.spec_row(first)
    columns = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    run_transaction(
        Begin.WRITING,
        lambda value: value.executemany(
            f"INSERT INTO jobs ({columns}) VALUES ({values})",
            ({**row, "sequence": number, "id": f"{number:08x}"} for number in range(jobs)),
        ),
        connection,
    )
    connection.execute("INSERT INTO job_specs (sequence, spec) SELECT sequence, ? FROM jobs", [spec["spec"]])
    return connection


def _commits(connection: sqlite3.Connection, scale: Scale, insert: Callable[[sqlite3.Connection, int], None]) -> float:
    """Microseconds of CPU of one commit: each has an entry of each of five jobs, and each job comes five times."""
    began = time.process_time()
    for commit in range(scale.rows):
        first = commit // ENTRIES * ENTRIES % (scale.rows - ENTRIES)
        run_transaction(Begin.WRITING, lambda value, first=first: insert(value, first), connection)
    return (time.process_time() - began) / scale.rows * 1e6


ENTRY = moment(job(number=0), status=Status.RUNNING, attempt=1)


def _insert_into_feed(connection: sqlite3.Connection, first: int) -> None:
    orders = {JobId(str(number)): first + number for number in range(ENTRIES)}
    history.insert_entries(connection, [replace(ENTRY, job_id=order) for order in orders], orders)


def _insert_into_table_of_jobs(connection: sqlite3.Connection, first: int) -> None:
    orders = {JobId(str(number)): first + number for number in range(ENTRIES)}
    entries = [replace(ENTRY, job_id=order) for order in orders]
    new = [{"sequence": orders[entry.job_id], "value": rows.moment_value(entry)} for entry in entries]
    execute_each(connection, INSERT, new)


def _page(connection: sqlite3.Connection) -> float:
    began = time.process_time()
    page = history.feed(connection, 0, FeedFilter(), limit=PAGE, scan=PAGE)
    assert page.entries
    return (time.process_time() - began) * 1000
