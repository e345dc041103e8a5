"""Jobs on nodes that are cut off, lose their power or their disk, are cordoned or drained. Prints the seconds seen.

Only the nodes of the bed are touched. A small job of the default queue is placed on the first node while it is open.
"""

import asyncio
import time
from collections import Counter

import pytest

from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.domain.catalog import Network
from batchq.domain.container import Mount
from batchq.domain.enums import MachineState, Status
from batchq.domain.ids import LABEL_TAG
from batchq.domain.status_reasons import EXITED, HOST_TERMINATED
from batchq.services.machines import MachineQuery, machine_page
from batchq.settings import Privileged
from tests.kubernetes.bed import nodes
from tests.kubernetes.bed.__main__ import NODES, STATE, node_name
from tests.kubernetes.conftest import on_cluster, world_on
from tests.support.builders import ADMIN
from tests.support.clock import ShiftedClock
from tests.support.containers import PATIENCE, until

CUT, OTHER = NODES
SILENCE = 3.0  # seconds; a program shows a sign of life each 0.2 s
FENCED = 10.0  # seconds in which a kubelet ends a container whose pod was removed
EVERY_MACHINE = MachineQuery(limit=100, max_jobs=0)
pytestmark = [pytest.mark.kubernetes, pytest.mark.process, pytest.mark.timeout(300)]


class Lab:
    """A world whose jobs write each start into a file that all nodes have, and end when a file exists."""

    def __init__(self, world, folder):
        self.world = world
        self.folder = folder

    async def start(self, name, *, on_term=7, **fields):
        """Start a program on the first node. It exits with 4, or after SIGTERM with `on_term`."""
        job = await self.submit(name, on_term=on_term, **{"queue": "first"} | fields)
        await self.world.wait_for_output(job, "ready")
        return job

    async def submit(self, name, *, on_term=7, **fields):
        program = (
            f"trap 'exit {on_term}' TERM; own={name}.$AWS_BATCH_JOB_ATTEMPT; echo > /starts/$own.began; "
            f"echo {name} $AWS_BATCH_JOB_ATTEMPT >> /starts/all; echo ready; "
            f"while [ ! -e /starts/{name} ]; do echo > /starts/$own.seen; sleep 0.2; done; echo over; exit 4"
        )
        mounts = (Mount(container_path="/starts", host_path=str(self.folder)),)
        return await self.world.submit(command=("sh", "-c", program), mounts=mounts, **fields)

    def let_end(self, *names):
        for name in names:
            (self.folder / name).touch()

    def starts(self):
        """How often each attempt of each program was started."""
        return Counter((self.folder / "all").read_text().splitlines())

    def overlap(self, name):
        """For how many seconds the first attempt of the program ran beside the second one; below 0: between them."""
        last_seen, began = (self.folder / f"{name}.{sign}" for sign in ("1.seen", "2.began"))
        return last_seen.stat().st_mtime - began.stat().st_mtime

    async def wait_for_silence(self, name):
        """Wait until the first attempt of the program shows no sign of life."""

        async def is_silent():
            return time.time() - (self.folder / f"{name}.1.seen").stat().st_mtime > SILENCE

        await until(is_silent)

    async def seconds_until_state(self, state, index=CUT):
        """The seconds until a survey of the server finds the machine in this state."""

        async def has_state():
            page = machine_page(self.world.engine, EVERY_MACHINE, caller=ADMIN)
            return (node_name(index), state) in [(found.machine.name, found.machine.state) for found in page.machines]

        return await seconds(until(has_state))

    async def machine_of(self, job, attempt=1):
        """The node on which the attempt was placed."""
        found = (await self.world.job(job)).all_attempts[attempt - 1]
        return found.containers[0].machine


async def seconds(call):
    began = time.monotonic()
    await call
    return time.monotonic() - began


async def do(operation, index=CUT):
    await asyncio.to_thread(operation, index)


