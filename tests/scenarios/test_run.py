"""A job runs, is retried, and is described as it ran. aws-batch.md 6.1."""

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.container import Overrides
from batchq.domain.enums import FINISHED, Status
from tests.support.builders import ADMIN
from tests.support.scripts import IGNORES_SIGTERM, LASTING, Script


async def test_a_job_passes_from_submitted_to_succeeded(world):
    job = await world.submit(Script(seconds=0))

    done = await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED, stop_orders=())

    assert [(attempt.number, attempt.exit_code, attempt.status_reason) for attempt in done.attempts] == [
        (1, 0, status_reasons.EXITED)
    ]
    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overrides": Overrides(environment=(("LONG", "x" * 8192),))}, status_reasons.OVERRIDES_TOO_LONG),
        (
            {"tags": tuple((f"key-{index}", "") for index in range(51)), "propagate_tags": True},
            status_reasons.TOO_MANY_TAGS,
        ),
    ],
    ids=["overrides", "propagated tags"],
)
async def test_a_submission_that_is_too_long_fails_the_job_before_it_starts(world, changes, reason):
    submission = await world.submission(attempts=3)

    job = await world.submissions.submit(replace(submission, **changes), caller=ADMIN)

    await world.wait_for(job.id, Status.FAILED, status_reason=reason, attempts=(), started_at=None)
    assert await world.statuses(job.id) == ["SUBMITTED", "FAILED"]


async def test_times_are_those_of_the_container_in_order(world):
    job = await world.submit(Script(seconds=2))

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert done.created_at <= done.started_at <= done.stopped_at
    # A kubelet reports whole seconds.
    assert 1 <= (done.stopped_at - done.started_at).total_seconds() < 2 + world.slack.total_seconds()


async def test_jobs_of_the_queue_of_higher_priority_start_first(world):
    await world.queue("urgent", priority=10)
    first = await world.submit(LASTING, millicpus=4000)
    low = await world.submit(Script(seconds=0), millicpus=4000)
    high = await world.submit(Script(seconds=0), millicpus=4000, queue="urgent")

    await world.finish(first)
    low_done = await world.wait_for(low, Status.SUCCEEDED)

    high_done = await world.wait_for(high, Status.SUCCEEDED)
    assert (await world.job(first)).stopped_at <= high_done.started_at <= low_done.started_at


@pytest.mark.fault("TM05")
async def test_an_unschedulable_job_shows_the_reason_and_blocks_no_other(world):
    giant = await world.submit(Script(seconds=0), millicpus=64_000)
    fat = await world.submit(Script(seconds=0), memory_mib=1 << 30)
    small = await world.submit(Script(seconds=0))

    await world.wait_for(small, Status.SUCCEEDED)

    await world.wait_for(
        giant, Status.RUNNABLE, unschedulable=True, status_reason=status_reasons.too_many_vcpus(64_000, 4000)
    )
    reason = (await world.wait_for(fat, Status.RUNNABLE, unschedulable=True)).status_reason
    assert reason.startswith(status_reasons.TOO_LARGE)
    assert f" {1 << 30} MiB of memory" in reason


async def test_an_unschedulable_job_runs_once_an_environment_is_large_enough(world):
    giant = await world.submit(Script(seconds=0), millicpus=64_000)
    await world.wait_for(giant, Status.RUNNABLE, unschedulable=True)

    await world.catalog.compute_environments.update(
        "local", lambda value: replace(value, max_millicpus=64_000), caller=ADMIN
    )

    await world.wait_for(giant, Status.SUCCEEDED, unschedulable=False)


async def test_each_attempt_has_its_own_container(world):
    job = await world.submit(Script(seconds=0, exit_code=7), attempts=3)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)

    assert [(attempt.number, attempt.exit_code) for attempt in done.attempts] == [(1, 7), (2, 7), (3, 7)]
    assert [await world.engine_calls(job, attempt=attempt) for attempt in (1, 2, 3)] == [
        ["create", "start", "remove"]
    ] * 3
    assert (await world.statuses(job)).count("RUNNABLE") == 3


async def test_each_attempt_gets_its_number(world):
    script = Script(seconds=0, exit_code=1, prints_environment=("AWS_BATCH_JOB_ATTEMPT",))
    job = await world.submit(script, attempts=2)

    await world.wait_for(job, Status.FAILED)

    assert [await world.output(job, attempt=attempt) for attempt in (1, 2)] == [["1"], ["2"]]


KILLED = (137, status_reasons.EXITED)


@pytest.mark.fault("EN12", "EN13")
@pytest.mark.parametrize(
    ("action", "end"),
    [("kill", KILLED), ("remove", (None, status_reasons.DISAPPEARED))],
    ids=["killed", "removed"],
)
async def test_a_container_that_another_program_ends_uses_up_its_attempt(world, action, end):
    job = await world.start(IGNORES_SIGTERM, later=(LASTING,), attempts=2)

    await getattr(world.runtime, action)((await world.job(job)).tag)

    await world.wait_until(job, lambda value: value.attempt is not None and value.attempt.number == 2)
    await world.finish(job)
    done = await world.wait_for(job, Status.SUCCEEDED)
    first, second = ((attempt.exit_code, attempt.status_reason) for attempt in done.attempts)
    # Docker kills a container before it removes it, and batchq may see the exit in between.
    assert first == end or (not world.virtual and first == KILLED), first
    assert second == (0, status_reasons.EXITED)


@pytest.mark.fault("EN20")
async def test_a_missing_command_fails_the_attempt_with_127(world):
    job = await world.submit(Script(refuse="exec: no such file"), attempts=2)

    done = await world.wait_for(
        job, Status.FAILED, status_reason=status_reasons.NOT_STARTED, started_at=None, exit_codes=[127, 127]
    )

    assert done.attempts[0].reason.startswith("CannotStartContainerError: ")


STORM, WAITING = 20, 1000
ATTEMPTS = 10


@pytest.mark.fault("TM04")
async def test_a_job_that_fails_at_once_has_its_attempts_one_after_another(simulated):
    job = await simulated.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS)

    await simulated.wait_for(job, Status.FAILED, exit_codes=[1] * ATTEMPTS)

    calls = [what for tag, what in simulated.runtime.all_calls if tag.job_id == job]
    assert calls == ["create", "start", "remove"] * ATTEMPTS


@pytest.mark.exhaustive
@pytest.mark.fault("TM04", "TM07")
async def test_many_retries_keep_the_order_of_a_long_queue(simulated):
    failing = [await simulated.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS) for _ in range(STORM)]
    waiting = await simulated.submit_many(WAITING, Script(seconds=1))

    ends = [await simulated.wait_until(job, lambda job: job.status in FINISHED) for job in (*failing, *waiting)]

    begun = [tag.job_id for tag, what in simulated.runtime.all_calls if what == "start" and tag.attempt == 1]
    assert begun == [*failing, *waiting]
    assert [end.status for end in ends] == [Status.FAILED] * STORM + [Status.SUCCEEDED] * WAITING
    assert {len(end.attempts) for end in ends[:STORM]} == {ATTEMPTS}
