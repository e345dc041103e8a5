"""A data directory with any number of jobs, written by SQL because that is faster than running them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from batchq.domain.enums import Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, JobId, Tag, stream_name
from batchq.domain.job import Job
from batchq.ports.jobs import Changes
from batchq.store import job_writes, statements
from batchq.store.database import NAME
from batchq.store.groups import write_groups
from tests.support.builders import NOON, attempt, job, moment

FIRST = job(number=0, status=Status.SUCCEEDED, attempts=(attempt(started_at=NOON, stopped_at=NOON, exit_code=0),))
GROUP, GROUP_NAME = GroupId("g-" + 20 * "0"), "sweep"
WALK_TO = {Status.RUNNABLE: 1, Status.SUCCEEDED: 4}
WALK = [moment(FIRST, status=status) for status in (Status.SUBMITTED, Status.RUNNABLE, Status.STARTING, Status.RUNNING)]

# Copies of the first job: its row, its spec, its history and its stream, under ids and times of their own. The activity
# of all of them counts as recorded.
COPIES = """
CREATE TEMP TABLE numbers AS
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :last) SELECT n FROM counted;

INSERT INTO jobs (
    sequence, id, version, queue, status, passed_over, has_array_work, created_at, finished_at, owner, account, name,
    definition, revision, rank, millicpus, memory_mib, gpus, array_size, state
)
SELECT n, printf('%08x-0000-4000-8000-000000000000', n), version, queue, status, passed_over, has_array_work,
    created_at + n, finished_at + n, owner, account, name, definition, revision, rank, millicpus, memory_mib, gpus,
    array_size,
    replace(replace(state, id, printf('%08x-0000-4000-8000-000000000000', n)), '"sequence":0', '"sequence":' || n)
FROM numbers, jobs WHERE sequence = 0;

INSERT INTO job_specs (sequence, spec) SELECT n, spec FROM numbers, job_specs WHERE sequence = 0;

INSERT INTO job_history (sequence, value) SELECT n, value FROM numbers, job_history
WHERE sequence = 0 ORDER BY n, number;

INSERT INTO log_streams (name, created_at, owner, account, value)
SELECT stream_of(id), created_at * 1000, owner, account,
    '{"tag":{"job_id":"' || id || '","attempt":1},"created_at":"2026-11-21T12:00:00Z"}'
FROM jobs WHERE sequence > 0 AND finished_at IS NOT NULL;

INSERT INTO metadata (name, value) SELECT 'activity_through', CAST(max(number) AS TEXT) FROM job_history;
"""


def filled(data: Path, count: int, first: Job = FIRST) -> None:
    """Copy the first job so many times, one per microsecond; finished jobs have a log stream."""
    walk = (*WALK[: WALK_TO[first.status]], moment(first))
    data.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        statements.migrate(connection, statements.MIGRATIONS)
        connection.create_function("stream_of", 1, _stream_of, deterministic=True)
        job_writes.commit_changes(connection, Changes(inserted=(first,), history=walk))
        for statement in COPIES.split(";\n"):
            connection.execute(statement.replace(":last", str(count - 1)))


def make_group(data: Path, count: int) -> None:
    """Make the first jobs the group GROUP, which has ended."""
    group = Group(
        terms=GroupTerms(id=GROUP, name=GROUP_NAME, size=count),
        owner=FIRST.spec.owner,
        sequence=FIRST.sequence,
        created_at=FIRST.created_at,
        counts=((Status.SUCCEEDED, count),),
        ended_at=NOON,
    )
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        write_groups(connection, [group])
        connection.execute("UPDATE jobs SET group_id = ? WHERE sequence < ?", (GROUP, count))


def id_of(number: int) -> JobId:
    return JobId(f"{number:08x}-0000-4000-8000-000000000000")


def _stream_of(job_id: str) -> str:
    return stream_name(FIRST.spec.definition.name, Tag(job_id=JobId(job_id), attempt=1))