@pytest.fixture
async def lab(tmp_path):
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")
    clock = ShiftedClock()
    policy = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, volumes=(tmp_path,))
    async with (
        on_cluster(clock=clock, policy=policy) as runtime,
        world_on(runtime, clock, tmp_path / "checkpoints") as world,
    ):
        for queue, index in (("first", CUT), ("second", OTHER)):
            label = (f"{LABEL_TAG}kubernetes.io/hostname", node_name(index))
            await world.environment(queue, max_millicpus=2000, tags=(label,))
            await world.queue(queue, environments=(queue,))
        try:
            yield Lab(world, tmp_path)
        finally:
            await do(nodes.restore)
            await do(nodes.finish_deletions)


async def test_the_jobs_of_a_node_that_is_cut_off_run_on_and_are_not_started_again(lab):
    world = lab.world
    stays, ends, stopped = [await lab.start(name, attempts=2) for name in ("stays", "ends", "stopped")]

    await do(nodes.cut)
    away = await lab.seconds_until_state(MachineState.AWAY)
    lab.let_end("ends")
    await world.terminate(stopped, "enough")
    await world.wait_for_why(stays, "RUNNING", f"*{node_name(CUT)}*", machine=node_name(CUT))
    assert {(await world.job(job)).status for job in (stays, ends, stopped)} == {Status.RUNNING}

    await do(nodes.heal)
    end, stop, ready = await asyncio.gather(
        seconds(world.wait_until(ends, lambda job: job.attempts != ())),
        seconds(world.wait_for(stopped, Status.FAILED, status_reason="enough")),
        lab.seconds_until_state(MachineState.READY),
    )
    print(f"cut: away after {away:.1f} s; after the return: ready {ready:.1f} s, end {end:.1f} s, stop {stop:.1f} s")
    assert (await world.job(stopped)).attempts[0].exit_code == 7
    assert (await world.job(stays)).status is Status.RUNNING
    lab.let_end("stays")
    for job in (stays, ends):
        await world.wait_for(job, Status.FAILED, exit_codes=[4, 4])
        assert await world.output(job) == ["ready", "over"]
    assert lab.starts() == Counter(["stays 1", "stays 2", "ends 1", "ends 2", "stopped 1"])


async def test_a_job_on_a_node_without_power_ends_when_the_node_is_back_and_is_retried(lab):
    world = lab.world
    job = await lab.start("lost", attempts=2)

    await do(nodes.power_off)
    away = await lab.seconds_until_state(MachineState.AWAY)
    assert (await world.job(job)).status is Status.RUNNING
    await do(nodes.power_on)
    end = await seconds(world.wait_until(job, lambda job: job.attempts != ()))

    print(f"power lost: away after {away:.1f} s; after the return: end {end:.1f} s")
    lab.let_end("lost")
    done = await world.wait_for(job, Status.FAILED, exit_codes=[255, 4])
    assert [attempt.status_reason for attempt in done.attempts] == [HOST_TERMINATED, EXITED]
    assert lab.starts() == Counter(["lost 1", "lost 2"])


async def test_a_job_is_lost_with_the_disk_of_its_node(lab):
    """A kubelet of 1.20 starts the pod a second time, which batchq kills. Later ones do not."""
    world = lab.world
    job = await lab.start("lost", attempts=2)

    await do(nodes.replace_disk)
    end = await seconds(world.wait_until(job, lambda job: job.attempts != ()))

    starts = lab.starts()
    print(f"disk replaced: end {end:.1f} s after the return, starts {dict(starts)}")
    lab.let_end("lost")
    done = await world.wait_for(job, Status.FAILED)
    assert [attempt.status_reason for attempt in done.attempts] == [HOST_TERMINATED, EXITED]
    assert starts["lost 1"] <= 2


