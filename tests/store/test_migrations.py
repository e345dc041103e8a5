"""Data that an earlier batchq wrote is taken over whole."""

import json
import sqlite3
from datetime import timedelta

import pytest

from batchq.domain.job import Child, Dependency, DependencyType, Family, Status
from batchq.domain.names import DefinitionRef, QueueName, child_id
from batchq.store import migrations
from batchq.store.database import NAME
from batchq.store.sqlite import SqliteStore
from batchq.values import Changes, Filter, JobQuery, NeedQuery
from tests.support.builders import NOON, attempt, job, job_id, queue, submission

DEFAULT = QueueName("default")

# As the first batchq wrote them.
INSERT_JOB = """
INSERT INTO jobs VALUES (:ord, :id, 3, 'default', :status, :misfit, 'a-job', 'a-definition', 1, :share, 1795262400000,
    1000, 128, 0, :state)
"""
SPEC = {
    "name": "A-job",
    "queue": "default",
    "definition": {"name": "a-definition", "revision": 1},
    "container": {
        "image": "batchq-test:latest",
        "resources": {"millicpus": 1000, "memory_mib": 128},
        "command": ["true"],
    },
    "stop_grace": "PT30S",
}
STATE = {"created_at": "2026-11-21T12:00:00Z", "version": 3}


def before(number, status, *, share=None, misfit=0, state=None, spec=None):
    carried = {"id": job_id(number), "order": number, **STATE, "status": status, **(state or {})}
    return {
        "ord": number,
        "id": job_id(number),
        "status": status,
        "misfit": misfit,
        "share": share,
        "state": json.dumps(carried),
        "spec": json.dumps(SPEC | (spec or {})),
    }


def as_meant(number, status, **changes):
    return job(**{"number": number, "status": status, "name": "A-job", "version": 3} | changes)


SHARED = {"timeout": "PT1M0.5S", "scheduling_priority": 7, "share_identifier": "red"}
WAITS = [{"job_id": job_id(3), "type": "N_TO_N"}]
ROWS = [
    before(1, "RUNNABLE", share="red", spec=SHARED),
    before(2, "RUNNABLE", spec={"timeout": "P400DT1S"}),
    before(3, "RUNNING", state={"attempt": {"number": 1, "environment": "local"}}),
    before(4, "PENDING", spec={"depends_on": WAITS}),
    before(5, "RUNNABLE", misfit=1, state={"misfit": True, "status_reason": "too large"}),
    before(6, "FAILED", state={"cancelled": "no", "stopped_at": "2026-11-21T12:00:00Z"}, spec={"timeout": "PT2H"}),
]
SHORTLY, LONG = timedelta(seconds=60.5), timedelta(days=400, seconds=1)
JOBS = [
    as_meant(1, Status.RUNNABLE, timeout=SHORTLY, scheduling_priority=7, share_identifier="red"),
    as_meant(2, Status.RUNNABLE, timeout=LONG),
    as_meant(3, Status.RUNNING, attempt=attempt()),
    as_meant(4, Status.PENDING, depends_on=[Dependency(job_id=job_id(3), type=DependencyType.N_TO_N)]),
    as_meant(5, Status.RUNNABLE, misfit=True, status_reason="too large"),
    as_meant(6, Status.FAILED, cancelled="no", stopped_at=NOON, timeout=timedelta(hours=2)),
]
HISTORY = '{"at":"2026-11-21T12:00:00Z","status":"PENDING","reason":null,"attempt":null}'
QUEUE = (
    '{"name":"default","state":"ENABLED","priority":1,"environments":["local"],"document":"{}",'
    '"created_at":"2026-11-21T12:00:00Z"}'
)


@pytest.fixture
def first(tmp_path):
    """A data directory as the first batchq left it."""
    connection = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    migrations.migrate(connection, {1: migrations.STEPS[1]})
    connection.executemany(INSERT_JOB, ROWS)
    connection.executemany("INSERT INTO specs VALUES (:ord, :spec)", ROWS)
    connection.execute("INSERT INTO waits VALUES (?, 4)", [job_id(3)])
    connection.execute("INSERT INTO history VALUES (4, 0, ?)", [HISTORY])
    connection.execute("INSERT INTO submissions VALUES ('somebody', 'an-invocation', ?, ?, 1)", ["0" * 64, job_id(1)])
    connection.execute("INSERT INTO queues VALUES ('default', ?)", [QUEUE])
    connection.execute("INSERT INTO meta VALUES ('instance', 'c0ffee00')")
    connection.close()
    return tmp_path


@pytest.fixture
async def store(first):
    store = await SqliteStore.open(first)
    yield store
    await store.close()


async def test_every_job_is_read_as_it_was_meant(store):
    assert await store.jobs([it.id for it in JOBS]) == {it.id: it for it in JOBS}
    assert await store.last_order() == 6


async def test_what_placing_reads_is_taken_from_what_was_asked(store):
    red, plain = await store.runnable(DEFAULT, 10)

    assert (red.order, red.share, red.priority, red.longest) == (1, "red", 7, SHORTLY)
    assert (plain.order, plain.share, plain.priority, plain.longest) == (2, None, 0, LONG)
    assert red.needs == plain.needs == ()
    assert await store.runnable_in_share(DEFAULT, "red", 10) == (red,)
    assert await store.waiting_shares(DEFAULT) == ("red",)


async def test_lists_and_counts_go_on(store):
    red = JobQuery(queue=DEFAULT, status=Status.RUNNABLE, filter=Filter.SHARE_IDENTIFIER, values=("red",), limit=10)

    assert [it.order for it in await store.list(JobQuery(queue=DEFAULT, limit=10))] == [6, 5, 4, 3, 2, 1]
    assert [it.order for it in await store.list(red)] == [1]
    assert await store.unfinished_in(DEFAULT) == 5
    assert await store.misfits(10) == (JOBS[4],)
    assert await store.active() == (JOBS[2],)


async def test_all_that_is_kept_beside_the_jobs_is_there(store):
    assert await store.dependents([job_id(3)]) == (JOBS[3],)
    assert [it.status for it in await store.history(job_id(4))] == [Status.PENDING]
    assert await store.submissions([submission()]) == {submission(): job_id(1)}
    assert await store.queues() == (queue(),)
    assert store.instance == "c0ffee00"


async def test_nothing_is_there_that_was_not(store):
    assert await store.parents_at_work() == ()
    assert await store.shares() == {}
    assert await store.used_up() == {}
    assert await store.list_needing(NeedQuery(resource="licences", limit=10)) == ()


async def test_arrays_come_in_behind_what_was_there(store):
    parent = job(number=7, array_size=2, status=Status.PENDING, family=Family())
    one = job(id=child_id(parent.id, 0), order=8, spec=parent.spec, child=Child(parent=parent.id, index=0))

    await store.commit(Changes(inserted=(parent, one), updated=(JOBS[0],)))

    assert await store.parents_at_work() == (parent,)
    assert await store.children(parent.id, 0, 10) == (one,)
    assert await store.last_order() == 9


async def test_definitions_are_told_apart_as_before(store):
    found = await store.list(JobQuery(queue=DEFAULT, filter=Filter.JOB_DEFINITION, values=("a-definition:1",), limit=1))

    assert [it.spec.definition for it in found] == [DefinitionRef(name="a-definition", revision=1)]
