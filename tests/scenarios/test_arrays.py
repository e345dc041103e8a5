"""Array jobs: children spawned, counted, cancelled and terminated. aws-batch.md 5.5, 7 and 8."""

import itertools

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import DependencyType, Status
from batchq.domain.ids import child_id
from batchq.domain.job import Dependency
from batchq.errors import Invalid
from tests.support.scripts import LASTING, Script, lasting

BRIEF = Script(seconds=0)
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


def n_to_n(job_id):
    return Dependency(job_id=job_id, type=DependencyType.N_TO_N)


async def finish(world, parent, *children):
    for index in children:
        await world.finish(child_id(parent, index))


async def running(world, parent, *children):
    for index in children:
        await world.wait_for(child_id(parent, index), Status.RUNNING)


async def counts(world, parent):
    return {str(status): count for status, count in (await world.job(parent)).array_state.counts}


async def test_an_array_succeeds_with_its_last_child(world):
    parent = await world.submit(BRIEF, array_size=3)

    done = await world.wait_for(parent, Status.SUCCEEDED, attempts=(), started_at=None, status_reason=None)

    assert await world.statuses(parent) == ["SUBMITTED", "PENDING", "SUCCEEDED"]
    assert await counts(world, parent) == {"SUCCEEDED": 3}
    for index in range(3):
        child = await world.wait_for(child_id(parent, index), Status.SUCCEEDED)
        assert (child.child.parent, child.child.index) == (parent, index)
        assert child.stopped_at <= done.stopped_at


async def test_each_child_gets_its_index(world):
    script = Script(
        seconds=0, prints_environment=("AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE")
    )
    parent = await world.submit(script, array_size=2)

    await world.wait_for(parent, Status.SUCCEEDED)

    assert await world.output(child_id(parent, 1)) == [f"{parent}:1", "1", "2"]


async def test_an_array_with_a_failed_child_fails_when_all_children_have_ended(world):
    parent = await world.submit(LASTING, array_size=3, children={1: Script(seconds=0, exit_code=3)})
    await world.wait_for(child_id(parent, 1), Status.FAILED)
    assert (await world.job(parent)).status is Status.PENDING
    await finish(world, parent, 0, 2)

    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.CHILD_FAILED)

    assert await counts(world, parent) == {"SUCCEEDED": 2, "FAILED": 1}


async def test_each_child_has_its_own_attempts(world):
    parent = await world.submit(Script(seconds=0, exit_code=1), array_size=2, attempts=2, children={0: BRIEF})

    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.CHILD_FAILED)

    assert [len((await world.job(child_id(parent, index))).attempts) for index in range(2)] == [1, 2]


async def test_an_array_waits_for_its_dependencies(world):
    before = await world.submit(LASTING)
    parent = await world.submit(BRIEF, array_size=2, after=[before])
    assert (await world.job(parent)).status is Status.PENDING
    assert not await world.store.jobs([child_id(parent, 0)])
    await world.finish(before)

    await world.wait_for(parent, Status.SUCCEEDED)


async def test_an_array_whose_dependency_failed_fails_without_children(world):
    before = await world.submit(Script(seconds=0, exit_code=1))
    parent = await world.submit(BRIEF, array_size=2, after=[before])

    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.dependency_failed(before))

    assert not await world.store.jobs([child_id(parent, 0)])


async def test_a_job_waits_for_a_whole_array(world):
    parent = await world.submit(BRIEF, array_size=3, children={2: LASTING})
    after = await world.submit(BRIEF, after=[parent])
    await finish(world, parent, 2)

    done = await world.wait_for(after, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(child_id(parent, 2))).stopped_at


async def test_a_job_may_depend_on_one_child(world):
    parent = await world.submit(LASTING, array_size=2, children={1: BRIEF})

    after = await world.submit(BRIEF, after=[child_id(parent, 1)])

    await world.wait_for(after, Status.SUCCEEDED)


async def test_the_dependents_of_a_child_that_is_never_spawned_fail(world):
    held = await world.submit(LASTING)
    parent = await world.submit(BRIEF, array_size=2, after=[held])
    after = await world.submit(BRIEF, after=[child_id(parent, 1)])

    await world.cancel(parent, "no more of it")

    await world.wait_for(after, Status.FAILED, status_reason=status_reasons.dependency_failed(child_id(parent, 1)))


