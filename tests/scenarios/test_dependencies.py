"""dependsOn between single jobs. aws-batch.md 7."""

import pytest

from batchq.domain import reasons
from batchq.domain.job import Status
from batchq.errors import Invalid
from tests.support.scripts import Script


async def test_a_job_waits_for_all_it_depends_on(world):
    quick, slow = await world.submit(Script(seconds=0)), await world.submit(Script(seconds=1))
    job = await world.submit(after=[quick, slow])
    assert (await world.job(job)).status is Status.PENDING

    done = await world.then(job, Status.SUCCEEDED)

    assert done.started_at >= (await world.job(slow)).stopped_at
    assert await world.walk(job) == ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


async def test_it_fails_when_one_of_them_does(world):
    slow = await world.submit(Script(seconds=1))
    wrong = await world.submit(Script(seconds=0, exit_code=1))
    job = await world.submit(after=[slow, wrong])

    await world.then(job, Status.FAILED, status_reason=reasons.DEPENDENCY_FAILED, attempts=(), started_at=None)

    await world.then(slow, Status.SUCCEEDED)


async def test_one_that_has_succeeded_is_no_wait(world):
    before = await world.submit(Script(seconds=0))
    await world.then(before, Status.SUCCEEDED)

    job = await world.submit(after=[before])

    await world.then(job, Status.SUCCEEDED)
    assert "PENDING" not in await world.walk(job)


async def test_one_that_has_failed_fails_it_at_once(world):
    before = await world.submit(Script(seconds=0, exit_code=1))
    await world.then(before, Status.FAILED)

    job = await world.submit(after=[before])

    await world.then(job, Status.FAILED, status_reason=reasons.DEPENDENCY_FAILED)


async def test_it_waits_through_all_attempts(world):
    before = await world.submit(Script(seconds=0, exit_code=1), attempts=2)

    job = await world.submit(after=[before])

    await world.then(job, Status.FAILED, status_reason=reasons.DEPENDENCY_FAILED)
    assert len((await world.job(before)).attempts) == 2


async def test_an_id_that_was_never_given_is_refused(world):
    with pytest.raises(Invalid, match="does not exist"):
        await world.submit(after=["00000000-0000-0000-0000-000000000000"])
