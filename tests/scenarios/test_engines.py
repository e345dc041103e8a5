"""A server with two container engines: each job runs on that of its environment, and a silent engine stops no other."""

import asyncio
from datetime import timedelta
from functools import partial
from itertools import product

import pytest
from msgspec.structs import replace

from batchq.compute.combined_runtime import CombinedRuntime
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, SimulatedRuntime
from batchq.domain.container import Ulimit
from batchq.domain.enums import Status
from batchq.domain.ids import ENGINE_TAG
from batchq.domain.machines import Machine
from batchq.domain.status_reasons import DISAPPEARED
from batchq.engine.containers.start_breaker import FIRST_PAUSE, MIN_JOBS
from batchq.engine.orphan_containers import QUARANTINE
from batchq.errors import Invalid, StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.server.engines import able_engines
from batchq.settings import Runtime
from tests.support import builders
from tests.support.builders import ADMIN, gang, task
from tests.support.combined import HERE, NODE, THERE
from tests.support.containers import new_tag
from tests.support.scripts import LASTING, Script, contained
from tests.support.world import HOST, new_simulated, running

LONG = Script(seconds=600)


def both(world, first, second):
    """The two engines of this world as one runtime, as a new server constructs it."""
    world.runtime.runtime = CombinedRuntime({HERE: first, THERE: second}, world.clock)


@pytest.fixture
async def world():
    """With an environment and a queue `far` on the second engine. All others are on the first one."""
    world = new_simulated()
    node = Machine(name=NODE, resources=HOST, is_enforced=True)
    world.first = world.machine
    world.second = SimulatedRuntime(clock=world.clock, machines=(node,), engine_id="second")
    both(world, world.first, world.second)
    async with running(world):
        await world.environment("far", max_millicpus=64_000, tags=((ENGINE_TAG, THERE),))
        await world.queue("far", environments=("far",))
        yield world
        world.second.faults.unreachable = False
    assert not world.second.engine.containers
    await world.first.close()
    await world.second.close()


async def restart(world):
    """Restart the server, which knows no container and no machine then."""
    await world.crash()
    both(world, world.first, world.second)
    await world.boot()


async def machine_of(world, job):
    return (await world.job(job)).latest_attempt.containers[0].machine


async def test_jobs_run_on_the_engine_of_their_environment(world):
    near, far = await world.start(LASTING), await world.start(LASTING, queue="far")

    assert [await machine_of(world, job) for job in (near, far)] == ["local", NODE]
    assert [len(machine.engine.containers) for machine in (world.first, world.second)] == [1, 1]


async def test_a_gang_is_placed_on_one_engine(world):
    await world.queue("both", environments=("local", "far"))
    await world.start(LASTING, millicpus=HOST.millicpus - 1000)
    each = task(contained("default", LASTING))

    job = await world.submit(queue="both", nodes=gang(3, each=each), millicpus=250)
    await world.wait_for(job, Status.RUNNING)

    containers = (await world.job(job)).attempt.containers
    assert len({container.machine for container in containers}) == 1


async def test_ends_on_both_engines_are_noticed_without_a_survey(world):
    world.engine._watcher._survey_interval = 3600.0
    await world.sleep(20)  # the next survey is far away

    near, far = await world.submit(Script(seconds=5)), await world.submit(Script(seconds=5), queue="far")
    await world.sleep(10)

    assert [(await world.job(job)).status for job in (near, far)] == [Status.SUCCEEDED] * 2