async def test_children_of_a_sequential_array_run_one_after_another(world):
    parent = await world.submit(BRIEF, array_size=3, after=[SEQUENTIAL])

    await world.wait_for(parent, Status.SUCCEEDED)

    children = [await world.job(child_id(parent, index)) for index in range(3)]
    for before, after in itertools.pairwise(children):
        assert before.stopped_at <= after.started_at


async def test_a_failed_child_of_a_sequential_array_fails_all_later_children(world):
    parent = await world.submit(BRIEF, array_size=4, after=[SEQUENTIAL], children={1: Script(seconds=0, exit_code=1)})

    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.CHILD_FAILED)

    children = [await world.job(child_id(parent, index)) for index in range(4)]
    assert [child.status_reason for child in children] == [
        status_reasons.EXITED,
        status_reasons.EXITED,
        status_reasons.dependency_failed(child_id(parent, 1)),
        status_reasons.dependency_failed(child_id(parent, 1)),
    ]
    assert [len(child.attempts) for child in children] == [1, 1, 0, 0]


async def test_each_n_to_n_child_waits_for_its_counterpart(world):
    first = await world.submit(BRIEF, array_size=2, children={1: LASTING})
    second = await world.submit(BRIEF, array_size=2, after=[n_to_n(first)])

    await world.wait_for(child_id(second, 0), Status.SUCCEEDED)

    assert (await world.job(child_id(second, 1))).status is Status.PENDING
    await world.terminate(child_id(first, 1))
    await world.wait_for(
        child_id(second, 1), Status.FAILED, status_reason=status_reasons.dependency_failed(child_id(first, 1))
    )
    await world.wait_for(second, Status.FAILED, status_reason=status_reasons.CHILD_FAILED)


async def test_an_n_to_n_array_fails_when_the_other_array_has_no_children(world):
    held = await world.submit(LASTING)
    first = await world.submit(BRIEF, array_size=2, after=[held])
    second = await world.submit(BRIEF, array_size=2, after=[n_to_n(first)])

    await world.terminate(first, "not now")

    await world.wait_for(second, Status.FAILED, status_reason=status_reasons.dependency_failed(first))
    assert not await world.store.jobs([child_id(second, 0)])


async def test_an_n_to_n_array_waits_for_an_array_that_is_pending(world):
    held = await world.submit(LASTING)
    first = await world.submit(BRIEF, array_size=2, after=[held])
    second = await world.submit(BRIEF, array_size=2, after=[n_to_n(first)])
    await world.finish(held)

    await world.wait_for(second, Status.SUCCEEDED)


@pytest.mark.fault("SP25")
async def test_a_cancel_of_an_array_ends_queued_children_and_lets_active_ones_finish(world):
    parent = await world.submit(LASTING, array_size=3, millicpus=2000)
    await running(world, parent, 0, 1)

    await world.cancel(parent, "enough")

    await world.wait_for(child_id(parent, 2), Status.FAILED, status_reason="enough", is_cancelled=True, attempts=())
    await finish(world, parent, 0, 1)
    for index in range(2):
        await world.wait_for(child_id(parent, index), Status.SUCCEEDED, is_cancelled=False)
    await world.wait_for(parent, Status.FAILED, status_reason="enough", is_cancelled=True, is_terminated=False)


@pytest.mark.fault("SP25")
async def test_a_running_child_of_a_cancelled_array_is_not_retried(world):
    parent = await world.submit(lasting(1), array_size=2, attempts=3)
    await running(world, parent, 0, 1)

    await world.cancel(parent, "enough")
    await finish(world, parent, 0, 1)

    await world.wait_for(parent, Status.FAILED, status_reason="enough")
    for index in range(2):
        assert len((await world.job(child_id(parent, index))).attempts) == 1


