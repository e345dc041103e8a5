"""Groups: jobs that are submitted together are counted, limited and ended together. Decision 0094."""

import asyncio

import pytest

from batchq.domain.enums import DependencyType, Status
from batchq.domain.group_terms import group_terms
from batchq.domain.ids import child_id
from batchq.domain.job import Dependency
from batchq.domain.job_selection import JobSelection
from batchq.errors import Invalid
from batchq.ports.groups import GroupQuery
from batchq.ports.history import FeedFilter
from batchq.ports.job_search import PageQuery
from tests.support.scripts import LASTING, Script, lasting

BRIEF = Script(seconds=0)
FAILING = Script(seconds=0, exit_code=3)


def tagged(name="fit", **numbers):
    """The tags of a group: `size`, `running` and `failed`."""
    tags = {"size": "batchq:group-size", "running": "batchq:max-running", "failed": "batchq:max-failed"}
    return {"batchq:group": name} | {tags[key]: str(number) for key, number in numbers.items()}


async def group(world, name="fit"):
    terms = group_terms((("batchq:group", name),), world.caller.owner)
    return (await world.store.groups([terms.id]))[terms.id]


async def counts(world, name="fit"):
    return {str(status): number for status, number in (await group(world, name)).counts}


async def ended_groups(world):
    page = await world.store.feed(0, FeedFilter(), limit=1000, scan=1000)
    return [saved.entry.group_end for saved in page.entries if saved.entry.group_end is not None]


async def members(world, name="fit", **selection):
    found = frozenset({(await group(world, name)).terms.id})
    page = await world.store.search(PageQuery(selection=JobSelection(groups=found, **selection), limit=100))
    return [job.id for job in page.jobs]


async def running(world, ids):
    return [job_id for job_id in ids if (await world.job(job_id)).status is Status.RUNNING]


async def test_a_group_counts_its_jobs_and_ends_with_the_last_one(world):
    first = await world.run(BRIEF, tags=tagged(size=3))
    second = await world.run(FAILING, Status.FAILED, tags=tagged(size=3))
    assert await ended_groups(world) == []
    third = await world.start(LASTING, tags=tagged(size=3))
    assert await counts(world) == {"SUCCEEDED": 1, "FAILED": 1, "RUNNING": 1}

    await world.terminate(third, "enough")
    await world.wait_for(third, Status.FAILED)

    found = await group(world)
    assert (found.succeeded, found.failed, found.stopped, found.unfinished) == (1, 1, 1, 0)
    assert found.ended_at is not None
    assert await members(world) == [third, second, first]
    (end,) = await ended_groups(world)
    assert (end.name, end.succeeded, end.failed, end.stopped) == ("fit", 1, 1, 1)


async def test_a_group_survives_a_crash_of_the_server(world):
    job = await world.start(LASTING, tags=tagged())

    await world.crash()
    await world.boot()
    await world.finish(job)
    await world.wait_for(job, Status.SUCCEEDED)

    assert await counts(world) == {"SUCCEEDED": 1}


async def test_at_most_max_running_jobs_of_a_group_run(world):
    ids = await world.submit_many(5, LASTING, tags=tagged(running=2))
    for job in ids[:2]:
        await world.wait_for(job, Status.RUNNING)
    assert [(await world.job(job)).status for job in ids[2:]] == [Status.PENDING] * 3

    await world.finish(ids[0])
    await world.wait_for(ids[2], Status.RUNNING)

    assert await running(world, ids) == ids[1:3]
    await world.wait_for_why(
        ids[4], "GROUP_LIMIT", "Waits for a place in its group fit: at most 2 jobs of the group run at the same time."
    )


async def test_max_running_holds_after_a_crash_of_the_server(world):
    ids = await world.submit_many(4, LASTING, tags=tagged(running=2))
    await world.wait_for(ids[1], Status.RUNNING)

    await world.crash()
    await world.boot()
    await world.finish(ids[1])
    await world.wait_for(ids[2], Status.RUNNING)

    assert await running(world, ids) == [ids[0], ids[2]]


async def test_the_children_of_an_array_are_jobs_of_its_group(world):
    array = await world.submit(LASTING, array_size=3, tags=tagged(running=1))
    await world.wait_for(child_id(array, 0), Status.RUNNING)
    await world.finish(child_id(array, 0))
    await world.wait_for(child_id(array, 1), Status.RUNNING)

    assert await counts(world) == {"SUCCEEDED": 1, "RUNNING": 1, "PENDING": 1}
    assert await members(world) == [array]