@pytest.mark.parametrize("silent", ["first", "second"])
async def test_a_silent_engine_keeps_its_jobs_and_stops_no_other_engine(world, silent):
    queues = {"first": ("default", "far"), "second": ("far", "default")}[silent]
    runs = await world.start(LONG, queue=queues[0], attempts=3)
    getattr(world, silent).faults.unreachable = True
    await world.sleep(30)

    waits = await world.submit(Script(seconds=1), queue=queues[0])
    others = [await world.run(Script(seconds=5), queue=queues[1]) for _ in range(3)]

    assert {(await world.job(job)).status for job in others} == {Status.SUCCEEDED}
    await world.wait_for_why(waits, "WAITS_FOR_MACHINE", "* no machine is open for new jobs. *")
    await world.wait_for_why(runs, "RUNNING", "* Machine * has not answered for *: the job may still run there. *")
    await world.sleep(1200)
    assert (await world.job(runs)).status is Status.RUNNING
    getattr(world, silent).faults.unreachable = False
    assert len((await world.wait_for(runs, Status.SUCCEEDED)).attempts) == 1
    await world.wait_for(waits, Status.SUCCEEDED)


@pytest.mark.parametrize("silent", ["first", "second"])
async def test_a_server_that_starts_beside_a_silent_engine_loses_none_of_its_jobs(world, silent):
    queues = {"first": ("default", "far"), "second": ("far", "default")}[silent]
    runs, other = [await world.start(LONG, queue=queue, attempts=3) for queue in queues]
    getattr(world, silent).faults.unreachable = True

    await restart(world)
    waits = await world.submit(Script(seconds=1), queue=queues[0])
    await world.run(Script(seconds=5), queue=queues[1])
    await world.sleep(1200)

    assert (await world.job(runs)).status is Status.RUNNING
    assert (await world.job(other)).status is Status.SUCCEEDED
    await world.wait_for_why(waits, "WAITS_FOR_MACHINE", "* no machine is open for new jobs. *")
    getattr(world, silent).faults.unreachable = False
    done = await world.wait_for(runs, Status.SUCCEEDED)
    assert len(done.attempts) == 1
    await world.wait_for(waits, Status.SUCCEEDED)


async def test_surveys_do_not_wait_for_an_engine_that_hangs(world):
    runs = await world.start(LONG, queue="far")
    survey, answers = world.second.survey, asyncio.Event()

    async def hanging():
        await answers.wait()
        return await survey()

    world.second.faults.unreachable = True
    await world.sleep(30)
    world.second.faults.unreachable, world.second.survey = False, hanging
    await world.sleep(30)

    near = await world.start(LASTING)
    world.first.engine.remove((await world.job(near)).tag)
    await world.wait_for(near, Status.FAILED, status_reason=DISAPPEARED)

    answers.set()
    await world.sleep(600)
    await world.wait_for(runs, Status.SUCCEEDED)
    await world.run(queue="far")


READS = ("survey", "machines", "lost_before", "identity", "inspect")
CHANGES = ("create", "start", "signal_stop", "kill", "remove")
FAULTS = {"no effect": NO_EFFECT, "lost reply": LOST_REPLY}
# A read whose reply is lost has no effect either.
FAILING_CALLS = [*product((*READS, *CHANGES), ["no effect"]), *product(CHANGES, ["lost reply"])]


@pytest.mark.parametrize(("call", "fault"), FAILING_CALLS)
async def test_a_call_that_fails_on_one_engine_delays_only_its_own_jobs(world, call, fault):
    ends, stops = await world.start(Script(seconds=60), queue="far"), await world.start(LASTING, queue="far")
    world.second.faults.decide = lambda name, _: FAULTS[fault] if name == call else None
    await world.sleep(20)

    begins = await world.submit(Script(seconds=1), queue="far")
    await world.terminate(stops, "stop it")
    near = await world.start(LASTING)
    await world.terminate(near, "stop it")
    await world.run(Script(seconds=1))

    await world.wait_for(near, Status.FAILED, status_reason="stop it")
    await world.sleep(600)
    world.second.faults.decide = None
    done = [await world.wait_for(job, Status.SUCCEEDED) for job in (ends, begins)]
    assert [len(job.attempts) for job in done] == [1, 1]
    await world.wait_for(stops, Status.FAILED, status_reason="stop it")


