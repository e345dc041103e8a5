"""Data restored from a backup that is older than the containers on the engine. Decision 0016.

With simulated containers only; `tests/faults/test_restored.py` tests a real server once.
"""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.catalog import TimeLimit
from batchq.domain.enums import Action, Status
from batchq.domain.ids import Tag, child_id
from batchq.domain.job import ExitRule
from batchq.errors import Invalid
from tests.support import builders
from tests.support.builders import ADMIN, task, task_container
from tests.support.scripts import Script, contained

pytestmark = pytest.mark.fault("DB13")

LONG = Script(seconds=3600, on_term=0)
HOUR = 3600


@pytest.fixture
def world(simulated):
    return simulated


def tag_of(job, attempt=1):
    return Tag(job_id=job, attempt=attempt)


async def running(world):
    await world.wait_until_idle()
    return {container.tag for container in await world.runtime.survey() if container.state == "RUNNING"}


async def starts(world, job, attempt=1):
    return (await world.engine_calls(job, attempt)).count("start")


async def started_since(world, script, **fields):
    """A job that was queued when the backup was made, and runs now; and the backup."""
    before = await world.start(LONG, millicpus=4000)
    job = await world.submit(script, **fields)
    await world.wait_for(job, Status.RUNNABLE)
    backup = world.backup()
    await world.terminate(before)
    await world.wait_for(job, Status.RUNNING)
    return job, backup


# ------------------------------------------------------------------------------------------------------------- attached


async def test_a_job_running_in_backup_and_engine_continues(world):
    job = await world.start(Script(seconds=60))

    await world.restore(world.backup())

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert await starts(world, job) == 1


async def test_a_job_queued_in_the_backup_is_attached_to_its_running_attempt(world):
    job, backup = await started_since(world, Script(seconds=20, exit_code=3))

    await world.restore(backup)

    assert (await world.wait_for(job, Status.RUNNING)).attempt.number == 1
    await world.wait_for(job, Status.FAILED, exit_codes=[3])
    assert await starts(world, job) == 1


async def test_a_job_that_ended_without_a_server_has_the_outcome_of_its_container(world):
    job, backup = await started_since(world, Script(seconds=5, exit_code=7, output=("done",)))
    await world.crash()
    await world.sleep(10)

    await world.restore(backup)

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED, exit_codes=[7])
    assert await world.output(job) == ["done"]
    assert await starts(world, job) == 1


async def test_a_job_retried_since_the_backup_is_attached_to_the_later_attempt(world):
    job = await world.start(Script(seconds=15, exit_code=1), attempts=2)
    backup = world.backup()
    await world.sleep(20)

    await world.restore(backup)

    again = await world.wait_until(job, lambda job: job.status is Status.RUNNING and job.attempt.number == 2)
    assert [attempt.status_reason for attempt in again.attempts] == [status_reasons.DISAPPEARED]
    await world.wait_for(job, Status.FAILED, exit_codes=[None, 1])
    assert await starts(world, job, 2) == 1


async def test_a_job_is_attached_to_a_later_attempt_although_its_rules_retry_no_lost_container(world):
    rules = (ExitRule(action=Action.RETRY, on_exit_code="1"), ExitRule(action=Action.EXIT, on_reason="*"))
    job = await world.start(Script(seconds=15, exit_code=1), attempts=3, rules=rules)
    backup = world.backup()
    await world.sleep(20)

    await world.restore(backup)

    again = await world.wait_until(job, lambda job: job.status is Status.RUNNING and job.attempt.number == 2)
    assert [attempt.paused for attempt in again.attempts] == [False]
    await world.leave_safe_mode(purge=True)
    await world.wait_for(job, Status.FAILED, exit_codes=[None, 1, 1])


async def test_the_container_of_a_later_attempt_gives_its_outcome(world):
    world.runtime.hold("remove")
    job, backup = await started_since(world, Script(seconds=15, exit_code=9), attempts=2)
    await world.sleep(20)
    await world.crash()
    world.runtime.release("remove")

    await world.restore(backup)

    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.FAILED, exit_codes=[9, 9])
    assert await starts(world, job, 2) == 1


