"""Jobs on several machines: each node of a job runs on one machine, and no machine gets more than it has."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.machines import Machine
from batchq.domain.prices import Prices
from batchq.domain.status_reasons import HOST_TERMINATED, TOO_LARGE_FOR_MACHINES
from tests.support.builders import ADMIN, NOON, gang, task
from tests.support.scripts import LASTING, Script, contained, spec
from tests.support.world import World

CPUS = 4


def machine(name: str, *, millicpus: int = 1000 * CPUS, memory_mib: int = 4096, gpus: int = 0, **fields) -> Machine:
    resources = Resources(millicpus=millicpus, memory_mib=memory_mib, gpus=gpus)
    return Machine(name=name, resources=resources, is_enforced=True, **fields)


async def on(world: World, *machines: Machine) -> None:
    """Restart the server on these machines, with the environment `wide` that is larger than all of them together."""
    world.runtime.runtime.engine.machines = machines
    await world.environment("wide", max_millicpus=64_000)
    await world.queue("wide", environments=("wide",))
    await world.restart()


async def machines_of(world: World, job: str) -> list[str | None]:
    """The machines of the job's containers."""
    found = await world.job(job)
    return [container.machine for container in found.latest_attempt.containers]


async def test_jobs_fill_one_machine_before_the_next(simulated):
    await on(simulated, machine("a"), machine("b"))

    jobs = [await simulated.start(LASTING, queue="wide", millicpus=2000) for _ in range(3)]

    assert [await machines_of(simulated, job) for job in jobs] == [["a"], ["a"], ["b"]]


async def test_a_container_is_created_on_the_machine_that_was_saved_before(simulated):
    await on(simulated, machine("a", millicpus=1000), machine("b"))

    job = await simulated.start(LASTING, queue="wide", millicpus=2000)

    (container,) = simulated.runtime.runtime.engine.containers.values()
    assert [container.launch.machine] == await machines_of(simulated, job) == ["b"]


async def test_a_job_without_gpus_leaves_the_machine_with_gpus_free(simulated):
    await on(simulated, machine("a", gpus=2), machine("b"))

    small = await simulated.start(LASTING, queue="wide")
    learns = await simulated.start(LASTING, queue="wide", gpus=2)

    assert await machines_of(simulated, small) == ["b"]
    assert await machines_of(simulated, learns) == ["a"]


async def test_a_job_waits_for_one_machine_although_all_together_have_room(simulated):
    await on(simulated, machine("a"), machine("b"))
    fillers = [await simulated.start(LASTING, queue="wide", millicpus=3000) for _ in range(2)]

    job = await simulated.submit(queue="wide", millicpus=2000)

    await simulated.wait_for_why(
        job,
        "WAITS_FOR_MACHINE",
        "First in queue wide: requires 2 vCPUs and * of memory. That is free on 2 machines together, and not on a "
        "single one for each node of the job.",
        machines=2,
    )
    await simulated.finish(fillers[1])
    await simulated.wait_for(job, Status.SUCCEEDED)


async def test_a_job_larger_than_each_machine_is_unschedulable(simulated):
    await on(simulated, machine("a"), machine("b"))

    job = await simulated.submit(queue="wide", millicpus=5000)
    small = await simulated.run(queue="wide", millicpus=1000)

    await simulated.wait_for_why(
        job, "TOO_LARGE_FOR_MACHINES", "Cannot start: the machines, if they were idle, could not hold 5 vCPUs and *"
    )
    assert (await simulated.job(job)).status_reason.startswith(TOO_LARGE_FOR_MACHINES)
    assert (await simulated.job(small)).status is Status.SUCCEEDED


async def test_a_gang_is_placed_on_as_many_machines_as_its_nodes_need(simulated):
    await on(simulated, machine("a"), machine("b"), machine("c", millicpus=1000))
    each = task(contained("default", LASTING, spec=spec(LASTING, resources=Resources(millicpus=2000, memory_mib=64))))

    job = await simulated.submit(queue="wide", nodes=gang(3, each=each))
    await simulated.wait_for(job, Status.RUNNING)

    assert sorted(await machines_of(simulated, job)) == ["a", "a", "b"]


