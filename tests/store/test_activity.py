"""Buckets of activity in SQLite: averages, gaps, bounds, retention, and what a caller sees. Decision 0105."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.domain.activity import (
    COARSE,
    FINE,
    KEPT,
    Activity,
    ActivityKey,
    ActivityLoad,
    ActivitySample,
    EndedAs,
    bucket_of,
)
from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.ports.activity import ActivityEvents, ActivityQuery
from batchq.ports.jobs import Changes
from batchq.store import activity
from tests.support.builders import NOON, job, moment, resources
from tests.support.inline import InlineStore

ADA, BOB = ActivityKey("default", "lab", "ada"), ActivityKey("default", "other", "bob")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def store():
    return InlineStore()


def sample(at=NOON, *, machines=None, environments=None, **loads):
    keys = {"ada": ADA, "bob": BOB}
    found = {keys[user]: ActivityLoad(running=running, millicpus=1000 * running) for user, running in loads.items()}
    return ActivitySample(at=at, loads=found, environments=environments or {}, environment_loads={}, machines=machines)


def ended(at=NOON, key=ADA, outcome=EndedAs.SUCCEEDED, count=1):
    return ActivityEvents(key=key, at=at, outcome=outcome, wait=None, count=count)


async def read(store, *, until=NOON, width=FINE, hours=24, visibility=None, **changes):
    query = {"queues": frozenset({"default"}), "environments": frozenset({"local"})} | changes
    first = bucket_of(until - timedelta(hours=hours), width) + width
    found = ActivityQuery(width=width, first=first, last=until, visibility=visibility, **query)
    return Activity(at=until, first=first, width=width, buckets=await store.activity(found))


def rows(store, table="activity_buckets"):
    return store._database.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


async def test_a_bucket_has_the_average_of_its_samples(store):
    for minute, running in enumerate([2, 4, 0]):
        await store.record_activity(sample(NOON + minute * MINUTE, ada=running), (), 0)

    (fine,) = (await read(store, until=NOON + 4 * MINUTE)).buckets
    (hour,) = (await read(store, until=NOON + 4 * MINUTE, width=COARSE)).buckets

    assert (fine.at, fine.load.running, fine.load.millicpus) == (NOON, 2, 2000)
    assert hour.load == fine.load


async def test_a_downtime_is_a_gap_and_an_idle_server_is_zero(store):
    await store.record_activity(sample(NOON), (), 0)
    await store.record_activity(sample(NOON + 10 * MINUTE, ada=1), (), 0)

    slots = (await read(store, until=NOON + 10 * MINUTE)).slots()

    assert [None if slot is None else slot.load.running for slot in slots[-3:]] == [0, None, 1]
    assert slots[:-3] == [None] * 285


async def test_a_clock_that_was_set_back_changes_no_average(store):
    """The samples of two servers are in one bucket, and buckets that lie in the future are deleted."""
    for at in (NOON, NOON + MINUTE, NOON + timedelta(hours=3), NOON):
        await store.record_activity(sample(at, ada=3), (), 0)

    found = await read(store, until=NOON + timedelta(hours=5), hours=8)

    assert [(bucket.at, bucket.load.running) for bucket in found.buckets] == [(NOON, 3)]
    assert rows(store) == 2


async def test_a_clock_that_was_set_ahead_leaves_a_gap(store):
    await store.record_activity(sample(NOON, ada=3), (), 0)
    await store.record_activity(sample(NOON + timedelta(hours=2), ada=3), (), 0)

    slots = (await read(store, until=NOON + timedelta(hours=2))).slots()

    assert [slot is not None for slot in slots[-25:]] == [True] + [False] * 23 + [True]


async def test_a_bucket_is_deleted_when_it_is_too_old(store):
    hours = [NOON + timedelta(hours=hour) for hour in range(0, 24 * 40, 6)]
    for at in hours:
        await store.record_activity(sample(at, ada=1, environments={"local": 4000}), (), 0)

    kept = [at for at in hours if hours[-1] - at <= KEPT[COARSE]]
    assert [bucket.at for bucket in (await read(store, until=hours[-1], width=COARSE, hours=24 * 50)).buckets] == kept
    assert len((await read(store, until=hours[-1], hours=24 * 50)).buckets) == 5
    assert [rows(store, table) for table in ("activity_samples", "capacity_buckets")] == [len(kept) + 5] * 2


async def test_the_rows_of_a_bucket_are_bounded(store, monkeypatch):
    """The jobs of further owners are added up, and only callers who see all jobs see them."""
    monkeypatch.setattr(activity, "MAX_KEYS", 3)
    for _ in range(2):
        loads = {ActivityKey("default", "lab", f"user-{number}"): ActivityLoad(running=1) for number in range(10)}
        taken = ActivitySample(at=NOON, loads=loads, environments={}, environment_loads={}, machines=None)
        await store.record_activity(taken, [ended(key=ActivityKey("default", "lab", "user-9"))], 0)

    assert rows(store) == 2 * (3 + 1)
    (everything,) = (await read(store)).buckets
    assert (everything.load.running, everything.ends.succeeded) == (10, 2)
    (seen,) = (await read(store, visibility=Visibility(user="", accounts=frozenset({"lab"})))).buckets
    assert seen.load.running == 10  # a server without accounts has the same owner
    (seen,) = (await read(store, visibility=Visibility(user="user-9", accounts=frozenset({"lab"})))).buckets
    assert seen.load.running == 3


async def test_only_visible_jobs_and_named_queues_are_counted(store):
    await store.record_activity(sample(ada=1, bob=5), [ended(key=BOB)], 0)

    async def seen(**query):
        (bucket,) = (await read(store, **query)).buckets
        return bucket.load.running, bucket.ends.succeeded

    assert await seen() == (6, 1)
    assert await seen(visibility=Visibility(user="ada")) == (1, 0)
    assert await seen(visibility=Visibility(user="eve", accounts=frozenset({"other"}))) == (5, 1)
    assert await seen(visibility=Visibility(user="eve")) == (0, 0)
    assert await seen(queues=frozenset({"another"})) == (0, 0)


async def test_the_capacity_is_what_environments_allow_and_machines_have(store):
    machines = Resources(millicpus=6000, memory_mib=1000, gpus=2)
    for at, known, limit in ((0, machines, 4000), (1, None, 8000)):
        found = sample(NOON + at * MINUTE, machines=known, environments={"local": limit, "large": 8000})
        await store.record_activity(found, (), 0)

    async def capacity(*names):
        return (await read(store, until=NOON + MINUTE, environments=frozenset(names))).buckets[0].capacity

    assert await capacity("local") == machines
    assert await capacity("deleted") == Resources(millicpus=0, memory_mib=1000, gpus=2)


async def test_the_capacity_is_not_known_while_the_engine_does_not_answer(store):
    await store.record_activity(sample(ada=1, environments={"local": 4000}), (), 0)

    (bucket,) = (await read(store)).buckets
    assert bucket.capacity is None


async def test_an_event_before_the_first_sample_of_its_bucket_is_counted(store):
    await store.record_activity(sample(NOON), [ended(NOON - timedelta(hours=2), count=4)], 0)

    first, second = (await read(store)).buckets
    assert (first.load, first.ends.succeeded) == (None, 4)
    assert (second.load.running, second.ends.succeeded) == (0, 0)


async def test_events_are_read_once_in_bounded_pages(store, monkeypatch):
    monkeypatch.setattr(activity, "MAX_ENTRIES", 2)
    jobs = [job(number=number, status=Status.SUCCEEDED) for number in range(5)]
    await store.commit(Changes(inserted=tuple(jobs), history=tuple(map(moment, jobs))))

    page = await store.activity_events(None)
    pages = [page]
    while page.more:
        page = await store.activity_events(page.through)
        pages.append(page)

    assert [sum(event.count for event in page.events) for page in pages] == [2, 2, 1]
    await store.record_activity(sample(), (), page.through)
    assert (await store.activity_events(None)).events == ()


async def test_the_wait_of_an_attempt_is_counted_from_the_latest_runnable(store):
    waiting = job(number=1, status=Status.STARTING)
    moments = [
        (Status.RUNNABLE, 0),
        (Status.STARTING, 3),
        (Status.RUNNING, 4),
        (Status.RUNNABLE, 10),
        (Status.STARTING, 55),
    ]
    entries = [moment(waiting, status=status, at=NOON + timedelta(seconds=at)) for status, at in moments]
    await store.commit(Changes(inserted=(waiting,), history=tuple(entries)))

    page = await store.activity_events(None)
    await store.record_activity(sample(NOON + 2 * MINUTE), page.events, page.through)

    (bucket,) = (await read(store, until=NOON + 2 * MINUTE)).buckets
    assert [index for index, count in enumerate(bucket.ends.waits) if count] == [2, 5]
    assert 2 < bucket.ends.wait(0.5) <= 5
    assert 30 < bucket.ends.wait(0.95) <= 60


async def test_a_damaged_history_entry_is_not_counted(store):
    done = job(number=1, status=Status.SUCCEEDED)
    await store.commit(Changes(inserted=(done,), history=(moment(done),)))
    store._database.connection.execute("UPDATE job_history SET value = '{'")

    page = await store.activity_events(None)

    assert (page.events, page.more) == ((), False)


async def test_a_failed_write_adds_nothing(store):
    await store.record_activity(sample(ada=1, machines=resources()), (), 0)
    store._database.connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON metadata BEGIN SELECT RAISE(ABORT, 'full'); END"
    )

    with pytest.raises(Exception, match="full"):
        await store.record_activity(sample(ada=3), [ended()], 7)

    (bucket,) = (await read(store)).buckets
    assert (bucket.load.running, bucket.ends.succeeded) == (1, 0)


async def test_a_bucket_has_the_average_use_of_measured_jobs_by_owner_and_environment(store):
    for minute, used in enumerate((500, 1500)):
        load = ActivityLoad(
            running=2,
            millicpus=4000,
            memory_mib=64,
            measured=1,
            used_millicpus=used,
            used_mib=32,
            hourly_cost=used * 10**9,
        )
        taken = replace(sample(NOON + minute * MINUTE, environments={"local": 8000}), loads={ADA: load})
        await store.record_activity(replace(taken, environment_loads={"local": load, "closed": load}), (), 0)
    query = ActivityQuery(
        width=FINE,
        first=NOON,
        last=NOON + MINUTE,
        queues=frozenset(),
        environments=frozenset({"local", "closed", "other"}),
        visibility=None,
    )

    (bucket,) = (await read(store, until=NOON + MINUTE)).buckets
    found = await store.environment_activity(query)

    expected = ActivityLoad(
        running=2, millicpus=4000, memory_mib=64, measured=1, used_millicpus=1000, used_mib=32, hourly_cost=10**12
    )
    assert bucket.load == expected
    assert {name: [each.load for each in buckets] for name, buckets in found.items()} == {
        "local": [expected],
        "closed": [expected],
    }
    assert (found["local"][0].capacity.millicpus, found["closed"][0].capacity) == (8000, None)