async def test_a_job_with_later_attempts_only_is_attached_to_the_last(world):
    job, backup = await started_since(world, Script(seconds=15, exit_code=1), attempts=3)
    await world.sleep(20)

    await world.restore(backup)

    assert (await world.wait_for(job, Status.RUNNING)).attempt.number == 2
    await world.leave_safe_mode(purge=True)
    done = await world.wait_for(job, Status.FAILED)
    assert [attempt.number for attempt in done.attempts] == [1, 2, 3]


async def test_a_job_whose_dependency_ended_since_the_backup_continues(world):
    first = await world.submit(Script(seconds=20))
    second = await world.submit(Script(seconds=60), after=[first])
    await world.wait_for(first, Status.RUNNING)
    backup = world.backup()
    await world.wait_for(second, Status.RUNNING)

    await world.restore(backup)
    await world.wait_for(second, Status.RUNNING)
    await world.leave_safe_mode(purge=True)

    await world.wait_for(first, Status.FAILED, status_reason=status_reasons.DISAPPEARED)
    assert len((await world.wait_for(second, Status.SUCCEEDED)).attempts) == 1


async def test_a_job_unschedulable_in_the_backup_is_attached_and_not_cancelled(world):
    limit = TimeLimit(reason="MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE", most=timedelta(minutes=10))
    limited = builders.queue("limited", time_limits=(limit,), created_at=world.clock.now())
    await world.catalog.job_queues.create(limited, caller=ADMIN)
    job = await world.submit(LONG, queue="limited", millicpus=8000)
    await world.wait_for(job, Status.RUNNABLE, unschedulable=True)
    backup = world.backup()
    await world.catalog.compute_environments.update(
        "local", lambda environment: replace(environment, max_millicpus=8000), caller=ADMIN
    )
    await world.wait_for(job, Status.RUNNING)
    await world.sleep(HOUR / 4)
    world.runtime.unreachable = True

    await world.restore(backup)
    await world.sleep(60)
    world.runtime.unreachable = False

    assert (await world.wait_for(job, Status.RUNNING)).attempts == ()


async def test_children_of_an_array_are_attached_and_counted(world):
    before = await world.start(LONG, millicpus=4000)
    parent = await world.submit(Script(seconds=30), array_size=3)
    await world.wait_for(child_id(parent, 2), Status.RUNNABLE)
    backup = world.backup()
    await world.terminate(before)
    await world.wait_for(child_id(parent, 2), Status.RUNNING)

    await world.restore(backup)

    done = await world.wait_for(parent, Status.SUCCEEDED)
    assert dict(done.array_state.counts)[Status.SUCCEEDED] == 3
    assert [await starts(world, child_id(parent, index)) for index in range(3)] == [1, 1, 1]


async def test_a_task_of_several_containers_is_attached_as_a_whole(world):
    containers = task(task_container("a"), task_container("b"))
    job, backup = await started_since(world, Script(seconds=30), task=containers)
    await world.wait_until_idle()

    await world.restore(backup)

    await world.wait_for(job, Status.RUNNING)
    await world.wait_for(job, Status.SUCCEEDED)
    assert await world.engine_calls_by_container(job, "start") == ["0/a", "0/b"]


# ----------------------------------------------------------------------------------------------------------------- kept


async def test_containers_of_unknown_jobs_are_reported_and_kept(world, caplog):
    backup = world.backup()
    tags = {tag_of(await world.start(LONG)) for _ in range(2)}

    await world.restore(backup)
    await world.sleep(HOUR / 2)

    assert await running(world) == tags
    assert not world.engine.health().healthy
    assert "2 unknown containers" in world.engine.health().safe_mode
    assert sum("has no job in the restored data" in message for message in caplog.messages) == 2
    await world.leave_safe_mode(purge=True)
    assert world.engine.health().healthy
    await world.wait_until_containers_are_gone()


async def test_a_container_of_a_job_that_was_cancelled_before_it_was_attached_is_kept(world):
    job, backup = await started_since(world, LONG)
    world.runtime.runtime.faults.unreachable = True

    await world.restore(backup)
    await world.cancel(job)
    world.runtime.runtime.faults.unreachable = False
    await world.sleep(30)

    await world.wait_for(job, Status.FAILED)
    assert await running(world) == {tag_of(job)}