@pytest.fixture
async def queues(world):
    """Queues of one engine each, and one of both, which prefers the second; Kubernetes has no ulimits."""
    await world.queue("both", environments=("far", "local"))
    kinds = (Runtime.DOCKER, Runtime.KUBERNETES)
    world.server.able_engines = partial(able_engines, kinds, world.server.catalog, PodPolicy())


ULIMITS = (Ulimit(name="nofile", soft=1, hard=2),)


@pytest.mark.usefixtures("queues")
async def test_a_job_that_one_engine_cannot_run_is_placed_on_the_other(world):
    every = await world.start(LASTING, queue="both", millicpus=HOST.millicpus // 2)

    only = await world.start(LASTING, queue="both", ulimits=ULIMITS)
    waits = await world.submit(Script(seconds=0), queue="both", ulimits=ULIMITS, millicpus=HOST.millicpus)

    assert [await machine_of(world, job) for job in (every, only)] == [NODE, "local"]
    await world.run(queue="far")
    await world.wait_for_why(waits, "WAITS_FOR_VCPUS")
    await restart(world)
    await world.finish(only)
    await world.wait_for(waits, Status.SUCCEEDED)
    assert await machine_of(world, waits) == "local"


@pytest.mark.usefixtures("queues")
async def test_a_job_that_no_engine_of_its_queue_can_run_is_refused(world):
    with pytest.raises(Invalid, match="ulimits is not available on Kubernetes"):
        await world.submit(queue="far", ulimits=ULIMITS)


async def offer(world, *environments):
    """Give the queue `both` these environments."""
    await world.catalog.job_queues.update("both", lambda value: replace(value, environments=environments), caller=ADMIN)


@pytest.mark.usefixtures("queues")
async def test_a_job_whose_engine_has_left_its_queue_is_unschedulable_until_the_engine_is_back(world):
    blocker = await world.start(LASTING, millicpus=HOST.millicpus)
    job = await world.submit(Script(seconds=0), queue="both", ulimits=ULIMITS)

    await offer(world, "far")

    await world.wait_for_why(job, "NO_MACHINE_SELECTED")
    await offer(world, "far", "local")
    await world.finish(blocker)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_an_engine_that_cannot_start_containers_delays_no_start_on_another(world):
    await world.run()
    start, broken = world.first.start, StartRefused("no cgroups", exit_code=127, certain=False, host_failed=True)

    async def refused(tag):
        raise broken

    world.first.start = refused
    stuck = await world.submit_many(MIN_JOBS + 1, Script(seconds=0), attempts=1)
    await world.wait_for_engine(up=False)

    before = world.clock.now()
    for _ in range(5):
        await world.run(Script(seconds=0), queue="far")

    assert world.clock.now() - before < timedelta(seconds=FIRST_PAUSE)
    assert world.engine.health().engine == "containers cannot be started on docker: no cgroups"
    await world.wait_for_why(stuck[0], "HOST_FAILURE", "* Error: no cgroups.")
    world.first.start = start
    assert [len((await world.wait_for(job, Status.SUCCEEDED)).attempts) for job in stuck] == [1] * len(stuck)


async def test_a_container_that_is_absent_from_its_engine_is_lost_while_another_engine_is_silent(world):
    job = await world.start(LONG)
    world.second.faults.unreachable = True
    await world.sleep(30)

    world.first.remove_externally((await world.job(job)).tag)

    await world.wait_for(job, Status.FAILED, status_reason=DISAPPEARED)


async def test_a_restart_of_one_engine_explains_no_loss_on_another(world):
    job = await world.start(LONG, queue="far")
    world.first.restart_machine()

    world.second.remove_externally((await world.job(job)).tag)

    await world.wait_for(job, Status.FAILED, status_reason=DISAPPEARED)


@pytest.mark.parametrize("other_is_silent", [False, True])
async def test_another_engine_in_place_of_one_is_not_asked_about_its_jobs(world, other_is_silent):
    job = await world.start(Script(seconds=100), queue="far", attempts=2)
    theirs, world.second = world.second, SimulatedRuntime(clock=world.clock, machines=(), engine_id="another")
    world.second.engine.machines = theirs.engine.machines
    world.first.faults.unreachable = other_is_silent

    await restart(world)
    await world.sleep(300)

    assert (await world.job(job)).status is Status.RUNNING
    assert "not the container engine that 1 jobs run on" in world.engine.health().engine
    world.first.faults.unreachable = False
    world.second = theirs
    await restart(world)
    assert len((await world.wait_for(job, Status.SUCCEEDED)).attempts) == 1


async def test_an_engine_that_is_exchanged_while_it_is_silent_proves_no_loss(world):
    job = await world.start(LONG, queue="far", attempts=2)
    world.second.faults.unreachable = True
    await restart(world)
    tag, theirs = (await world.job(job)).tag, dict(world.second.engine.containers)

    world.second.engine.containers.clear()
    world.second._identity, world.second.faults.unreachable = "another", False
    world.engine._watcher._on_death(tag)
    await world.sleep(300)

    assert (await world.job(job)).status is Status.RUNNING
    world.second.engine.containers |= theirs
    world.second._identity = "second"
    await world.sleep(600)
    assert len((await world.wait_for(job, Status.SUCCEEDED)).attempts) == 1


async def test_a_server_with_fewer_engines_loses_no_job_of_the_other_one(world):
    near, far = await world.start(LASTING), await world.start(Script(seconds=60), queue="far", attempts=2)
    await world.crash()
    world.runtime.runtime = world.first
    await world.boot()
    await world.sleep(300)

    assert {(await world.job(job)).status for job in (near, far)} == {Status.RUNNING}
    assert "not the container engine that 2 jobs run on" in world.engine.health().engine
    await restart(world)
    await world.wait_for(far, Status.SUCCEEDED, exit_codes=[0])


async def test_a_server_gets_a_second_engine_beside_its_jobs(world):
    await world.crash()
    world.runtime.runtime = world.first
    await world.boot()
    job = await world.start(Script(seconds=60), millicpus=HOST.millicpus - 500)
    assert await machine_of(world, job) is None
    await world.wait_until(job, lambda value: value.attempt.containers[0].container_id is not None)

    await restart(world)
    waits = await world.submit(Script(seconds=0), millicpus=1000, memory_mib=HOST.memory_mib - 32)
    far = await world.run(Script(seconds=0), queue="far")

    assert (await world.job(waits)).status is Status.RUNNABLE
    assert (await world.job(far)).status is Status.SUCCEEDED
    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_safe_mode_ends_only_after_every_engine_has_answered(world):
    job = await world.start(Script(seconds=3600, on_term=0), queue="far", attempts=2)
    world.second.faults.unreachable = True
    backup = world.backup()
    await world.crash()
    both(world, world.first, world.second)
    await world.restore(backup)
    await world.sleep(30)

    with pytest.raises(Invalid, match="The running containers are not known yet"):
        await world.leave_safe_mode(purge=False)

    world.second.faults.unreachable = False
    await world.sleep(30)
    await world.leave_safe_mode(purge=False)
    assert (await world.job(job)).attempt.number == 1
    await world.finish(job)


async def test_an_orphan_on_an_engine_that_answers_late_is_removed_after_its_quarantine(world):
    await world.crash()
    orphan = LaunchSpec(tag=new_tag(), spec=builders.container(), environment=(), machine=NODE)
    world.second.engine.create(orphan)
    world.second.faults.unreachable = True
    both(world, world.first, world.second)
    await world.boot()
    await world.sleep(60)
    world.second.faults.unreachable = False

    await world.sleep(QUARANTINE.total_seconds() + 60)

    assert not world.second.engine.containers