async def test_a_gang_with_too_few_machines_for_its_nodes_starts_with_all_nodes_or_none(simulated):
    await on(simulated, machine("a"), machine("b"))
    filler = await simulated.start(LASTING, queue="wide", millicpus=3000)
    each = task(contained("default", LASTING, spec=spec(LASTING, resources=Resources(millicpus=2000, memory_mib=64))))

    job = await simulated.submit(queue="wide", nodes=gang(3, each=each))

    await simulated.wait_for_why(job, "WAITS_FOR_VCPUS", "First in queue wide: requires 6 vCPUs, 5 of 8 are free *")
    await simulated.finish(filler)
    await simulated.wait_for(job, Status.RUNNING)


@pytest.mark.parametrize("closed", [{"is_cordoned": True}, {"away_since": NOON}])
async def test_a_machine_that_is_cordoned_or_away_gets_no_job(simulated, closed):
    await on(simulated, machine("a", **closed), machine("b", millicpus=1000))

    small = await simulated.start(LASTING, queue="wide", millicpus=1000)
    job = await simulated.submit(LASTING, queue="wide", millicpus=2000)

    assert await machines_of(simulated, small) == ["b"]
    await simulated.wait_for_why(job, "WAITS_FOR_VCPUS", "First in queue wide: requires 2 vCPUs, 0 of 5 are free *")
    simulated.runtime.runtime.engine.machines = (machine("a"), machine("b", millicpus=1000))
    await simulated.wait_for(job, Status.RUNNING)
    assert await machines_of(simulated, job) == ["a"]


async def test_a_machine_of_an_environment_runs_jobs_of_that_environment_only(simulated):
    await on(simulated, machine("a", environment="wide"), machine("b"))

    inside = await simulated.start(LASTING, queue="wide", millicpus=2000)
    outside = [await simulated.start(LASTING, millicpus=2000) for _ in range(2)]
    waits = await simulated.submit(millicpus=1000)

    assert await machines_of(simulated, inside) == ["a"]
    assert [await machines_of(simulated, job) for job in outside] == [["b"], ["b"]]
    assert (await simulated.job(waits)).status is Status.RUNNABLE


async def test_a_machine_runs_no_more_nodes_than_it_takes(simulated):
    await on(simulated, replace(machine("a"), max_nodes=1), machine("b"))

    jobs = [await simulated.start(LASTING, queue="wide", millicpus=500) for _ in range(3)]

    assert [await machines_of(simulated, job) for job in jobs] == [["a"], ["b"], ["b"]]


async def test_the_room_of_a_machine_is_known_after_a_restart(simulated):
    await on(simulated, machine("a"), machine("b"))
    await simulated.start(LASTING, queue="wide", millicpus=3000)
    await simulated.crash()
    await simulated.boot()

    job = await simulated.start(LASTING, queue="wide", millicpus=2000)

    assert await machines_of(simulated, job) == ["b"]


