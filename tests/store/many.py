"""A data directory with as many finished jobs as one likes, made by SQL: quicker than they would be run."""

import sqlite3
from contextlib import closing
from pathlib import Path

from batchq.domain.job import Status
from batchq.store import jobs, migrations
from batchq.store.database import NAME
from batchq.values import Changes
from tests.support.builders import NOON, attempt, job, log_stream, moment

AN_HOUR = 3_600_000_000  # microseconds
FIRST = job(number=0, status=Status.SUCCEEDED, attempts=(attempt(started_at=NOON, stopped_at=NOON, exit_code=0),))
WALK = [moment(FIRST, status=it) for it in (Status.SUBMITTED, Status.RUNNABLE, Status.STARTING, Status.RUNNING)]

# Copies of the first job: its row, what was asked for, its walk and its stream, under ids and times of their own.
COPIES = """
CREATE TEMP TABLE numbers AS
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :last) SELECT n FROM counted;

INSERT INTO jobs (
    ord, id, version, queue, status, misfit, name, definition, revision, created_at, millicpus, memory_mib, gpus, state,
    finished_at
)
SELECT n, printf('%08x-0000-4000-8000-000000000000', n), version, queue, status, misfit, name, definition, revision,
    created_at + n, millicpus, memory_mib, gpus,
    replace(replace(state, id, printf('%08x-0000-4000-8000-000000000000', n)), '"order":0', '"order":' || n),
    finished_at + n
FROM numbers, jobs WHERE ord = 0;

INSERT INTO specs (ord, spec) SELECT n, spec FROM numbers, specs WHERE ord = 0;

INSERT INTO history (ord, number, value) SELECT n, number, value FROM numbers, history WHERE ord = 0;

INSERT INTO streams (name, created_at, value)
SELECT name || n, created_at + n, value FROM numbers, (SELECT * FROM streams LIMIT 1);
"""


def filled(data: Path, count: int) -> None:
    """`count` SUCCEEDED jobs, one a microsecond, and as many log streams."""
    data.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        migrations.migrate(connection, migrations.STEPS)
        stream = log_stream(job(number=0, status=Status.RUNNING))
        jobs.commit(connection, Changes(inserted=(FIRST,), history=(*WALK, moment(FIRST)), streams=(stream,)))
        for statement in COPIES.split(";\n"):
            connection.execute(statement.replace(":last", str(count - 1)))
