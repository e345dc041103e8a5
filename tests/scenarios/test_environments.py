"""Compute environments select machines by labels and by container engine. Jobs run on those of their queue only."""

import pytest
from msgspec.structs import replace

from batchq.domain.container import Resources
from batchq.domain.enums import State, Status
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG
from batchq.domain.machines import Machine
from batchq.domain.status_reasons import HOST_TERMINATED, NO_MACHINE_SELECTED
from batchq.errors import Invalid
from batchq.services.overview import OverviewService
from tests.scenarios.test_machines import machine, machines_of
from tests.support.builders import ADMIN, gang, task
from tests.support.scripts import LASTING, Script, contained, spec
from tests.support.world import World

CPU, GPU = (("pool", "cpu"), ("zone", "a")), (("pool", "gpu"), ("zone", "a"))


async def on(world: World, *machines: Machine, **queues: tuple[str, ...]) -> None:
    """Restart the server on these machines, with the environments `cpu` and `gpu`, and a queue for each keyword."""
    world.runtime.runtime.engine.machines = machines
    for name in ("cpu", "gpu"):
        await world.environment(name, max_millicpus=64_000, tags=((f"{LABEL_TAG}pool", name),))
    for name, environments in queues.items():
        await world.queue(name, environments=environments)
    await world.restart()


async def switch(world: World, environment: str, state: State) -> None:
    await world.catalog.compute_environments.update(environment, lambda was: replace(was, state=state), caller=ADMIN)


async def test_a_job_that_a_restore_attaches_is_in_the_environment_of_its_machine(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), both=("cpu", "gpu"))
    first, second = [await simulated.start(LASTING, queue="both", millicpus=4000) for _ in range(2)]
    queued = await simulated.submit(LASTING, queue="both", millicpus=4000)
    backup = simulated.backup()
    await simulated.finish(second)
    await simulated.wait_for(queued, Status.RUNNING)

    await simulated.restore(backup)
    await simulated.wait_for(queued, Status.RUNNING)

    assert (await simulated.job(queued)).attempt.environment == "gpu"
    assert await machines_of(simulated, queued) == ["b"]
    await simulated.leave_safe_mode(purge=False)
    await simulated.finish(first)


async def test_jobs_run_on_machines_with_the_labels_of_their_environment(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), low=("cpu",), high=("gpu",))

    low = [await simulated.start(LASTING, queue="low", millicpus=2000) for _ in range(2)]
    high = [await simulated.start(LASTING, queue="high", millicpus=2000) for _ in range(2)]
    waits = await simulated.submit(queue="low", millicpus=1000)

    assert [await machines_of(simulated, job) for job in (*low, *high)] == [["a"], ["a"], ["b"], ["b"]]
    await simulated.wait_for_why(
        waits, "WAITS_FOR_VCPUS", "First in queue low: requires 1 vCPU, 0 of 4 are free in cpu. *"
    )


async def test_a_machine_has_every_label_that_its_environment_requires(simulated):
    await on(simulated, machine("a", labels=GPU), machine("b", labels=(("pool", "gpu"), ("zone", "b"))))
    both = ((f"{LABEL_TAG}pool", "gpu"), (f"{LABEL_TAG}zone", "b"))
    await simulated.environment("near", max_millicpus=64_000, tags=both)
    await simulated.queue("near", environments=("near",))

    job = await simulated.start(LASTING, queue="near", millicpus=1000)

    assert await machines_of(simulated, job) == ["b"]


async def test_a_job_is_placed_on_the_first_environment_of_its_queue_with_room(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), both=("gpu", "cpu"))

    jobs = [await simulated.start(LASTING, queue="both", millicpus=3000) for _ in range(2)]
    small = await simulated.start(LASTING, queue="both", millicpus=1000)

    assert [await machines_of(simulated, job) for job in (*jobs, small)] == [["b"], ["a"], ["b"]]
    placed = [(await simulated.job(job)).attempt.environment for job in (*jobs, small)]
    assert placed == ["gpu", "cpu", "gpu"]


async def test_a_gang_is_placed_on_the_machines_of_one_environment(simulated):
    machines = [machine("a", labels=CPU), machine("b", labels=GPU), machine("c", labels=GPU)]
    await on(simulated, *machines, both=("cpu", "gpu"))
    each = task(contained("default", LASTING, spec=spec(LASTING, resources=Resources(millicpus=3000, memory_mib=64))))

    job = await simulated.submit(queue="both", nodes=gang(2, each=each))
    await simulated.wait_for(job, Status.RUNNING)

    assert sorted(await machines_of(simulated, job)) == ["b", "c"]


async def test_no_job_starts_on_a_disabled_environment(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), both=("gpu", "cpu"), high=("gpu",))
    await switch(simulated, "gpu", State.DISABLED)

    job = await simulated.start(LASTING, queue="both", millicpus=3000)
    waits = await simulated.submit(LASTING, queue="high", millicpus=3000)

    assert await machines_of(simulated, job) == ["a"]
    await simulated.wait_for_why(waits, "NO_ENVIRONMENT", "*")
    await switch(simulated, "gpu", State.ENABLED)
    await simulated.wait_for(waits, Status.RUNNING)
    assert await machines_of(simulated, waits) == ["b"]


