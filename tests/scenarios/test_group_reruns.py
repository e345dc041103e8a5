"""Jobs of a group that are repeated more than once: the group counts each of its results once. Decision 0094."""

from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from tests.scenarios.test_groups import BRIEF, FAILING, counts, members, tagged

RERUN = "batchq:rerun-of"


async def rerun(world, job_id, script=FAILING, status=Status.FAILED):
    return await world.run(script, status, tags={RERUN: job_id})


async def test_a_repetition_of_a_repeated_job_replaces_the_newest_result(world):
    first = await world.run(FAILING, Status.FAILED, tags=tagged())
    again = await rerun(world, first)
    await rerun(world, again)
    await rerun(world, first, BRIEF, Status.SUCCEEDED)
    assert await counts(world) == {"SUCCEEDED": 1}

    await rerun(world, again)

    assert await counts(world) == {"FAILED": 1}


async def test_a_repetition_of_a_replaced_repetition_replaces_the_newest_result(world):
    first = await world.run(FAILING, Status.FAILED, tags=tagged())
    again = await rerun(world, first)
    await rerun(world, first)

    await rerun(world, again, BRIEF, Status.SUCCEEDED)

    assert await counts(world) == {"SUCCEEDED": 1}


async def test_a_second_repetition_hides_the_first_one_in_lists_of_the_group(world):
    first = await world.run(FAILING, Status.FAILED, tags=tagged())
    await rerun(world, first)

    second = await rerun(world, first)

    assert await members(world) == [second]


async def test_a_repeated_child_of_a_replaced_array_replaces_no_job(world):
    first = await world.run(BRIEF, Status.FAILED, array_size=2, children={1: FAILING}, tags=tagged())
    await world.run(BRIEF, array_size=2, tags={RERUN: first})
    assert await counts(world) == {"SUCCEEDED": 2}

    await rerun(world, child_id(first, 1))

    assert await counts(world) == {"SUCCEEDED": 2, "FAILED": 1}
