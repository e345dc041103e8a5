"""dependsOn of single jobs. aws-batch.md 7."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.ids import child_id
from batchq.domain.job import FINISHED, Dependency, DependencyType, Status
from batchq.errors import Invalid
from tests.support.builders import gang, task
from tests.support.scripts import LASTING, Script, contained


async def test_a_job_waits_for_all_its_dependencies(world):
    quick, slow = await world.submit(Script(seconds=0)), await world.submit(LASTING)
    job = await world.submit(after=[quick, slow])
    assert (await world.job(job)).status is Status.PENDING
    await world.finish(slow)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(slow)).stopped_at
    assert await world.statuses(job) == ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


async def test_a_job_fails_when_one_dependency_fails(world):
    slow = await world.submit(LASTING)
    wrong = await world.submit(Script(seconds=0, exit_code=1))
    job = await world.submit(after=[slow, wrong])

    await world.wait_for(
        job, Status.FAILED, status_reason=status_reasons.dependency_failed(wrong), attempts=(), started_at=None
    )


@pytest.mark.fault("TM08")
async def test_a_dependency_that_has_succeeded_is_met(world):
    before = await world.submit(Script(seconds=0))
    await world.wait_for(before, Status.SUCCEEDED)

    job = await world.submit(after=[before])

    await world.wait_for(job, Status.SUCCEEDED)
    assert "PENDING" not in await world.statuses(job)


@pytest.mark.fault("TM08")
async def test_a_dependency_that_has_failed_fails_the_job_at_once(world):
    before = await world.submit(Script(seconds=0, exit_code=1))
    await world.wait_for(before, Status.FAILED)

    job = await world.submit(after=[before])

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.dependency_failed(before))


async def test_a_job_waits_for_all_attempts_of_its_dependency(world):
    before = await world.submit(Script(seconds=0, exit_code=1), attempts=2)

    job = await world.submit(after=[before])

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.dependency_failed(before))
    assert len((await world.job(before)).attempts) == 2


@pytest.mark.fault("TM08")
async def test_an_unknown_dependency_is_refused(world):
    """A job cannot depend on itself: its id does not exist before its dependencies are checked."""
    with pytest.raises(Invalid, match="does not exist"):
        await world.submit(after=["00000000-0000-0000-0000-000000000000"])


async def test_a_failure_fails_the_whole_chain_at_once(world):
    first = await world.submit(LASTING)
    second = await world.submit(after=[first])
    third = await world.submit(after=[second])

    await world.terminate(first)

    await world.wait_for(first, Status.FAILED)
    for job, waits_for in ((second, first), (third, second)):
        done = await world.wait_for(
            job, Status.FAILED, status_reason=status_reasons.dependency_failed(waits_for), attempts=()
        )
        assert (done.is_cancelled, done.is_terminated) == (False, False)


async def test_a_cancelled_job_fails_its_dependents(world):
    held = await world.submit(LASTING)
    waiting = await world.submit(after=[held])
    last = await world.submit(after=[waiting])

    await world.cancel(waiting, "not this one")

    await world.wait_for(waiting, Status.FAILED, status_reason="not this one", is_cancelled=True)
    await world.wait_for(
        last, Status.FAILED, status_reason=status_reasons.dependency_failed(waiting), is_cancelled=False
    )
    assert (await world.job(held)).status not in FINISHED


@pytest.mark.parametrize("request_name", ["cancel", "terminate"])
async def test_a_terminated_dependent_ends_and_its_dependency_continues(world, request_name):
    held = await world.submit(LASTING)
    waiting = await world.submit(after=[held])

    await getattr(world, request_name)(waiting, "no more of it")

    assert (await world.job(waiting)).status is Status.FAILED
    await world.wait_for(waiting, Status.FAILED, status_reason="no more of it", attempts=())
    await world.finish(held)
    await world.wait_for(held, Status.SUCCEEDED)


async def test_a_dependency_named_twice_counts_once(world):
    before = await world.submit(Script(seconds=0.3))

    job = await world.submit(after=[before, Dependency(job_id=before, type=DependencyType.SEQUENTIAL)])

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.started_at >= (await world.job(before)).stopped_at


async def test_a_sequential_dependency_with_a_job_id_is_an_ordinary_one(world):
    before = await world.submit(LASTING)
    job = await world.submit(after=[Dependency(job_id=before, type=DependencyType.SEQUENTIAL)])
    assert (await world.job(job)).status is Status.PENDING
    await world.finish(before)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_dependencies_may_be_in_other_queues(world):
    await world.queue("other", priority=9)
    before = await world.submit(Script(seconds=0.5))

    job = await world.submit(after=[before], queue="other")

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.started_at >= (await world.job(before)).stopped_at


async def test_twenty_dependencies_are_all_waited_for(world):
    before = [await world.submit(Script(seconds=0), millicpus=200) for _ in range(19)]
    slow = await world.submit(LASTING, millicpus=200)

    job = await world.submit(after=[*before, slow])
    await world.finish(slow)

    done = await world.wait_for(job, Status.SUCCEEDED)
    ends = [(await world.job(it)).stopped_at for it in (*before, slow)]
    assert done.started_at >= max(ends)


async def test_a_job_may_depend_on_a_child_that_is_not_spawned_yet(world):
    held = await world.submit(LASTING)
    array = await world.submit(Script(seconds=0), array_size=2, after=[held])
    job = await world.submit(after=[child_id(array, 1)])
    assert (await world.job(job)).status is Status.PENDING
    await world.finish(held)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(child_id(array, 1))).stopped_at


async def test_a_job_waits_for_a_whole_multi_node_job(world):
    node = task(contained("default", LASTING))
    before = await world.submit(nodes=gang(2, each=node))
    job = await world.submit(after=[before])
    await world.finish(before, container_key="0/default")

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(before)).stopped_at


@pytest.mark.fault("TM08")
async def test_dependencies_are_decided_by_a_restarted_server(world):
    before = await world.submit(LASTING)
    well, badly = await world.submit(after=[before]), await world.submit(Script(seconds=0, exit_code=1), after=[before])
    last = await world.submit(after=[badly])
    await world.restart()
    await world.finish(before)

    await world.wait_for(well, Status.SUCCEEDED)
    await world.wait_for(last, Status.FAILED, status_reason=status_reasons.dependency_failed(badly))
