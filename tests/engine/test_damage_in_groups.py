"""A damaged job of a group ends like any other: the group counts its end, and its place is free at once."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import group_after, new_group
from batchq.domain.ids import GroupId
from batchq.domain.scheduling.fairshare import Change
from batchq.engine.mailbox import TimerFired
from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.domain.lives import pending, runnable, running
from tests.engine.harness import SURVEYED, LoopHarness, catalog_of
from tests.engine.test_damage import check_damaged, damage, process_mailbox
from tests.support.builders import NOON
from tests.support.inline import InlineDatabase

pytestmark = pytest.mark.fault("LC06")

TERMS = GroupTerms(id=GroupId("g-1"), name="fit", max_running=1)


@pytest.fixture
async def database():
    database = InlineDatabase()
    yield database
    await database.close()


async def loop_with(database, *jobs):
    """A harness whose store has these jobs of one group."""
    group = group_after(new_group(jobs[0]), [Change(None, job) for job in jobs], NOON)
    store = SqliteStore(database)
    await store.commit(Changes(inserted=jobs, groups=(group,)))
    return LoopHarness(store, catalog_of())


async def counts(harness):
    return {str(status): number for status, number in (await harness.store.groups([TERMS.id]))[TERMS.id].counts}


@pytest.mark.parametrize("column", ["state", "spec"])
@pytest.mark.parametrize("life", [runnable, running])
async def test_the_next_job_of_a_group_starts_when_a_damaged_job_ends(database, life, column):
    bad, waits = life(group=TERMS), pending(group=TERMS)
    harness = await loop_with(database, bad, waits)
    damage(database, bad, column)
    await harness.loop.load()

    await harness.process(SURVEYED, *([] if life is runnable else [TimerFired(job_id=bad.id)]))
    await process_mailbox(harness, units=5)

    assert await harness.status(waits) is Status.STARTING
    assert await counts(harness) == {"FAILED": 1, "STARTING": 1}


async def test_a_group_ends_with_its_last_job_although_the_record_of_that_job_is_damaged(database):
    bad = pending(group=TERMS)
    harness = await loop_with(database, bad)
    await harness.loop.load()
    damage(database, bad, "spec")
    await harness.store.jobs([bad.id])

    await check_damaged(harness)

    assert await counts(harness) == {"FAILED": 1}
    assert (await harness.store.groups([TERMS.id]))[TERMS.id].ended_at == NOON
