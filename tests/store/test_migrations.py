"""Data that an earlier batchq wrote is taken over whole."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import NOBODY, ROOT, Reach
from batchq.domain.ids import DefinitionRef, QueueName, child_id
from batchq.domain.job import Child, Dependency, DependencyType, Family, Status
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import Changes, Filter, JobQuery
from batchq.store import migrations
from batchq.store.database import NAME
from batchq.store.offline.check import check
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import (
    NOON,
    attempt,
    consumable,
    definition,
    environment,
    job,
    job_id,
    policy,
    queue,
    submission,
)

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


ENVIRONMENT = (
    '{"name":"local","state":"ENABLED","max_millicpus":4000,"document":"{}","created_at":"2026-11-21T12:00:00Z"}'
)
DEFINITION = (
    '{"ref":{"name":"a-definition","revision":1},"status":"ACTIVE","container":{"image":"batchq-test:latest",'
    '"resources":{"millicpus":1000,"memory_mib":128},"command":["true"]},"retry":{},"document":"{}",'
    '"created_at":"2026-11-21T12:00:00Z"}'
)
STREAM = '{"tag":{"job_id":"00000000-0000-4000-8000-000000000003","attempt":1},"created_at":"2026-11-21T12:00:00Z"}'
POLICY = '{"name":"fair","document":"{}","created_at":"2026-11-21T12:00:00Z"}'
CONSUMABLE = '{"name":"licences","total":10,"kind":"REPLENISHABLE","created_at":"2026-11-21T12:00:00Z"}'
UPDATE = '{"token":"a-token","operation":"ADD","quantity":1,"at":"2026-11-21T12:00:00Z"}'
SHARE = '{"active":1,"used":2.5,"as_of":"2026-11-21T12:00:00Z"}'
PARENT, CHILD = job_id(10), f"{job_id(10)}:0"
NEEDS = '[{"resource":"licences","quantity":2}]'
FAMILY = {"spawned": 1, "counts": [["RUNNABLE", 1]]}
INSERT_LATER_JOB = """
INSERT INTO jobs (ord, id, version, queue, status, misfit, name, definition, revision, created_at, millicpus,
    memory_mib, gpus, state, parent_ord, array_size, at_work, needs)
