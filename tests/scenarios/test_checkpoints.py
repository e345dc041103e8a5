"""A job with checkpoints has one directory for all its attempts, which outlives them."""

from batchq.domain.checkpoints import MOUNT_POINT
from batchq.domain.job import Status
from tests.support.scripts import Script, lasting

CHECKPOINTS = {"batchq:checkpoints": "true"}
SHOWN = ("BATCHQ_CHECKPOINT_DIR", "BATCHQ_RESUME_FROM")


async def test_a_container_finds_the_directory_in_its_environment(world):
    job = await world.submit(lasting(prints_environment=SHOWN), tags=CHECKPOINTS)

    await world.wait_for_output(job, MOUNT_POINT)
    assert world.checkpoints.directory(job) is not None
    await world.finish(job)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_job_without_checkpoints_has_no_directory(world):
    job = await world.submit(Script(seconds=0))

    await world.wait_for(job, Status.SUCCEEDED)
    assert world.checkpoints.directory(job) is None


async def test_the_next_attempt_resumes_from_the_newest_checkpoint(world):
    first = Script(seconds=0, exit_code=1, checkpoints=("step-1", "step-2"))
    second = lasting(prints_environment=SHOWN)

    job = await world.submit(first, later=(second,), tags=CHECKPOINTS, attempts=2)

    await world.wait_until(job, lambda it: it.attempt is not None and it.attempt.number > 1)
    await world.wait_for_output(job, f"{MOUNT_POINT}/step-2")
    assert [it.name for it in await world.checkpoints.entries(job, ended=True)] == ["step-1", "step-2"]
    await world.finish(job)
    await world.wait_for(job, Status.SUCCEEDED)