async def test_an_array_that_never_begins_counts_as_failed_jobs_of_its_group(world):
    before = await world.start(lasting(3))
    cancelled = await world.submit(BRIEF, array_size=2, after=[before], tags=tagged(size=5))
    failed = await world.submit(BRIEF, array_size=3, after=[before], tags=tagged())

    await world.cancel(cancelled)
    assert (await group(world)).ended_at is None
    await world.finish(before, Status.FAILED)
    await world.wait_for(failed, Status.FAILED)

    found = await group(world)
    assert (found.submitted, found.failed, found.stopped, found.unfinished) == (5, 3, 2, 0)
    (end,) = await ended_groups(world)
    assert (end.failed, end.stopped) == (3, 2)


async def test_an_array_that_repeats_another_one_replaces_its_children_in_their_group(world):
    first = await world.run(BRIEF, Status.FAILED, array_size=3, children={1: FAILING, 2: FAILING}, tags=tagged())
    await world.run(BRIEF, tags={"batchq:rerun-of": child_id(first, 2)})
    assert await counts(world) == {"SUCCEEDED": 2, "FAILED": 1}

    again = await world.submit(LASTING, array_size=3, tags={"batchq:rerun-of": first})
    await world.wait_for(child_id(again, 2), Status.RUNNING)

    assert await counts(world) == {"SUCCEEDED": 1, "RUNNING": 3}
    await world.terminate(again)


async def test_a_job_of_a_limited_group_starts_only_after_its_dependency(world):
    before = await world.start(LASTING)
    dependent = await world.submit(BRIEF, after=[before], tags=tagged(running=1))
    other = await world.run(BRIEF, tags=tagged(running=1))
    assert (await world.job(dependent)).status is Status.PENDING

    await world.finish(before)
    await world.wait_for(dependent, Status.SUCCEEDED)

    assert await counts(world) == {"SUCCEEDED": 2}
    assert (await world.job(other)).status is Status.SUCCEEDED


async def test_the_children_of_a_sequential_array_start_one_after_the_other(world):
    in_turns = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
    array = await world.submit(LASTING, array_size=3, after=[in_turns], tags=tagged(running=3))
    first, second, _ = (child_id(array, index) for index in range(3))
    await world.wait_for(first, Status.RUNNING)
    await world.run(BRIEF, tags=tagged())
    assert await counts(world) == {"SUCCEEDED": 1, "RUNNING": 1, "PENDING": 2}

    await world.finish(first)

    await world.wait_for(second, Status.RUNNING)
    await world.terminate(array)
    await world.wait_for(array, Status.FAILED)


async def test_a_job_that_depends_on_a_child_takes_its_place_although_the_array_fails(world):
    holder = await world.start(LASTING, tags=tagged(running=1))
    array = await world.submit(BRIEF, array_size=2, children={1: FAILING})
    job = await world.submit(BRIEF, after=[child_id(array, 0)], tags=tagged())
    await world.wait_for(array, Status.FAILED)
    assert (await world.job(job)).status is Status.PENDING

    await world.finish(holder, Status.SUCCEEDED)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_held_job_takes_its_place_after_its_release(world):
    first, second, third = await world.submit_many(3, LASTING, tags=tagged(running=1))
    await world.wait_for(first, Status.RUNNING)
    await world.hold(second)

    await world.finish(first)
    await world.wait_for(third, Status.RUNNING)
    await world.release(second)
    await world.finish(third)

    await world.wait_for(second, Status.RUNNING)


async def test_the_rest_of_a_group_is_cancelled_after_max_failed_failures(world):
    tags = tagged(running=3, failed=2)
    stopped, failing, last, *queued = await world.submit_many(5, lasting(3), tags=tags)
    await world.wait_for(last, Status.RUNNING)
    await world.terminate(stopped, "by a user")
    await world.finish(failing, Status.FAILED)
    await world.wait_for(queued[1], Status.RUNNING)
    assert (await group(world)).failed == 1
    (waiting,) = await world.submit_many(1, LASTING, tags=tags)

    await world.finish(last, Status.FAILED)

    await world.wait_for(waiting, Status.FAILED, status_reason="2 jobs of group fit failed, its limit of failed jobs")
    with pytest.raises(Invalid, match="the group takes no new jobs"):
        await world.submit(BRIEF, tags=tags)
    for job in queued:
        assert (await world.job(job)).status is Status.RUNNING
        await world.finish(job, Status.FAILED)
    assert ((await group(world)).failed, (await group(world)).stopped) == (2, 4)


async def test_a_rerun_replaces_the_earlier_result_in_its_group(world):
    failed = await world.run(FAILING, Status.FAILED, tags=tagged(size=2, failed=1))
    assert await counts(world) == {"FAILED": 1}

    again = await world.run(BRIEF, tags={"batchq:rerun-of": failed})
    other = await world.run(BRIEF, tags=tagged(size=2, failed=1))

    assert await counts(world) == {"SUCCEEDED": 2}
    assert await members(world) == [other, again]
    assert (await group(world)).ended_at is not None


