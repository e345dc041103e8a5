"""Backups of jobs that are paused, or are being paused, are restored. Decisions 0016, 0045."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.engine import propagation
from tests.support.scripts import LASTING, lasting
from tests.support.world import HOST

pytestmark = pytest.mark.fault("DB13")


@pytest.fixture
def world(simulated):
    return simulated


async def paused(world):
    """A job whose first attempt was paused."""
    job = await world.start(lasting(143))
    await world.pause(job)
    await world.wait_until(job, lambda job: job.status is Status.RUNNABLE and job.hold is not None)
    return job


async def test_a_paused_job_stays_paused_after_a_restore(world):
    job = await paused(world)

    await world.restore(world.backup())
    await world.sleep(30)
    await world.leave_safe_mode(purge=False)
    await world.sleep(30)

    kept = await world.job(job)
    assert (kept.status, kept.hold.paused, len(kept.attempts)) == (Status.RUNNABLE, True, 1)
    await world.resume(job)
    await world.finish(job)
    assert [attempt.paused for attempt in (await world.wait_for(job, Status.FAILED)).attempts] == [True, False]


async def test_the_container_of_a_job_that_was_resumed_after_the_backup_is_adopted(world):
    job = await paused(world)
    backup = world.backup()
    await world.resume(job)
    await world.wait_for(job, Status.RUNNING)

    await world.restore(backup)

    adopted = await world.wait_for(job, Status.RUNNING)
    assert (adopted.attempt.number, adopted.hold) == (2, None)
    assert world.runtime.calls(adopted.tag).count("start") == 1
    await world.leave_safe_mode(purge=False)
    await world.finish(job, Status.FAILED)


async def test_the_container_of_a_job_that_was_paused_and_resumed_after_the_backup_is_adopted(world):
    """The job has one attempt by its retry strategy, and a pause does not count."""
    job = await world.start(lasting(143))
    backup = world.backup()
    await world.pause(job)
    await world.wait_until(job, lambda job: job.status is Status.RUNNABLE)
    await world.resume(job)
    await world.wait_for(job, Status.RUNNING)

    await world.restore(backup)

    adopted = await world.wait_until(job, lambda job: job.status is Status.RUNNING and job.attempt.number == 2)
    assert [attempt.paused for attempt in adopted.attempts] == [True]
    await world.leave_safe_mode(purge=False)
    await world.finish(job, Status.FAILED)


async def test_a_job_that_was_being_paused_in_the_backup_is_paused_after_the_restore(world):
    job = await world.start(lasting(143))
    world.runtime.hold("stop")
    await world.pause(job)
    backup = world.backup()
    world.runtime.release("stop")
    await world.wait_until(job, lambda job: job.status is Status.RUNNABLE)
    await world.wait_until_containers_are_gone()

    await world.restore(backup)

    kept = await world.wait_until(job, lambda other_job: other_job.status is Status.RUNNABLE)
    assert (kept.hold.paused, [attempt.paused for attempt in kept.attempts]) == (True, [True])
    await world.leave_safe_mode(purge=False)


async def test_a_job_that_was_paused_after_the_backup_is_retried_once_safe_mode_is_left(world):
    job = await world.start(lasting(143), attempts=2)
    backup = world.backup()
    await world.pause(job)
    await world.wait_until(job, lambda job: job.status is Status.RUNNABLE)

    await world.restore(backup)
    await world.sleep(30)
    assert (await world.job(job)).status is Status.RUNNING
    await world.leave_safe_mode(purge=False)

    retried = await world.wait_until(
        job, lambda other_job: len(other_job.attempts) == 1 and other_job.status is Status.RUNNING
    )
    assert (retried.attempt.number, retried.hold) == (2, None)


async def test_children_that_ran_after_a_hold_of_their_array_was_saved_are_adopted(world, monkeypatch, caplog):
    """The backup is made before the hold is applied to the children. The array was released later."""
    holder = await world.start(millicpus=HOST.millicpus)
    array = await world.submit(LASTING, array_size=3)
    children = [child_id(array, index) for index in range(3)]
    await world.wait_until_idle()
    monkeypatch.setattr(propagation, "MAX_CHILDREN", 1)
    await world.hold(array)
    backup = world.backup()
    await world.release(array)
    await world.finish(holder)
    for child in children:
        await world.wait_for(child, Status.RUNNING)

    await world.restore(backup)
    await world.sleep(30)

    assert [(await world.job(child)).status for child in children] == [Status.RUNNING] * 3
    assert "message rejected" not in caplog.text
    await world.leave_safe_mode(purge=True)
    for child in children:
        await world.finish(child, Status.SUCCEEDED)
