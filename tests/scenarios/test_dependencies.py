"""dependsOn of single jobs. aws-batch.md 7."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, DependencyType, Status
from batchq.domain.ids import child_id
from batchq.domain.job import Dependency
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
    before = await world.run()

    job = await world.submit(after=[before])

    await world.wait_for(job, Status.SUCCEEDED)
    assert "PENDING" not in await world.statuses(job)


@pytest.mark.fault("TM08")
async def test_a_dependency_that_has_failed_fails_the_job_at_once(world):
    before = await world.run(Script(seconds=0, exit_code=1), Status.FAILED)

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


@pytest.mark.fault("SP14")
@pytest.mark.parametrize("order", ["cancel", "terminate"])
async def test_a_stopped_dependent_ends_at_once_and_its_dependency_continues(world, order):
    held = await world.submit(LASTING)
    waiting = await world.submit(after=[held])

    await getattr(world, order)(waiting, "no more of it")

    flags = {"is_cancelled": order == "cancel", "is_terminated": order == "terminate"}
    assert (await world.job(waiting)).status is Status.FAILED
    await world.wait_for(waiting, Status.FAILED, status_reason="no more of it", attempts=(), **flags)
    await world.finish(held, Status.SUCCEEDED)


@pytest.mark.parametrize("again", [False, True], ids=["once", "named twice"])
async def test_a_sequential_dependency_on_a_job_of_another_queue_is_an_ordinary_one(world, again):
    await world.queue("other", priority=9)
    before = await world.submit(LASTING)
    sequential = Dependency(job_id=before, type=DependencyType.SEQUENTIAL)
    job = await world.submit(after=[sequential, before] if again else [sequential], queue="other")
    assert (await world.job(job)).status is Status.PENDING
    await world.finish(before)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(before)).stopped_at


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
async def test_a_restarted_server_decides_dependencies_that_ended_without_it(world):
    before = await world.start()
    well, badly = await world.submit(after=[before]), await world.submit(Script(seconds=0, exit_code=1), after=[before])
    last = await world.submit(after=[badly])
    await world.crash()
    await world.finish(before)

    await world.boot()

    await world.wait_for(well, Status.SUCCEEDED)
    await world.wait_for(last, Status.FAILED, status_reason=status_reasons.dependency_failed(badly))