async def test_a_node_that_is_cordoned_keeps_its_jobs_and_gets_no_other(lab):
    world = lab.world
    before = await lab.start("before")

    await do(nodes.cordon)
    cordoned = await lab.seconds_until_state(MachineState.CORDONED)
    waiting = await lab.submit("waiting", queue="first")
    lab.let_end("elsewhere", "waiting")
    elsewhere = [await lab.submit("elsewhere") for _ in range(3)]
    for job in elsewhere:
        await world.wait_for(job, Status.FAILED, exit_codes=[4])
        assert await lab.machine_of(job) == node_name(OTHER)
    assert (await world.job(before)).status is Status.RUNNING
    assert (await world.job(waiting)).status is Status.RUNNABLE

    await do(nodes.uncordon)
    placed = await seconds(world.wait_for(waiting, Status.FAILED, exit_codes=[4]))
    print(
        f"cordon: seen after {cordoned:.1f} s; after the end of the cordon: the waiting job ran within {placed:.1f} s"
    )
    assert await lab.machine_of(waiting) == node_name(CUT)
    lab.let_end("before")
    await world.wait_for(before, Status.FAILED, exit_codes=[4])


async def test_a_job_that_is_evicted_ends_with_its_exit_code_and_is_retried_on_another_node(lab):
    world = lab.world
    failed = await lab.start("failed", queue="default", attempts=2)
    done = await lab.start("done", queue="default", on_term=0, attempts=2)
    assert {await lab.machine_of(job) for job in (failed, done)} == {node_name(CUT)}

    await do(nodes.drain)
    end = await seconds(world.wait_until(failed, lambda job: job.attempts != ()))

    print(f"drain: end {end:.1f} s after the eviction")
    lab.let_end("failed")
    await world.wait_for(done, Status.SUCCEEDED, exit_codes=[0])
    job = await world.wait_for(failed, Status.FAILED, exit_codes=[7, 4])
    assert [attempt.status_reason for attempt in job.attempts] == [HOST_TERMINATED, EXITED]
    assert await lab.machine_of(failed, 2) == node_name(OTHER)
    assert lab.starts() == Counter(["failed 1", "failed 2", "done 1"])


@pytest.mark.parametrize("fault", [None, nodes.power_off, nodes.cut], ids=["running", "off", "cut"])
async def test_a_job_of_a_node_that_was_deleted_is_retried_on_another_node_and_the_node_gets_jobs_again(lab, fault):
    """Only the container of a machine that still runs, against the administrator's word, may run beside the retry."""
    world = lab.world
    job = await lab.start("lost", queue="default", attempts=2)
    assert await lab.machine_of(job) == node_name(CUT)
    if fault is not None:
        await do(fault)

    await do(nodes.delete)
    end = await seconds(world.wait_until(job, lambda job: job.attempts != ()))
    retry = await seconds(world.wait_for_output(job, "ready"))
    if fault is not nodes.cut:
        await lab.wait_for_silence("lost")
    await do(nodes.restore)
    stop = await seconds(lab.wait_for_silence("lost"))
    overlap = lab.overlap("lost")
    again = await lab.submit("again", queue="first")
    lab.let_end("lost", "again")
    returned = await seconds(world.wait_for(again, Status.FAILED, exit_codes=[4]))

    done = await world.wait_for(job, Status.FAILED, exit_codes=[137, 4])
    print(
        f"deleted, {'running' if fault is None else fault.__name__}: end {end:.1f} s after the deletion, retry "
        f"{retry:.1f} s later, both ran for {overlap:.1f} s, until {stop:.1f} s after the return; "
        f"a job of the returned node took {returned:.1f} s"
    )
    assert [attempt.status_reason for attempt in done.attempts] == [HOST_TERMINATED, EXITED]
    assert await lab.machine_of(job, 2) == node_name(OTHER)
    assert await lab.machine_of(again) == node_name(CUT)
    assert overlap <= {None: FENCED, nodes.power_off: 0}.get(fault, PATIENCE)
    assert lab.starts() == Counter(["lost 1", "lost 2", "again 1"])