async def test_jobs_of_an_environment_whose_machines_do_not_answer_wait_and_others_go_on(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), both=("gpu", "cpu"), high=("gpu",))
    runs = await simulated.start(Script(seconds=600), queue="high", millicpus=1000)
    simulated.runtime.runtime.engine.disconnect("b")
    await simulated.sleep(30)

    waits = await simulated.submit(LASTING, queue="high", millicpus=1000)
    other = await simulated.run(Script(seconds=5), queue="both", millicpus=1000)

    assert await machines_of(simulated, other) == ["a"]
    await simulated.wait_for_why(
        waits,
        "WAITS_FOR_MACHINE",
        "First in queue high: requires 1 vCPU and * of memory, and no machine is open for new jobs. 1 of them are "
        "cordoned or do not answer.",
        closed=1,
    )
    assert (await simulated.job(runs)).status is Status.RUNNING
    simulated.runtime.runtime.engine.reconnect("b")
    await simulated.wait_for(waits, Status.RUNNING)
    await simulated.sleep(600)
    assert len((await simulated.wait_for(runs, Status.SUCCEEDED)).attempts) == 1


async def test_a_job_whose_environment_lost_all_its_machines_is_retried_when_another_one_arrives(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), high=("gpu",))
    job = await simulated.start(LASTING, queue="high", millicpus=1000, attempts=2)

    simulated.runtime.runtime.remove_machine("b")

    await simulated.wait_for_why(job, "NO_MACHINE_SELECTED", "*")
    assert (await simulated.job(job)).attempts[0].status_reason == HOST_TERMINATED
    simulated.runtime.runtime.engine.machines = (machine("a", labels=CPU), machine("c", labels=GPU))
    await simulated.wait_for(job, Status.RUNNING)
    assert await machines_of(simulated, job) == ["c"]


async def test_a_job_that_no_machine_is_selected_for_starts_when_one_arrives(simulated):
    await on(simulated, machine("a", labels=CPU), high=("gpu",))

    job = await simulated.submit(LASTING, queue="high", millicpus=1000)

    await simulated.wait_for_why(
        job,
        "NO_MACHINE_SELECTED",
        "Cannot start: no machine has the container engine and the labels of the environments of queue high.",
    )
    assert (await simulated.job(job)).status_reason == NO_MACHINE_SELECTED
    simulated.runtime.runtime.engine.machines = (machine("a", labels=CPU), machine("b", labels=GPU))
    await simulated.wait_for(job, Status.RUNNING)
    assert await machines_of(simulated, job) == ["b"]


async def test_a_job_of_an_environment_on_an_engine_that_the_server_does_not_have_waits_for_another_selection(world):
    await world.environment("away", max_millicpus=1000, tags=((ENGINE_TAG, "kubernetes:elsewhere"),))
    await world.queue("away", environments=("away",))

    job = await world.submit(Script(seconds=0), queue="away", millicpus=250)

    await world.wait_for_why(job, "NO_MACHINE_SELECTED", "*")
    await world.catalog.compute_environments.untag("away", [ENGINE_TAG], caller=ADMIN)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_only_the_machines_of_the_queue_count_as_too_small(simulated):
    machines = [machine("a", labels=CPU), machine("b", labels=CPU), machine("c", labels=GPU, millicpus=16_000)]
    await on(simulated, *machines, low=("cpu",))

    job = await simulated.submit(queue="low", millicpus=5000)

    await simulated.wait_for_why(job, "TOO_LARGE_FOR_MACHINES", "Cannot start: the machines, *", machines=2)
    await simulated.catalog.compute_environments.untag("cpu", [f"{LABEL_TAG}pool"], caller=ADMIN)
    await simulated.wait_for(job, Status.SUCCEEDED)


async def test_only_the_machines_of_the_queue_count_as_free(simulated):
    machines = [machine("a", labels=CPU), machine("b", labels=CPU), machine("c", labels=GPU, memory_mib=16_384)]
    await on(simulated, *machines, low=("cpu",))
    fillers = [await simulated.start(LASTING, queue="low", millicpus=3000, memory_mib=2048) for _ in range(2)]

    spread = await simulated.submit(LASTING, queue="low", millicpus=2000, memory_mib=64)
    await simulated.wait_for_why(spread, "WAITS_FOR_MACHINE", "* That is free on 2 machines together, *", machines=2)
    await simulated.terminate(spread, "enough seen")
    large = await simulated.submit(LASTING, queue="low", millicpus=500, memory_mib=4096)

    await simulated.wait_for_why(large, "WAITS_FOR_MACHINE", "* That is free on 2 machines together, *", machines=2)
    await simulated.terminate(large, "enough seen")
    fillers.append(await simulated.start(LASTING, queue="low", millicpus=500, memory_mib=1024))
    large = await simulated.submit(LASTING, queue="low", millicpus=500, memory_mib=4096)
    await simulated.wait_for_why(
        large, "WAITS_FOR_MEMORY", "First in queue low: requires 4 GiB of memory, 3 GiB of 8 GiB are free. *"
    )
    assert (await simulated.job(large)).status_reason.endswith("The job waits for memory.")