async def test_a_container_of_an_attempt_that_ended_in_the_backup_is_removed(world):
    world.runtime.hold("remove")
    await world.run(Script(seconds=1))
    await world.crash()
    world.runtime.release("remove")

    await world.restore(world.backup())

    await world.wait_until_containers_are_gone()


async def test_without_purge_orphaned_containers_are_kept_permanently(world):
    backup = world.backup()
    tag = tag_of(await world.start(LONG))
    await world.restore(backup)

    await world.leave_safe_mode(purge=False)
    await world.sleep(HOUR / 4)
    await world.restart()
    await world.sleep(HOUR / 4)

    assert await running(world) == {tag}
    assert world.engine.health().healthy
    await world.leave_safe_mode(purge=True)


async def test_a_purge_continues_after_a_restart(world):
    backup = world.backup()
    jobs = await world.submit_many(5, LONG)
    await world.wait_for(jobs[-1], Status.RUNNING)
    await world.restore(backup)
    world.runtime.unreachable = True
    await world.leave_safe_mode(purge=True)
    await world.crash()
    world.runtime.unreachable = False

    await world.boot()

    await world.wait_until_containers_are_gone()


async def test_a_purge_keeps_a_container_of_a_task_that_waits(world):
    world.runtime.hold("start")
    both = task(contained("a", Script(seconds=30)), contained("b", Script(seconds=30), after={"a": "START"}))
    job = await world.submit(task=both)
    await world.wait_for_call(job, "start", container_key="0/a")
    backup = world.backup()
    world.runtime.release("start")
    await world.wait_until(
        job, lambda job: job.attempt is not None and job.attempt.containers[1].started_at is not None
    )
    world.runtime.hold("create")
    await world.restore(backup)

    await world.leave_safe_mode(purge=True)

    world.runtime.release("create")
    await world.wait_for(job, Status.SUCCEEDED)
    assert await world.engine_calls_by_container(job, "start") == ["0/a", "0/b"]


async def test_stop_orders_are_carried_out_in_safe_mode(world):
    job = await world.start(LONG)
    await world.restore(world.backup())

    await world.terminate(job, "by hand")

    await world.wait_for(job, Status.FAILED, status_reason="by hand")
    await world.wait_until_containers_are_gone()


# ---------------------------------------------------------------------------------------------------------- not started


async def test_queued_jobs_do_not_start_in_safe_mode(world):
    before = await world.start(LONG, millicpus=4000)
    waits = await world.submit(Script(seconds=1))
    await world.restore(world.backup())
    await world.terminate(before)
    fresh = await world.submit(Script(seconds=1))
    await world.sleep(HOUR / 4)
    assert [(job.status, job.status_reason) for job in await world.described(waits, fresh)] == [
        (Status.RUNNABLE, status_reasons.SAFE_MODE)
    ] * 2

    await world.leave_safe_mode(purge=False)

    await world.wait_for(waits, Status.SUCCEEDED)
    await world.wait_for(fresh, Status.SUCCEEDED)


async def test_a_job_starting_in_the_backup_does_not_start_in_safe_mode(world):
    """The job may have run and ended long ago."""
    job = await world.submit_until("create", Script(seconds=1))
    backup = world.backup()
    world.runtime.release("create")
    await world.wait_for(job, Status.SUCCEEDED)

    await world.restore(backup)
    await world.sleep(HOUR / 4)

    assert (await world.job(job)).status is Status.STARTING
    assert await starts(world, job) == 1
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_container_only_created_since_the_backup_does_not_start_in_safe_mode(world):
    before = await world.start(LONG, millicpus=4000)
    job = await world.submit(Script(seconds=1))
    await world.wait_for(job, Status.RUNNABLE)
    backup = world.backup()
    world.runtime.hold("start")
    await world.terminate(before)
    await world.wait_for(job, Status.STARTING)
    await world.sleep(1)
    await world.crash()
    world.runtime.release("start")

    await world.restore(backup)
    await world.sleep(HOUR / 4)

    assert (await world.job(job)).status is Status.RUNNABLE
    assert "1 unknown container" in world.engine.health().safe_mode
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_container_created_before_the_backup_does_not_start_in_safe_mode(world):
    world.runtime.hold("start")
    job = await world.submit(Script(seconds=1))
    await world.wait_until(
        job, lambda job: job.attempt is not None and job.attempt.containers[0].container_id is not None
    )
    backup = world.backup()
    await world.crash()
    world.runtime.release("start")

    await world.restore(backup)
    await world.sleep(HOUR / 4)

    assert (await world.job(job)).status is Status.STARTING
    assert [container.state for container in await world.runtime.survey()] == ["CREATED"]
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_the_next_container_of_an_attached_task_does_not_start_in_safe_mode(world):
    first = contained("first", Script(seconds=20), essential=False)
    second = contained("second", Script(seconds=1), after={"first": "SUCCESS"})
    job = await world.submit(task=task(first, second))
    await world.wait_for(job, Status.RUNNING)
    await world.restore(world.backup())

    await world.sleep(HOUR / 4)

    assert await world.engine_calls_by_container(job, "create") == ["0/first"]
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.SUCCEEDED)
    assert await world.engine_calls_by_container(job, "start") == ["0/first", "0/second"]