@pytest.mark.fault("SP25")
async def test_a_terminate_of_an_array_stops_every_child(world):
    parent = await world.submit(LASTING, array_size=3, millicpus=2000)
    await running(world, parent, 0, 1)

    await world.terminate(parent, "over budget")

    await world.wait_for(parent, Status.FAILED, status_reason="over budget", is_terminated=True, is_cancelled=False)
    for index in range(3):
        await world.wait_for(child_id(parent, index), Status.FAILED, status_reason="over budget", is_terminated=True)


@pytest.mark.fault("SP25")
async def test_a_terminate_after_a_cancel_stops_the_active_children(world):
    parent = await world.submit(LASTING, array_size=2)
    await running(world, parent, 0, 1)
    await world.cancel(parent, "enough")

    await world.terminate(parent, "now")

    await world.wait_for(parent, Status.FAILED, status_reason="now", is_terminated=True, is_cancelled=False)


async def test_one_child_is_stopped_and_its_siblings_continue(world):
    parent = await world.submit(LASTING, array_size=3)
    await world.wait_for(child_id(parent, 1), Status.RUNNING)

    await world.terminate(child_id(parent, 1), "this one")

    await world.wait_for(child_id(parent, 1), Status.FAILED, status_reason="this one", is_terminated=True)
    await finish(world, parent, 0, 2)
    for index in (0, 2):
        await world.wait_for(child_id(parent, index), Status.SUCCEEDED)
    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.CHILD_FAILED, is_terminated=False)


@pytest.mark.parametrize("request_name", ["cancel", "terminate"])
async def test_a_stopped_array_without_children_fails_at_once(world, request_name):
    request = getattr(world, request_name)
    parent = await world.submit_and(lambda job_id: request(job_id, "at once"), array_size=5)

    await world.wait_for(parent, Status.FAILED, status_reason="at once")

    assert not await world.store.jobs([child_id(parent, 0)])


async def test_children_start_before_jobs_submitted_later(world):
    parent = await world.submit(BRIEF, array_size=3, millicpus=4000, children={0: LASTING})
    later = await world.submit(BRIEF, millicpus=4000)
    await finish(world, parent, 0)

    done = await world.wait_for(later, Status.SUCCEEDED)

    assert (await world.job(child_id(parent, 2))).stopped_at <= done.started_at


async def test_a_restarted_server_spawns_the_remaining_children(world):
    parent = await world.submit(Script(seconds=0.3), array_size=600 if world.virtual else 6)
    await world.restart()

    await world.wait_for(parent, Status.SUCCEEDED)


@pytest.mark.parametrize("other_size", [2, None])
async def test_n_to_n_needs_two_arrays_of_one_size(world, other_size):
    other = await world.submit(LASTING, array_size=other_size)

    with pytest.raises(Invalid, match="N_TO_N"):
        await world.submit(BRIEF, array_size=3, after=[n_to_n(other)])


async def test_a_sequential_dependency_without_a_job_id_is_refused_for_a_single_job(world):
    with pytest.raises(Invalid, match="SEQUENTIAL"):
        await world.submit(BRIEF, after=[SEQUENTIAL])


async def test_a_dependency_on_a_child_outside_the_array_is_refused(world):
    parent = await world.submit(LASTING, array_size=2)

    with pytest.raises(Invalid, match="does not exist"):
        await world.submit(BRIEF, after=[child_id(parent, 2)])


@pytest.mark.parametrize("order", ["cancel", "terminate"])
async def test_an_order_to_a_child_that_is_not_spawned_yet_ends_it_when_it_is(world, order):
    before = await world.submit(LASTING)
    parent = await world.submit(BRIEF, array_size=3, after=[before])
    await world.wait_for(before, Status.RUNNING)
    await getattr(world, order)(child_id(parent, 1), "not this one")
    await world.cancel(child_id(parent, 1), "too late")
    await world.restart()

    await world.finish(before)

    flags = {"is_cancelled": order == "cancel", "is_terminated": order == "terminate"}
    await world.wait_for(parent, Status.FAILED, status_reason=status_reasons.CHILD_FAILED)
    await world.wait_for(child_id(parent, 1), Status.FAILED, status_reason="not this one", attempts=(), **flags)
    assert await counts(world, parent) == {"SUCCEEDED": 2, "FAILED": 1}
    assert await world.statuses(child_id(parent, 1)) == ["SUBMITTED", "FAILED"]
