"""The host cannot start containers, for a cause that no job can choose. Decision 0038."""

import pytest

from batchq.domain.job import Status
from batchq.errors import StartRefused
from tests.support.scripts import Script

CGROUPS = "unable to apply cgroup configuration: mkdir /sys/fs/cgroup/cpuset/docker: no such file or directory"
BROKEN = StartRefused(f"CannotStartContainerError: {CGROUPS}", exit_code=127, certain=False, host_failed=True)


async def starts(world, count):
    """Return once so many more starts have failed."""

    async def so():
        return len([what for _, what in world.runtime.all_calls if what == "start"]) >= before + count

    before = len([what for _, what in world.runtime.all_calls if what == "start"])
    await world._until(so, "starts are not tried any more")


@pytest.mark.fault("CO04")
async def test_while_the_host_cannot_start_containers_no_attempt_is_used_up(world, caplog):
    await world.wait_for(await world.submit(Script(seconds=0)), Status.SUCCEEDED)
    world.runtime.errors["start"] = BROKEN

    jobs = await world.submit_many(41 if world.virtual else 5, Script(seconds=0), attempts=2)
    await world.wait_for_engine(up=False)
    if world.virtual:
        await world.sleep(600)
    await starts(world, 2)

    assert world.engine.health().engine == f"containers cannot be started: {BROKEN.reason}"
    assert len([it for it in caplog.messages if "cannot start containers" in it]) == 1
    del world.runtime.errors["start"]
    assert [len((await world.wait_for(it, Status.SUCCEEDED)).attempts) for it in jobs] == [1] * len(jobs)
    await world.wait_for_engine(up=True)


@pytest.mark.fault("CO04")
async def test_one_start_at_a_time_probes_a_broken_host(world):
    await world.wait_for(await world.submit(Script(seconds=0)), Status.SUCCEEDED)
    world.runtime.errors["start"] = BROKEN
    jobs = await world.submit_many(4, Script(seconds=0))
    await world.wait_for_engine(up=False)
    await starts(world, 1)

    asked = len(world.runtime.all_calls)
    if world.virtual:
        await world.sleep(300)
        assert len(world.runtime.all_calls) - asked <= 2 * (300 / 30 + 5)  # a create and a start each
    await world.terminate(jobs[0], "waited long enough")

    await world.wait_for(jobs[0], Status.FAILED, status_reason="waited long enough", attempts=())
    del world.runtime.errors["start"]
    for it in jobs[1:]:
        await world.wait_for(it, Status.SUCCEEDED)


async def test_starts_that_fail_for_causes_in_the_job_delay_no_other_job(world):
    if not world.virtual:
        pytest.skip("the causes are the simulated engine's")
    bad = Script(refuse='error mounting "/x" to rootfs at "/x"', refuse_certain=False)
    for number in range(20):
        await world.submit(bad, image=f"image-{number}", millicpus=1)
    await world.sleep(5)

    good = await world.submit(Script(seconds=0))

    await world.wait_for(good, Status.SUCCEEDED)
    assert world.engine.health().engine is None


async def test_a_host_failure_counts_once_another_start_has_succeeded_since_the_last(world):
    if not world.virtual:
        pytest.skip("the other starts are made between the tries")

    async def refused():
        return not world.runtime.refusals["start"]

    world.runtime.refusals["start"] = [BROKEN]
    job = await world.submit(Script(seconds=0))

    for _ in range(4):
        await world._until(refused, "the start was not tried again")
        await world.wait_for(await world.submit(Script(seconds=0)), Status.SUCCEEDED)
        world.runtime.refusals["start"] = [BROKEN]

    done = await world.wait_for(job, Status.FAILED)
    assert [it.exit_code for it in done.attempts] == [127]