async def test_an_abandoned_start_is_abandoned_in_safe_mode(world):
    job = await world.submit_until("create", Script(seconds=1))
    backup = world.backup()
    world.runtime.release("create")
    await world.wait_for(job, Status.SUCCEEDED)
    await world.restore(backup)

    await world.terminate(job, "not again")

    await world.wait_for(job, Status.FAILED, status_reason="not again")
    assert await starts(world, job) == 1


@pytest.mark.parametrize("limit", [None, 60], ids=["unlimited", "its timeout long over"])
async def test_an_absent_container_is_lost_only_after_safe_mode(world, limit):
    job = await world.start(Script(seconds=20), limit=limit)
    backup = world.backup()
    await world.wait_for(job, Status.SUCCEEDED)

    await world.restore(backup)
    await world.sleep(HOUR / 4)

    assert (await world.job(job)).status is Status.RUNNING
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)


async def test_a_container_removed_in_safe_mode_is_lost_only_after_it(world):
    job = await world.start(LONG)
    await world.restore(world.backup())

    world.machine.remove_externally(tag_of(job))
    await world.sleep(HOUR / 4)

    assert (await world.job(job)).status is Status.RUNNING
    await world.leave_safe_mode(purge=False)
    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)


async def test_a_terminated_job_with_an_absent_container_ends_in_safe_mode(world):
    job = await world.start(Script(seconds=20))
    backup = world.backup()
    await world.wait_for(job, Status.SUCCEEDED)
    await world.restore(backup)

    await world.terminate(job, "not again")

    await world.wait_for(job, Status.FAILED, status_reason="not again")


async def test_a_restart_does_not_end_safe_mode(world):
    await world.run(Script(seconds=1))
    await world.restore(world.backup())

    await world.restart()

    assert world.engine.health().safe_mode is not None
    await world.leave_safe_mode(purge=False)
    await world.restart()
    assert world.engine.health().safe_mode is None


async def test_safe_mode_does_not_end_before_the_first_survey(world):
    backup = world.backup()
    world.runtime.unreachable = True
    await world.restore(backup)

    with pytest.raises(Invalid, match="has not answered"):
        await world.leave_safe_mode(purge=True)

    assert world.engine.health().safe_mode is not None


async def test_safe_mode_does_not_end_before_attached_jobs_are_saved(world):
    job, backup = await started_since(world, Script(seconds=60))
    world.runtime.unreachable = True
    await world.restore(backup)
    world.store.failing = True
    world.runtime.unreachable = False
    await world.wait_for_engine(up=True)
    await world.sleep(1)
    world.store.failing = False

    with pytest.raises(Invalid, match="not known yet"):
        await world.leave_safe_mode(purge=True)

    await world.wait_for(job, Status.RUNNING)
    await world.leave_safe_mode(purge=True)
    await world.wait_for(job, Status.SUCCEEDED)
    assert await starts(world, job) == 1


async def test_to_leave_safe_mode_without_a_restore_changes_nothing(world):
    job = await world.start(LONG)

    await world.leave_safe_mode(purge=True)

    assert await running(world) == {tag_of(job)}
