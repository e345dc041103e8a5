"""The machine goes down with its containers. On a real engine: tests/faults/test_engine_restarts.py."""

import pytest

from batchq.compute.simulated.runtime import KILLS_ENGINE
from batchq.domain import status_reasons
from batchq.domain.enums import Action, Status
from batchq.domain.job import ExitRule
from batchq.errors import StartRefused
from tests.support.scripts import Script

RULES = (ExitRule(action=Action.RETRY, on_status_reason="Host EC2*"), ExitRule(action=Action.EXIT, on_reason="*"))


async def test_a_retry_rule_for_lost_hosts_retries_the_job(simulated):
    job = await simulated.start(Script(seconds=30), attempts=3, rules=RULES)

    simulated.machine.restart_machine()

    done = await simulated.wait_for(job, Status.SUCCEEDED)
    ends = [(attempt.exit_code, attempt.status_reason) for attempt in done.attempts]
    assert ends == [(255, status_reasons.HOST_TERMINATED), (0, status_reasons.EXITED)]


async def test_a_container_that_failed_before_is_not_lost_with_the_host(simulated):
    job = await simulated.submit(Script(seconds=1, exit_code=3), attempts=3, rules=RULES)
    await simulated.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)


async def test_a_retry_rule_for_lost_hosts_applies_after_a_reboot(simulated):
    job = await simulated.start(Script(seconds=30), attempts=3, rules=RULES)

    await simulated.crash()
    simulated.machine.restart_machine()
    await simulated.boot()

    assert len((await simulated.wait_for(job, Status.SUCCEEDED)).attempts) == 2


async def test_containers_removed_with_the_host_are_lost_with_it(simulated):
    job = await simulated.submit(Script(seconds=30), attempts=2, rules=RULES)
    tag = (await simulated.wait_for(job, Status.RUNNING)).tag

    await simulated.crash()
    simulated.machine.restart_machine()
    simulated.machine.remove_externally(tag)
    await simulated.boot()

    done = await simulated.wait_for(job, Status.SUCCEEDED)
    assert done.attempts[0].status_reason == status_reasons.HOST_TERMINATED


def runs(simulated, job):
    """How often the program of each of its containers ran, as far as they are there."""
    containers = [container for tag, container in simulated.machine.engine.containers.items() if tag.job_id == job]
    return [container.unsaved_runs + (container.started_at is not None) for container in containers]


@pytest.fixture
async def cut_in_two(simulated):
    """A job whose container has run, but is CREATED for the engine, which ended before it saved the start."""
    simulated.machine.faults.plan("start", KILLS_ENGINE)
    job = await simulated.submit(Script(seconds=1), attempts=2, rules=RULES)

    async def has_run():
        return runs(simulated, job) == [1]

    await simulated.until(has_run, "the container was not started")
    return job


@pytest.mark.fault("EN02")
async def test_a_start_interrupted_by_the_end_of_the_engine_is_lost_and_not_repeated(simulated, cut_in_two):
    done = await simulated.wait_for(cut_in_two, Status.SUCCEEDED)

    ends = [(attempt.exit_code, attempt.status_reason) for attempt in done.attempts]
    assert ends == [(None, status_reasons.HOST_TERMINATED), (0, status_reasons.EXITED)]
    assert all(count <= 1 for count in runs(simulated, cut_in_two))


@pytest.mark.fault("EN02")
async def test_an_interrupted_start_is_not_repeated_by_the_next_server(simulated, cut_in_two):
    await simulated.crash()
    await simulated.boot()

    done = await simulated.wait_for(cut_in_two, Status.SUCCEEDED)

    assert [attempt.status_reason for attempt in done.attempts] == [
        status_reasons.HOST_TERMINATED,
        status_reasons.EXITED,
    ]
    assert all(count <= 1 for count in runs(simulated, cut_in_two))


CGROUPS = "unable to apply cgroup configuration: mkdir /sys/fs/cgroup/cpuset/docker: no such file or directory"
BROKEN = StartRefused(f"CannotStartContainerError: {CGROUPS}", exit_code=127, certain=False, host_failed=True)


async def starts(world, count):
    """Return once so many more starts have failed."""

    async def so():
        return len([what for _, what in world.runtime.all_calls if what == "start"]) >= before + count

    before = len([what for _, what in world.runtime.all_calls if what == "start"])
    await world.until(so, "starts are not tried any more")


@pytest.mark.fault("CO04")
async def test_while_the_host_cannot_start_containers_no_attempt_is_used_up(world, caplog):
    await world.run()
    world.runtime.errors["start"] = BROKEN

    jobs = await world.submit_many(41 if world.virtual else 5, Script(seconds=0), attempts=2)
    await world.wait_for_engine(up=False)
    if world.virtual:
        await world.sleep(600)
    await starts(world, 2)

    where = "" if world.virtual else f" on {(await world.machine.machines())[0].engine}"
    assert world.engine.health().engine == f"containers cannot be started{where}: {BROKEN.reason}"
    assert len([message for message in caplog.messages if "cannot start containers" in message]) == 1
    del world.runtime.errors["start"]
    assert [len((await world.wait_for(job, Status.SUCCEEDED)).attempts) for job in jobs] == [1] * len(jobs)
    await world.wait_for_engine(up=True)


@pytest.mark.fault("CO04")
async def test_one_start_at_a_time_probes_a_broken_host(world):
    await world.run()
    world.runtime.errors["start"] = BROKEN
    jobs = await world.submit_many(4, Script(seconds=0))
    await world.wait_for_engine(up=False)
    await starts(world, 1)

    calls = len(world.runtime.all_calls)
    if world.virtual:
        await world.sleep(300)
        assert len(world.runtime.all_calls) - calls <= 2 * (300 / 30 + 5)  # a create and a start each
    await world.terminate(jobs[0], "waited long enough")

    await world.wait_for(jobs[0], Status.FAILED, status_reason="waited long enough", attempts=())
    del world.runtime.errors["start"]
    for job in jobs[1:]:
        await world.wait_for(job, Status.SUCCEEDED)


async def test_starts_that_fail_for_causes_in_the_job_delay_no_other_job(simulated):
    bad = Script(refuse='error mounting "/x" to rootfs at "/x"', refuse_certain=False)
    for number in range(20):
        await simulated.submit(bad, image=f"image-{number}", millicpus=1)
    await simulated.sleep(5)

    good = await simulated.submit(Script(seconds=0))

    await simulated.wait_for(good, Status.SUCCEEDED)
    assert simulated.engine.health().engine is None


async def test_a_host_failure_counts_once_another_start_has_succeeded_since_the_last(simulated):
    async def refused():
        return not simulated.runtime.refusals["start"]

    simulated.runtime.refusals["start"] = [BROKEN]
    job = await simulated.submit(Script(seconds=0))

    for _ in range(4):
        await simulated.until(refused, "the start was not tried again")
        await simulated.run()
        simulated.runtime.refusals["start"] = [BROKEN]

    await simulated.wait_for(job, Status.FAILED, exit_codes=[127])
