"""Force-fail: an operator ends a job whose container does not exit, and later it is removed. faults.md 4, T7."""

import pytest

from batchq.domain.enums import Status
from batchq.errors import Invalid, RuntimeUnknown
from tests.support.builders import task
from tests.support.scripts import IGNORES_SIGTERM, Script, contained

WHY = "Force-failed: it does not end"


async def stuck(world, **fields):
    """A terminated job whose container the engine neither kills nor removes."""
    job = await world.start(IGNORES_SIGTERM, **fields)
    world.runtime.hold("kill")
    world.runtime.hold("remove")
    await world.terminate(job, "stop it")
    await world.wait_for_call(job, "kill")
    assert (await world.job(job)).status is Status.RUNNING
    return job


async def test_a_job_that_cannot_be_killed_fails_without_a_retry(world):
    job = await stuck(world, attempts=3)

    failed = await world.force_fail(job)

    assert (failed.status, failed.status_reason) == (Status.FAILED, f"{WHY} (ordered to stop: stop it)")
    assert [(attempt.exit_code, attempt.stopped_at is None) for attempt in failed.attempts] == [(None, False)]
    assert failed.is_terminated
    assert await world.job(job) == failed


async def test_the_capacity_is_free_at_once_and_the_container_is_removed_when_possible(world):
    job = await stuck(world, millicpus=4000)
    tag = (await world.job(job)).tag
    waiting = await world.submit(Script(seconds=60), millicpus=4000)

    await world.force_fail(job)

    await world.wait_for(waiting, Status.RUNNING)
    assert tag in [container.tag for container in await world.runtime.survey()]
    world.runtime.repair()
    await world.terminate(waiting)
    await world.wait_until_containers_are_gone()


async def test_one_removal_is_requested_at_a_time(world):
    job = await stuck(world)
    tag = (await world.job(job)).tag

    await world.force_fail(job)
    await world.sleep(2.5 * world.survey_interval)

    assert world.runtime.calls(tag).count("remove") <= 1


async def test_an_unanswered_removal_is_repeated_by_each_survey(world):
    job = await world.start(IGNORES_SIGTERM)
    world.runtime.refusals["remove"] = [RuntimeUnknown("no answer"), RuntimeUnknown("no answer")]

    await world.force_fail(job)

    await world.wait_until_containers_are_gone()
    assert (await world.job(job)).status_reason == WHY


async def test_after_a_restart_the_container_is_removed(world):
    job = await stuck(world)
    await world.force_fail(job)
    await world.crash()
    world.runtime.repair()

    await world.boot()

    await world.wait_until_containers_are_gone()
    assert (await world.job(job)).status is Status.FAILED


async def test_a_container_whose_start_hangs_is_never_left_running(world):
    job = await world.submit_until("start", Script(seconds=60))

    await world.force_fail(job)

    await world.wait_for(job, Status.FAILED, status_reason=WHY)
    world.runtime.release("start")
    await world.wait_until_containers_are_gone()


async def test_a_job_of_several_containers_is_force_failed_as_a_whole(world):
    pair = task(contained("app", IGNORES_SIGTERM), contained("aside", IGNORES_SIGTERM, essential=False))
    job = await world.submit(task=pair)
    await world.wait_for_output(job, "ready", container_key="0/app")
    await world.wait_for_output(job, "ready", container_key="0/aside")

    await world.force_fail(job)

    done = await world.wait_for(job, Status.FAILED, status_reason=WHY)
    assert [container.exit_code for container in done.attempts[0].containers] == [None, None]


async def test_a_force_failed_child_lets_its_array_end(world):
    parent = await world.submit(Script(seconds=0), array_size=2, children={1: IGNORES_SIGTERM})
    child = f"{parent}:1"
    await world.wait_for_output(child, "ready")
    with pytest.raises(Invalid, match=f"is an array: force-fail its children instead: {child}"):
        await world.force_fail(parent)

    await world.force_fail(child)

    await world.wait_for(parent, Status.FAILED)
    assert (await world.job(child)).status_reason == WHY


async def test_a_queued_job_is_refused_and_a_finished_one_unchanged(world):
    over = await world.submit(Script(seconds=0))
    before = await world.wait_for(over, Status.SUCCEEDED)
    await world.start(Script(seconds=60), millicpus=4000)
    waits = await world.submit(millicpus=4000)

    with pytest.raises(Invalid, match="is RUNNABLE and has no container to give up: terminate it"):
        await world.force_fail(waits)

    assert await world.force_fail(over) == before
