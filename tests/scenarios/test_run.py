"""A job runs, and is described as it ran."""

from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script


async def test_a_job_passes_from_submitted_to_succeeded(world):
    job = await world.submit(Script(seconds=0))

    done = await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED, stop_orders=())

    assert [(it.number, it.exit_code, it.status_reason) for it in done.attempts] == [(1, 0, status_reasons.EXITED)]
    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


async def test_a_job_with_another_exit_code_is_failed_with_it(world):
    job = await world.submit(Script(seconds=0, exit_code=42))

    await world.wait_for(
        job,
        Status.FAILED,
        status_reason=status_reasons.EXITED,
        exit_codes=[42],
        is_terminated=False,
        is_cancelled=False,
    )


async def test_overrides_that_are_too_long_fail_the_job_before_it_starts(world):
    submission = await world.submission(attempts=3)
    overrides = replace(submission.overrides, environment=(("LONG", "x" * 8192),))

    job = await world.jobs.submit(replace(submission, overrides=overrides), caller=ADMIN)

    await world.wait_for(
        job.id, Status.FAILED, status_reason=status_reasons.OVERRIDES_TOO_LONG, attempts=(), started_at=None
    )
    assert await world.statuses(job.id) == ["SUBMITTED", "FAILED"]


async def test_times_are_those_of_the_container_in_order(world):
    job = await world.submit(Script(seconds=1))

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.created_at <= done.started_at <= done.stopped_at
    assert 0.9 <= (done.stopped_at - done.started_at).total_seconds() < 1 + world.slack.total_seconds()


async def test_the_log_outlives_the_container(world):
    job = await world.submit(Script(seconds=0, output=("one", "two")))

    await world.wait_for(job, Status.SUCCEEDED)

    assert await world.engine_calls(job) == ["create", "start", "remove"]
    assert await world.output(job) == ["one", "two"]


async def test_a_job_that_does_not_fit_waits_and_is_not_passed(world):
    first = await world.submit(LASTING, millicpus=3000)
    large = await world.submit(Script(seconds=0), millicpus=4000)
    small = await world.submit(Script(seconds=0), millicpus=250)

    await world.wait_for(first, Status.RUNNING)
    assert (await world.job(large)).status is Status.RUNNABLE
    assert (await world.job(small)).status is Status.RUNNABLE
    await world.finish(first)

    small_done = await world.wait_for(small, Status.SUCCEEDED)
    large_done = await world.wait_for(large, Status.SUCCEEDED)
    assert large_done.started_at >= (await world.job(first)).stopped_at
    assert small_done.started_at >= large_done.started_at


async def test_jobs_of_the_queue_of_higher_priority_start_first(world):
    await world.queue("urgent", priority=10)
    first = await world.submit(LASTING, millicpus=4000)
    low = await world.submit(Script(seconds=0), millicpus=4000)
    high = await world.submit(Script(seconds=0), millicpus=4000, queue="urgent")

    await world.finish(first)
    low_done = await world.wait_for(low, Status.SUCCEEDED)

    high_done = await world.wait_for(high, Status.SUCCEEDED)
    assert (await world.job(first)).stopped_at <= high_done.started_at <= low_done.started_at


async def test_an_unschedulable_job_shows_the_reason_and_blocks_no_other(world):
    giant = await world.submit(Script(seconds=0), millicpus=64_000)
    fat = await world.submit(Script(seconds=0), memory_mib=1 << 30)
    small = await world.submit(Script(seconds=0))

    await world.wait_for(small, Status.SUCCEEDED)

    await world.wait_for(
        giant, Status.RUNNABLE, unschedulable=True, status_reason=status_reasons.too_many_vcpus(64_000, 4000)
    )
    reason = (await world.wait_for(fat, Status.RUNNABLE, unschedulable=True)).status_reason
    assert reason.startswith(f"{status_reasons.TOO_LARGE} It asks for {1 << 30} MiB of memory (there are ")


async def test_an_unschedulable_job_runs_once_an_environment_is_large_enough(world):
    giant = await world.submit(Script(seconds=0), millicpus=64_000)
    await world.wait_for(giant, Status.RUNNABLE, unschedulable=True)

    await world.catalog.compute_environments.update("local", lambda it: replace(it, max_millicpus=64_000), caller=ADMIN)

    await world.wait_for(giant, Status.SUCCEEDED, unschedulable=False)


async def test_too_many_propagated_tags_fail_the_job(world):
    submission = await world.submission()
    tags = tuple((f"key-{number}", "") for number in range(51))

    job = await world.jobs.submit(replace(submission, tags=tags, propagate_tags=True), caller=ADMIN)

    await world.wait_for(
        job.id, Status.FAILED, status_reason=status_reasons.TOO_MANY_TAGS, attempts=(), started_at=None
    )
