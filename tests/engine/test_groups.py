"""Groups that a server reads again: after a start, after their end, and after retention has deleted them."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import group_after, new_group
from batchq.domain.ids import GroupId
from batchq.domain.scheduling.fairshare import Change
from batchq.engine import groups as engine_groups
from batchq.engine.mailbox import ContinueWork, UpdateTags
from batchq.errors import Invalid
from batchq.ports.jobs import Changes
from tests.domain.lives import pending
from tests.engine.harness import ONE, SURVEYED, TWO, LoopHarness, answer, catalog_of, submit
from tests.support.builders import ADMIN, NOON, job, moment
from tests.support.inline import InlineStore

TERMS = GroupTerms(id=GroupId("g-1"), name="fit", max_failed=1)
FAILED = {"status": Status.FAILED, "stopped_at": NOON, "group": TERMS}


async def harness_with(*jobs):
    """A harness, before its first unit of work, whose store has these jobs and the group of the first one."""
    members = [each for each in jobs if each.spec.group is not None]
    group = group_after(new_group(jobs[0]), [Change(None, each) for each in members], NOON)
    store = InlineStore()
    await store.commit(Changes(inserted=jobs, history=tuple(map(moment, jobs)), groups=(group,)))
    harness = LoopHarness(store, catalog_of())
    await harness.loop.load()
    return harness


async def group(harness):
    return (await harness.store.groups([TERMS.id]))[TERMS.id]


async def test_an_ended_group_is_read_before_it_admits_a_job():
    harness = await harness_with(job(**FAILED))
    new, other_limit = submit(ONE, group=TERMS), submit(TWO, group=replace(TERMS, max_failed=2))

    await harness.process(new, other_limit)

    for refused in (new, other_limit):
        with pytest.raises(Invalid, match=r"takes no new jobs|has a limit of 1 failed job"):
            refused.answer.result()


async def test_a_change_of_a_job_of_an_ended_group_keeps_the_counts_of_the_others():
    ended = [job(number=number, **FAILED) for number in (1, 2)]
    harness = await harness_with(*ended)
    before = await group(harness)

    await harness.process(
        UpdateTags(
            job_id=ended[0].id, change=lambda was: replace(was, tags=(("a", "b"),)), answer=answer(), caller=ADMIN
        )
    )

    assert await group(harness) == before


async def test_a_group_that_retention_has_deleted_begins_anew():
    declared = replace(TERMS, size=3, max_failed=None)
    old = job(number=1, **FAILED | {"group": declared})
    harness = await harness_with(old, job(number=2, **FAILED | {"group": None}))
    await harness.store.prune(NOON + timedelta(days=1), keep=(), limit=10)

    await harness.process(submit(ONE, group=declared))

    assert dict((await group(harness)).counts) == {Status.RUNNABLE: 1}


@pytest.mark.parametrize("places", [1, 2, 6])
async def test_free_places_are_filled_after_a_start_in_the_order_of_submission(places, monkeypatch):
    """The server was killed before the unit of work that would have filled them; one of these fills one place."""
    monkeypatch.setattr(engine_groups, "MAX_RELEASED", 1)
    limited = replace(TERMS, max_failed=None, max_running=places)
    waiting = [pending(group=limited) for _ in range(4)]
    harness = await harness_with(*waiting)

    for _ in range(places):
        await harness.process(SURVEYED)
    await harness.process(ContinueWork())

    statuses = [await harness.status(each) for each in waiting]
    assert statuses == [Status.STARTING] * min(places, 4) + [Status.PENDING] * (4 - places)
    assert harness.loop._groups.due == set()