async def test_a_waiting_job_delays_no_job_on_the_machines_of_other_environments(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), low=("cpu",), high=("gpu",))
    await simulated.start(Script(seconds=100), queue="high", millicpus=1000, limit=200)
    head = await simulated.submit(LASTING, queue="high", millicpus=4000)

    job = await simulated.start(LASTING, queue="low", millicpus=4000)

    assert await machines_of(simulated, job) == ["a"]
    assert (await simulated.job(head)).status is Status.RUNNABLE


async def test_environments_that_select_the_same_machines_share_their_room(simulated):
    await on(simulated, machine("a", labels=CPU), low=("cpu",))
    await simulated.environment("zone", max_millicpus=64_000, tags=((f"{LABEL_TAG}zone", "a"),))
    await simulated.queue("zone", environments=("zone",))

    first = await simulated.start(LASTING, queue="low", millicpus=3000)
    second = await simulated.submit(LASTING, queue="zone", millicpus=3000)

    await simulated.wait_for_why(second, "WAITS_FOR_VCPUS", "*")
    await simulated.finish(first)
    await simulated.wait_for(second, Status.RUNNING)


async def test_machines_that_fewer_environments_select_are_filled_first(simulated):
    await on(simulated, machine("a"), machine("b", labels=GPU), high=("gpu", "local"))
    await simulated.catalog.compute_environments.untag("gpu", [f"{LABEL_TAG}pool"], caller=ADMIN)
    await simulated.environment("zone", max_millicpus=64_000, tags=((f"{LABEL_TAG}zone", "a"),))

    job = await simulated.start(LASTING, queue="high", millicpus=1000)

    assert await machines_of(simulated, job) == ["a"]


async def test_a_changed_selection_moves_waiting_jobs_and_leaves_running_ones(simulated):
    await on(simulated, machine("a", labels=CPU), machine("b", labels=GPU), low=("cpu",))
    runs = await simulated.start(LASTING, queue="low", millicpus=4000)
    waits = await simulated.submit(LASTING, queue="low", millicpus=1000)

    await simulated.catalog.compute_environments.tag("cpu", ((f"{LABEL_TAG}pool", "gpu"),), caller=ADMIN)

    await simulated.wait_for(waits, Status.RUNNING)
    assert await machines_of(simulated, waits) == ["b"]
    assert (await simulated.job(runs)).status is Status.RUNNING


async def test_a_job_without_a_named_machine_keeps_its_room_when_the_engine_gets_others(simulated):
    await simulated.environment("wide", max_millicpus=64_000)
    await simulated.queue("wide", environments=("wide",))
    await simulated.start(LASTING, queue="wide", millicpus=3000)
    assert {container.launch.machine for container in simulated.runtime.runtime.engine.containers.values()} == {None}
    simulated.runtime.runtime.engine.machines = (machine("local"), machine("more"))
    await simulated.restart()

    job = await simulated.start(LASTING, queue="wide", millicpus=2000)

    assert await machines_of(simulated, job) == ["more"]


async def test_the_overview_shows_the_machines_that_each_environment_selects(simulated):
    await on(simulated, machine("a", labels=CPU, gpus=1), machine("b", labels=GPU, memory_mib=8192), low=("cpu",))
    await simulated.start(LASTING, queue="low", millicpus=1000, memory_mib=1024, gpus=1)

    overviews = OverviewService(
        engine=simulated.engine, store=simulated.store, catalog=simulated.catalog, clock=simulated.clock
    )
    found = {environment.environment.name: environment for environment in overviews.environments()}

    assert (found["cpu"].machines.memory_mib, found["cpu"].memory_mib, found["cpu"].gpus) == (4096, 1024, 1)
    assert (found["gpu"].machines.memory_mib, found["gpu"].memory_mib, found["gpu"].gpus) == (8192, 0, 0)
    assert (found["local"].machines.memory_mib, found["local"].memory_mib, found["local"].gpus) == (12_288, 1024, 1)


@pytest.mark.parametrize(
    "tag", [(LABEL_TAG, "x"), (f"{LABEL_TAG}a b", "x"), (f"{LABEL_TAG}pool", "no spaces"), (ENGINE_TAG, "")]
)
async def test_an_invalid_selection_is_refused(simulated, tag):
    with pytest.raises(Invalid, match=r"The tag batchq:(label|engine)"):
        await simulated.catalog.compute_environments.tag("local", (tag,), caller=ADMIN)

    assert simulated.catalog.environments["local"].tags == ()