async def test_a_second_rerun_replaces_the_first_one(world):
    failed = await world.run(FAILING, Status.FAILED, tags=tagged())
    await world.run(FAILING, Status.FAILED, tags={"batchq:rerun-of": failed})

    await world.run(BRIEF, tags={"batchq:rerun-of": failed})

    assert await counts(world) == {"SUCCEEDED": 1}
    assert [end.failed for end in await ended_groups(world)] == [1, 1, 0]


async def test_an_order_to_stop_a_group_stops_an_unfinished_job_that_another_repeats(world):
    first = await world.start(LASTING, tags=tagged())
    again = await world.start(LASTING, tags=tagged() | {"batchq:rerun-of": first})
    assert await members(world) == [again, first]

    stopped = await world.terminate_all(groups={(await group(world)).terms.id})

    assert stopped.keys() == {first, again}
    await world.wait_for(first, Status.FAILED)
    await world.wait_for(again, Status.FAILED)


async def test_groups_of_one_name_and_two_keys_are_different(world):
    first = await world.run(BRIEF, tags=tagged("fit/monday"))
    second = await world.run(BRIEF, tags=tagged("fit/tuesday"))

    assert (await members(world, "fit/monday"), await members(world, "fit/tuesday")) == ([first], [second])
    named = await world.store.newest_groups(GroupQuery(name="FIT"))
    assert [found.terms.id for found in named] == [
        (await group(world, name)).terms.id for name in ("fit/tuesday", "fit/monday")
    ]


async def test_an_order_to_stop_a_group_stops_its_unfinished_jobs(world):
    ids = await world.submit_many(3, LASTING, tags=tagged(running=1))
    other = await world.start(LASTING)

    outcomes = await world.terminate_all(groups=frozenset({(await group(world)).terms.id}))

    assert outcomes.keys() == set(ids)
    for job in ids:
        await world.wait_for(job, Status.FAILED)
    assert (await world.job(other)).status is Status.RUNNING
    assert ((await group(world)).stopped, (await group(world)).failed) == (3, 0)


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ({"batchq:group": "a b"}, "must be a name"),
        ({"batchq:group": "fit/"}, "must be a name"),
        ({"batchq:max-running": "2"}, "require the tag batchq:group"),
        ({"batchq:group": "fit", "batchq:max-running": "0"}, "must be a whole number from 1"),
        ({"batchq:group": "fit", "batchq:max-failed": "two"}, "must be a whole number from 1"),
    ],
)
async def test_a_malformed_tag_of_a_group_is_refused(simulated, tags, text):
    with pytest.raises(Invalid, match=text):
        await simulated.submit(BRIEF, tags=tags)


async def test_a_terminated_array_starts_no_child_that_waits_for_a_place(world):
    array = await world.submit(LASTING, array_size=4, tags=tagged(running=1))
    await world.wait_for(child_id(array, 0), Status.RUNNING)

    await world.terminate(array, "enough")
    await world.wait_for(array, Status.FAILED)

    assert await counts(world) == {"FAILED": 4}
    assert [len((await world.job(child_id(array, index))).attempts) for index in range(4)] == [1, 0, 0, 0]


async def test_the_limits_of_a_group_apply_to_each_of_its_jobs(world):
    """A later job may name the group only, or repeat its limits."""
    first = await world.start(LASTING, tags=tagged(running=1))
    later = await world.submit(BRIEF, tags=tagged())
    equal = await world.submit(BRIEF, tags=tagged(running=1))
    assert [(await world.job(job)).status for job in (later, equal)] == [Status.PENDING] * 2

    await world.finish(first)

    await world.wait_for(later, Status.SUCCEEDED)
    await world.wait_for(equal, Status.SUCCEEDED)


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (tagged(running=2), "Group fit has no limit of running jobs"),
        (tagged(failed=2), "Group fit has a limit of 5 failed jobs"),
        (tagged(size=2), "Group fit has a declared size of 3 jobs"),
    ],
)
async def test_a_job_cannot_change_the_limits_of_its_group(simulated, tags, text):
    first = await simulated.start(LASTING, tags=tagged(size=3, failed=5))

    with pytest.raises(Invalid, match=text):
        await simulated.submit(BRIEF, tags=tags)

    assert await members(simulated) == [first]


async def test_two_jobs_submitted_at_once_have_the_limits_of_one_group(simulated):
    await asyncio.gather(
        simulated.submit(LASTING, tags=tagged(running=1)), simulated.submit(LASTING, tags=tagged(running=1))
    )
    with pytest.raises(Invalid, match="Group fit2 has a limit of 1 running job, as"):
        await asyncio.gather(
            simulated.submit(LASTING, tags=tagged("fit2", running=1)),
            simulated.submit(LASTING, tags=tagged("fit2", running=2)),
        )