VALUES (?, ?, 3, 'default', ?, 0, 'a-job', 'a-definition', 1, 1795262400000, 1000, 128, 0, ?, ?, ?, ?, ?)
"""


def carried(order, its_id, status, **more):
    return json.dumps({"id": its_id, "order": order, **STATE, "status": status, **more})


# What each schema brought, as the batchq of that schema wrote it.
BROUGHT = {
    1: [
        *((INSERT_JOB, row) for row in ROWS),
        *(("INSERT INTO specs VALUES (:ord, :spec)", row) for row in ROWS),
        ("INSERT INTO waits VALUES (?, 4)", [job_id(3)]),
        ("INSERT INTO history VALUES (4, 0, ?)", [HISTORY]),
        ("INSERT INTO submissions VALUES ('somebody', 'an-invocation', ?, ?, 1)", ["0" * 64, job_id(1)]),
        ("INSERT INTO environments VALUES ('local', ?)", [ENVIRONMENT]),
        ("INSERT INTO queues VALUES ('default', ?)", [QUEUE]),
        ("INSERT INTO definitions VALUES ('a-definition', 1, 'ACTIVE', ?)", [DEFINITION]),
        ("INSERT INTO streams VALUES (1, 'a-definition/default/a-task', 1795262400000000, ?)", [STREAM]),
        ("INSERT INTO meta VALUES ('instance', 'c0ffee00')", []),
    ],
    2: [
        ("INSERT INTO policies VALUES ('fair', ?)", [POLICY]),
        ("INSERT INTO consumables VALUES ('licences', ?)", [CONSUMABLE]),
        ("INSERT INTO consumable_updates VALUES ('licences', 'a-token', 1, ?)", [UPDATE]),
    ],
    3: [
        (INSERT_LATER_JOB, [10, PARENT, "PENDING", carried(10, PARENT, "PENDING", family=FAMILY), None, 2, 1, NEEDS]),
        ("INSERT INTO specs VALUES (10, ?)", [json.dumps(SPEC | {"array_size": 2, "needs": json.loads(NEEDS)})]),
        (
            INSERT_LATER_JOB,
            [
                11,
                CHILD,
                "RUNNABLE",
                carried(11, CHILD, "RUNNABLE", child={"parent": PARENT, "index": 0}),
                10,
                0,
                0,
                NEEDS,
            ],
        ),
        ("INSERT INTO job_needs VALUES ('licences', 10)", []),
        ("INSERT INTO shares VALUES ('default', 'red', ?)", [SHARE]),
        ("INSERT INTO used_up VALUES ('licences', 7)", []),
    ],
    4: [("INSERT INTO quarantine VALUES (1, 6, 'state', x'7B')", [])],
    5: [("INSERT INTO discarded VALUES (?)", ["0" * 32])],
    7: [
        ("INSERT INTO sweeps VALUES (1, ?)", ['{"kind":"CANCEL","reason":"enough"}']),
        ("INSERT INTO sweep_jobs VALUES (1, 1, -1)", []),
    ],
    8: [("INSERT INTO acts VALUES (1, 1, 'ada', 'lab', '', '', 'SubmitJob', 'job/1', 'done', NULL)", [])],
}
BEFORE_ARRAYS = [1, 2]
EARLIER = range(1, migrations.NEWEST)


def written(data, version):
    """A data directory as the batchq of this schema left it, which has been brought to it from the first."""
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        for number in range(1, version + 1):
            migrations.migrate(connection, {it: migrations.STEPS[it] for it in range(1, number + 1)})
            for statement, values in BROUGHT.get(number, []):
                connection.execute(statement, values)
    return data


@pytest.fixture
def first(tmp_path):
    return written(tmp_path, 1)


@pytest.fixture(params=BEFORE_ARRAYS)
async def store(request, tmp_path):
    store = await SqliteStore.open(written(tmp_path, request.param))
    yield store
    await store.close()


@pytest.fixture(params=[it for it in EARLIER if it not in BEFORE_ARRAYS])
async def with_arrays(request, tmp_path):
    store = await SqliteStore.open(written(tmp_path, request.param))
    yield store
    await store.close()


@pytest.mark.parametrize("version", EARLIER)
def test_each_earlier_schema_is_tried_with_something_in_every_table(tmp_path, version):
    with closing(sqlite3.connect(written(tmp_path, version) / NAME)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        empty = [name for name in tables if not connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]]

    assert migrations.version(sqlite3.connect(tmp_path / NAME)) == version
    assert empty == []


@pytest.mark.parametrize("version", EARLIER)
async def test_whatever_the_schema_was_every_row_is_whole_in_the_newest(tmp_path, version, caplog):
    caplog.set_level("INFO")
    store = await SqliteStore.open(written(tmp_path, version))
    await store.close()

    found = check(tmp_path / NAME)

    assert f"the schema of the database is upgraded from {version} to {version + 1}" in caplog.text

    assert (found.schema, found.problems) == (migrations.NEWEST, ())
    assert found.jobs[Status.RUNNABLE] >= 3


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
    assert await store.environments() == (environment(),)
    assert await store.newest_active("a-definition") == definition()
    assert [it.tag for it in await store.streams()] == [JOBS[2].tag]
    assert store.instance == "c0ffee00"


async def test_what_is_from_before_there_were_users_is_nobodys_in_the_account_above_all(store):
    rooted, somebody = Reach(user="root", accounts=frozenset({ROOT})), Reach(user="ada", accounts=frozenset({"lab"}))
    asked = JobQuery(queue=DEFAULT, limit=10)

    assert {it.spec.owner for it in await store.list(asked)} == {NOBODY}
    assert await store.list(replace(asked, reach=rooted)) == await store.list(asked)
    assert await store.list(replace(asked, reach=somebody)) == await store.streams(reach=somebody) == ()
    assert [it.tag for it in await store.streams(reach=rooted)] == [JOBS[2].tag]
    assert await store.definition_owner("a-definition") == NOBODY


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


async def test_arrays_shares_and_what_is_used_up_are_as_they_were(with_arrays):
    parent, child = job(number=10).id, child_id(job_id(10), 0)

    found = await with_arrays.jobs([parent, child])

    assert await with_arrays.parents_at_work() == (found[parent],)
    assert found[parent].family == Family(spawned=1, counts=((Status.RUNNABLE, 1),))
    assert await with_arrays.children(parent, 0, 10) == (found[child],)
    assert found[child].spec == found[parent].spec
    assert await with_arrays.last_order() == 12
    assert await with_arrays.shares() == {ShareKey(DEFAULT, "red"): ShareUse(active=1, used=2.5, as_of=NOON)}
    assert await with_arrays.used_up() == {"licences": 7}
    assert [it.id for it in await with_arrays.list_needing(NeedQuery(resource="licences", limit=10))] == [parent]
    assert await with_arrays.policies() == (policy(),)
    assert await with_arrays.consumables() == (consumable(),)
    assert (await with_arrays.consumable_update("licences", "a-token")).quantity == 1


async def test_a_job_that_was_over_is_forgotten_in_its_time(store):
    too_early = await store.prune(NOON, keep=(), limit=10)
    at_its_time = await store.prune(NOON + timedelta(seconds=1), keep=(), limit=10)
    await store.commit(Changes(inserted=(job(number=7),)))
    no_longer_the_newest = await store.prune(NOON + timedelta(seconds=1), keep=(), limit=10)

    assert (too_early.jobs, at_its_time.jobs, no_longer_the_newest.jobs) == (0, 0, 1)
    assert await store.jobs([job_id(6)]) == {}


def test_a_row_that_cannot_be_read_does_not_keep_the_data_from_being_taken_over(tmp_path):
    with closing(sqlite3.connect(written(tmp_path, 3) / NAME, isolation_level=None)) as connection:
        connection.execute("UPDATE jobs SET state = '{', status = 'FAILED' WHERE ord = 1")
        migrations.migrate(connection, migrations.STEPS)
        ended = connection.execute("SELECT finished_at FROM jobs WHERE ord = 1").fetchone()

    assert ended == (1795262400000000,)
