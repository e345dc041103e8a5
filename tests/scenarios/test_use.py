"""What attempts use is sampled while they run, saved with their end, and never awaited by it. Decision 0095."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.engine.use import SAVE_INTERVAL
from batchq.errors import ContainerGone
from tests.support.builders import ADMIN, task
from tests.support.scripts import LASTING, Script, contained, lasting

MIB = 2**20
APP, SIDECAR = "0/app", "0/sidecar"
BUSY = lasting(cpus=0.5, memory_mib=20)
#: Uses 2 s of CPU time by the scheduler's own count, then says so. `ulimit -t` counts ticks, and is wrong by 15 %.
BURNS = (
    "while read ns rest < /proc/self/schedstat && [ $ns -lt 2000000000 ]; do "
    "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; done; "
    "echo ready; trap 'exit 0' TERM; sleep 1000 & wait"
)


async def sampled(world, job_id, *, key=""):
    """Wait for a sample of the container that is taken after this call. Returns it."""
    began, job = world.clock.now(), await world.wait_for(job_id, Status.RUNNING)
    tag = replace(job.tag, container_key=key)

    async def holds():
        use = world.engine.use.latest.get(tag)
        return use is not None and use.sampled_at > began

    await world.until(holds, f"{tag} is not measured")
    return world.engine.use.latest[tag]


async def stored(world, job_id):
    """The use of the attempt under way, as it is stored."""
    return (await world.job(job_id)).attempt.use


async def ended(world, job_id, status=Status.SUCCEEDED):
    return (await world.wait_for(job_id, status)).attempts[-1]


async def test_an_attempt_keeps_its_last_sample(simulated):
    job = await simulated.run(Script(seconds=30.5, cpus=0.5, memory_mib=20))

    attempt = await ended(simulated, job)
    use = attempt.use
    assert attempt.stopped_at - timedelta(seconds=1) <= use.sampled_at <= attempt.stopped_at
    assert use.cpu_seconds == pytest.approx(0.5 * (use.sampled_at - attempt.started_at).total_seconds())
    assert (use.peak_memory, use.working_set) == (20 * MIB, 20 * MIB)
    assert (use.bytes_read, use.bytes_written) == (None, None)
    assert simulated.engine.use.latest == {}
    assert simulated.engine.use.series == {}


async def test_the_samples_of_a_running_attempt_are_points_and_a_rate_in_the_activity(simulated):
    job_id = await simulated.start(BUSY)
    for _ in range(2):
        await sampled(simulated, job_id)
    await simulated.server.recorder.record_once()
    job = await simulated.wait_for(job_id, Status.RUNNING)

    points = simulated.engine.use.points(job)
    (bucket,) = (await simulated.server.activity.activity(job.spec.queue, caller=ADMIN)).buckets
    environments = await simulated.server.activity.environments([job.attempt.environment], caller=ADMIN)

    assert len(points) > 1
    assert {point.memory for point in points} == {20 * MIB}
    load = bucket.load
    assert (load.measured, load.used_millicpus, load.used_mib) == (1, pytest.approx(500, abs=2), 20)
    (placed,) = environments[job.attempt.environment].buckets
    assert placed.load == load


async def test_a_short_job_is_measured_too(simulated):
    job = await simulated.run(Script(seconds=0.3, cpus=1, memory_mib=20))

    assert (await ended(simulated, job)).use.cpu_seconds == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize(
    "script", [Script(seconds=5), Script(seconds=0.02, cpus=1, memory_mib=20)], ids=["no measures", "too short"]
)
async def test_a_job_without_a_sample_is_not_measured(simulated, script):
    await simulated.run(Script(seconds=2, cpus=1))  # so that the runtime measures
    job = await simulated.run(script)

    attempt = await ended(simulated, job)
    assert (attempt.use, attempt.containers[0].use) == (None, None)


async def test_an_unmeasured_figure_is_not_zero(simulated):
    job = await simulated.run(Script(seconds=5, memory_mib=20))

    use = (await ended(simulated, job)).use
    assert (use.cpu_seconds, use.peak_memory) == (None, 20 * MIB)


async def test_the_end_of_a_job_does_not_wait_for_a_sample(world):
    job = await world.start(BUSY)
    before = await sampled(world, job)
    world.runtime.hold("measure")

    await world.finish(job, Status.SUCCEEDED)

    use = (await ended(world, job)).use
    assert use.cpu_seconds >= before.cpu_seconds
    assert use.sampled_at >= before.sampled_at


async def test_a_sample_that_comes_after_the_end_is_dropped(simulated):
    simulated.runtime.hold("measure")
    job = await simulated.start(BUSY)
    other = await simulated.start(BUSY)
    await simulated.finish(job, Status.SUCCEEDED)

    simulated.runtime.release("measure")
    await sampled(simulated, other)

    assert (await ended(simulated, job)).use is None
    assert {tag.job_id for tag in simulated.engine.use.latest} == {other}


async def test_each_attempt_has_its_own_use(simulated):
    fails = Script(seconds=10, cpus=1, memory_mib=30, exit_code=1)
    job = await simulated.run(fails, attempts=2, later=[Script(seconds=5, memory_mib=20)])

    first, second = (await simulated.job(job)).attempts
    assert (first.use.peak_memory, second.use.peak_memory) == (30 * MIB, 20 * MIB)
    assert second.use.cpu_seconds is None


async def test_the_use_of_a_task_is_the_sum_of_its_containers(simulated):
    app, sidecar = contained("app", BUSY), contained("sidecar", BUSY, essential=False)
    job = await simulated.submit(task=task(app, sidecar))
    await sampled(simulated, job, key=APP)
    await sampled(simulated, job, key=SIDECAR)

    await simulated.finish(job, Status.SUCCEEDED, container_key=APP)

    attempt = await ended(simulated, job)
    assert [container.use.peak_memory for container in attempt.containers] == [20 * MIB, 20 * MIB]
    assert attempt.use.peak_memory == 40 * MIB
    assert attempt.use.cpu_seconds == sum(container.use.cpu_seconds for container in attempt.containers)


async def test_a_task_with_an_unmeasured_container_is_not_measured(simulated):
    app, sidecar = contained("app", BUSY), contained("sidecar", LASTING, essential=False)
    job = await simulated.submit(task=task(app, sidecar))
    await sampled(simulated, job, key=APP)

    await simulated.finish(job, Status.SUCCEEDED, container_key=APP)

    attempt = await ended(simulated, job)
    assert attempt.use is None
    assert [container.use is None for container in attempt.containers] == [False, True]


async def test_a_lost_container_keeps_its_last_sample(simulated):
    job = await simulated.start(BUSY)
    last = await sampled(simulated, job)

    simulated.machine.remove_externally((await simulated.job(job)).tag)

    attempt = await ended(simulated, job, Status.FAILED)
    assert attempt.status_reason == status_reasons.DISAPPEARED
    assert attempt.use.sampled_at >= last.sampled_at


async def test_running_containers_are_sampled_together(simulated):
    jobs = [await simulated.start(BUSY) for _ in range(3)]
    for job in jobs:
        await sampled(simulated, job)
    await simulated.clock.sleep(2)
    del simulated.runtime.measured[:]

    await simulated.clock.sleep(10)

    tags = {(await simulated.job(job)).tag for job in jobs}
    assert simulated.runtime.measured == [tags] * 10


async def test_a_runtime_that_measures_nothing_is_asked_once_a_minute(simulated):
    job = await simulated.start(LASTING)

    await simulated.clock.sleep(600)

    assert len(simulated.runtime.measured) in range(9, 12)
    await simulated.finish(job, Status.SUCCEEDED)


async def until_stored(world, job_id):
    """Wait until a survey has saved a sample of the running attempt."""
    await sampled(world, job_id)
    world.engine._watcher.survey_now()
    await world.wait_until(job_id, lambda job: job.attempt.use is not None)
    return await stored(world, job_id)


async def test_a_saved_sample_survives_a_crash_and_an_end_without_a_server(world):
    job = await world.start(BUSY)
    saved = await until_stored(world, job)
    tag = (await world.job(job)).tag
    await world.crash()

    async def is_over():
        with suppress(ContainerGone):
            await world.machine.signal_stop(tag)
        return (await world.machine.inspect(tag)).exit_code is not None

    await world.until(is_over, "the container did not end")
    await world.boot()

    assert (await ended(world, job)).use == saved


async def test_the_use_goes_on_after_a_restart(world):
    job = await world.start(BUSY)
    before = await until_stored(world, job)

    await world.restart()
    after = await sampled(world, job)
    await world.finish(job, Status.SUCCEEDED)

    use = (await ended(world, job)).use
    assert use.sampled_at >= after.sampled_at > before.sampled_at
    assert use.cpu_seconds >= before.cpu_seconds
    assert use.working_set >= before.working_set


async def test_samples_of_a_running_job_are_saved_once_a_minute(simulated):
    job = await simulated.start(BUSY)
    first = await until_stored(simulated, job)

    await simulated.clock.sleep(10 * 60)

    times = []
    for _ in range(4):
        times.append((await stored(simulated, job)).sampled_at)
        await simulated.clock.sleep(30)
    assert times[0] > first.sampled_at
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert all(gap == timedelta() or gap >= SAVE_INTERVAL for gap in gaps)
    await simulated.finish(job, Status.SUCCEEDED)


@pytest.mark.docker
@pytest.mark.parametrize("world", ["docker"], indirect=True)
async def test_cpu_time_and_memory_are_those_of_the_program(world):
    held = [f"dd if=/dev/zero of=/dev/shm/held bs=1M count={mib} 2>/dev/null; {BURNS}" for mib in (16, 56)]
    uses = []
    for command in ("sleep 0", *held):  # the first one reads the files of the image
        job = await world.submit(LASTING, command=("sh", "-c", command), memory_mib=128)
        if "ready" in command:
            await world.wait_for_output(job, "ready")
            uses.append(await sampled(world, job))
            await world.finish(job)
        await world.wait_for(job, Status.SUCCEEDED)

    less, more = uses  # both also hold the memory of a shell
    assert [use.cpu_seconds for use in uses] == pytest.approx([2, 2], rel=0.05)
    assert more.peak_memory - less.peak_memory == pytest.approx(40 * MIB, abs=MIB)
    assert more.working_set - less.working_set == pytest.approx(40 * MIB, abs=MIB)