async def test_a_job_on_a_machine_that_does_not_answer_may_still_run_and_keeps_its_room(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(Script(seconds=600), queue="wide", millicpus=3000, attempts=3)
    simulated.runtime.runtime.engine.disconnect("a")
    await simulated.sleep(30)

    await simulated.wait_for_why(
        job,
        "RUNNING",
        "Has run for * in wide. Machine a has not answered for *: the job may still run there. It keeps its room and "
        "is not retried until the machine answers or has left.",
        machine="a",
    )
    other = await simulated.start(LASTING, queue="wide", millicpus=3000)
    await simulated.sleep(1200)

    assert await machines_of(simulated, other) == ["b"]
    assert (await simulated.job(job)).status is Status.RUNNING
    simulated.runtime.runtime.engine.reconnect("a")
    done = await simulated.wait_for(job, Status.SUCCEEDED)
    assert len(done.attempts) == 1


async def test_a_start_on_a_machine_that_does_not_answer_names_the_machine(simulated):
    await on(simulated, machine("a"))
    job = await simulated.submit(Script(seconds=1, pull_delay=30), queue="wide")
    await simulated.wait_for_why(job, "PULLING_IMAGE")
    simulated.runtime.runtime.engine.disconnect("a")

    await simulated.wait_for_why(
        job,
        "STARTING_MACHINE_AWAY",
        "Was started on machine a, which has not answered for *: the job may run there. It is not started elsewhere "
        "until the machine answers or has left.",
        machine="a",
    )
    simulated.runtime.runtime.engine.reconnect("a")
    await simulated.wait_for(job, Status.SUCCEEDED)


async def test_a_job_is_retried_when_a_machine_that_lost_its_power_is_back(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", millicpus=3000, attempts=2)
    simulated.runtime.runtime.engine.power_off("a")
    await simulated.sleep(60)
    assert (await simulated.job(job)).attempt.number == 1

    simulated.runtime.runtime.engine.reconnect("a")

    await simulated.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    first, _ = (await simulated.job(job)).all_attempts
    assert (first.status_reason, first.exit_code) == (HOST_TERMINATED, 255)


async def test_a_job_on_a_machine_that_has_left_is_lost_with_its_host(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", millicpus=3000, attempts=2)

    simulated.runtime.runtime.remove_machine("a")

    await simulated.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    first, second = (await simulated.job(job)).all_attempts
    assert first.status_reason == HOST_TERMINATED
    assert [container.machine for container in second.containers] == ["b"]


async def test_a_job_on_a_machine_that_has_left_is_lost_although_its_container_is_still_listed(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", millicpus=3000, attempts=2)
    lost = (await simulated.job(job)).tag
    simulated.runtime.runtime.engine.disconnect("a")
    await simulated.sleep(60)
    assert (await simulated.job(job)).attempt.number == 1

    simulated.runtime.runtime.engine.lose_machine("a")

    await simulated.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    first, second = (await simulated.job(job)).all_attempts
    assert first.status_reason == HOST_TERMINATED
    assert [container.machine for container in second.containers] == ["b"]
    await simulated.sleep(30)
    assert lost not in simulated.runtime.runtime.engine.containers


async def test_a_terminated_job_ends_with_its_reason_when_its_machine_has_left(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", attempts=2)
    simulated.runtime.runtime.engine.disconnect("a")
    await simulated.terminate(job, "stop it")
    await simulated.sleep(60)

    simulated.runtime.runtime.engine.lose_machine("a")

    done = await simulated.wait_for(job, Status.FAILED, status_reason="stop it")
    assert len(done.attempts) == 1


async def test_a_container_removed_while_its_machine_does_not_answer_may_still_run(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", millicpus=3000, attempts=2)
    simulated.runtime.runtime.engine.disconnect("a")
    await simulated.sleep(30)
    simulated.runtime.runtime.remove_externally((await simulated.job(job)).tag)

    await simulated.sleep(120)

    assert (await simulated.job(job)).attempt.number == 1
    simulated.runtime.runtime.engine.reconnect("a")
    await simulated.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)


async def test_a_terminated_job_ends_when_its_machine_answers_again(simulated):
    await on(simulated, machine("a"))
    job = await simulated.start(LASTING, queue="wide")
    simulated.runtime.runtime.engine.disconnect("a")

    await simulated.terminate(job, "stop it")
    await simulated.sleep(300)

    assert (await simulated.job(job)).status is Status.RUNNING
    simulated.runtime.runtime.engine.reconnect("a")
    await simulated.wait_for(job, Status.FAILED, status_reason="stop it")


@pytest.mark.fault("BU07")
async def test_the_time_in_which_a_machine_does_not_answer_is_not_charged(simulated):
    simulated.prices = Prices(currency="EUR", vcpu_hour=Decimal(3600))
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(Script(seconds=2), queue="wide", millicpus=1000)
    simulated.runtime.runtime.engine.disconnect("a")

    await simulated.sleep(60)

    assert (await simulated.server.costs.of_job(job, caller=ADMIN)).total <= Decimal(2)
    simulated.runtime.runtime.engine.reconnect("a")
    await simulated.wait_for(job, Status.SUCCEEDED)
    assert (await simulated.server.costs.of_job(job, caller=ADMIN)).total == Decimal(2)
