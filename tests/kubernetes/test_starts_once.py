"""Starts on a cluster while replies are lost or its servers are killed: each container starts at most once.

They are containers of jobs, of children of arrays, of tasks and of gangs. Prints the counts at its end (`-s`).
"""

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.catalog import Network
from batchq.domain.container import Mount
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, Tag
from batchq.domain.status_reasons import HOST_TERMINATED
from batchq.domain.task import TaskContainer
from batchq.errors import (
    ContainerGone,
    ContainerUnusable,
    RuntimeUnknown,
    RuntimeUnreachable,
    StartInterrupted,
    StartRefused,
)
from batchq.settings import Privileged
from tests.kubernetes.bed.__main__ import STATE, kill_on_nodes, processes_on_nodes, request, restart, wait_for
from tests.kubernetes.conftest import on_cluster, world_on
from tests.support.builders import gang, task, task_container
from tests.support.clock import ShiftedClock
from tests.support.containers import launch, over

STARTS, NAMES = 60, ("one", "two")
CHILDREN = 30  # of an array
#: Shell: appends the id of the job and the index of the node to the file.
NAMES_ITSELF = (
    "job=${AWS_BATCH_JOB_ID%#*}; node=${AWS_BATCH_JOB_NODE_INDEX:-0}; echo $job/$node >> /starts/all; "
    "echo > /starts/$job.$node"
)
#: Shell: the end of the main node would stop node 1, which may be lost.
WAITS_FOR_NODE_1 = "n=0; while [ $n -lt 200 ] && [ ! -e /starts/$job.1 ]; do sleep 0.5; n=$((n + 1)); done"
KILLS = 12  # of servers in a test
PATIENCE = 500.0  # seconds
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def unreliable(monkeypatch):
    """Loses requests before they are sent, and replies after they were received; sends some requests twice.

    `is_on` is whether faults occur.
    """
    rng, request, faults = Random(28), RestClient.request, SimpleNamespace(is_on=True)

    async def unreliable_request(self, *arguments, **options):
        fault = rng.random() if faults.is_on else 1.0
        if fault < 0.1:
            raise RuntimeUnreachable("not sent")
        reply = await request(self, *arguments, **options)
        if fault < 0.2:
            reply = await request(self, *arguments, **options)
        if 0.1 < fault < 0.35:
            raise RuntimeUnknown("the reply was lost")
        return reply

    monkeypatch.setattr(RestClient, "request", unreliable_request)
    return faults


def container(tag, folder, **changes):
    """A container that appends its name to a file of the node, and fails with code 3."""
    command = ("sh", "-c", f"echo {tag.job_id}/{tag.container_key} >> /starts/all; exit 3")
    mounts = (Mount(container_path="/starts", host_path=str(folder)),)
    return replace(launch(tag=tag, command=command, mounts=mounts), **changes)


def single_containers(folder):
    return [container(Tag(job_id=JobId(f"job-{number}"), attempt=1), folder) for number in range(STARTS)]


def tasks(folder):
    """Containers of tasks: two in each pod."""
    found = []
    for number in range(STARTS // 2):
        tags = [Tag(job_id=JobId(f"job-{number}"), attempt=1, container_key=f"0/{name}") for name in NAMES]
        one, two = (container(tag, folder) for tag in tags)
        found.append(replace(one, beside=(TaskContainer(name="two", spec=two.spec),)))
        found.append(replace(two, beside=(TaskContainer(name="one", spec=one.spec),)))
    return found


def array_children(folder):
    tags = [Tag(job_id=JobId(f"array-{number // CHILDREN}:{number % CHILDREN}"), attempt=1) for number in range(STARTS)]
    return [container(tag, folder) for tag in tags]


def gangs(folder):
    """Containers of multi-node jobs: one in the pod of each of two nodes."""
    found = []
    for number in range(STARTS // 2):
        for node in range(2):
            tag = Tag(job_id=JobId(f"job-{number}"), attempt=1, container_key=f"{node}/main")
            found.append(replace(container(tag, folder), nodes=2, is_main_node=node == 0))
    return found


KINDS = (single_containers, array_children, tasks, gangs)


@pytest.fixture(scope="module")
def counts():
    """Collects one line for each test, and prints all of them at the end."""
    lines = []
    yield lines
    print("\n" + "\n".join(lines))


async def answered(call):
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except RuntimeUnknown:
                await asyncio.sleep(0.05)


async def check_empty(runtime):
    """Raises RuntimeUnknown while pods are left."""
    if await runtime.survey():
        raise RuntimeUnknown("pods are left")


async def started(runtime, value):
    """Create and start the container as the engine does: a node may refuse the pod before any container ran."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                made = await runtime.create(value)
                value = replace(value, container_id=made.container_id)
                return await runtime.start(value.tag)
            except ContainerUnusable:
                value = replace(value, container_id=None)
            except (RuntimeUnknown, ContainerGone):  # the next `create` finds out whether the pod can be replaced
                await asyncio.sleep(0.05)
            except StartRefused as refused:  # the program did not run
                if refused.certain:
                    raise
                await asyncio.sleep(1)


async def check_starts(tmp_path, kind):
    """Start the containers at the same time, and count what they have written. Each end is true or host lost.

    Returns the counts as a text, and the containers that ran twice. Each of them is host lost.
    """
    async with on_cluster(policy=PodPolicy(volumes=(tmp_path,))) as runtime:

        async def life(value):
            try:
                await started(runtime, value)
                await answered(partial(runtime.start, value.tag))
            except StartInterrupted:
                return None  # the engine reports the attempt as lost with its host
            return await answered(partial(over, runtime, value.tag))

        launches = kind(tmp_path)
        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(life(other_launch)) for other_launch in launches]
        ends = [each.result() for each in lives]
        for other_launch in launches:
            await answered(partial(runtime.remove, other_launch.tag))

    starts = Counter((tmp_path / "all").read_text().split())
    names = [f"{other_launch.tag.job_id}/{other_launch.tag.container_key}" for other_launch in launches]
    lost = {name for name, end in zip(names, ends, strict=True) if end is None or end.host_lost}
    twice = {name for name, count in starts.items() if count > 1}
    found = f"{kind.__name__}: {len(names)} starts, {len(starts)} ran, {len(lost)} host lost, {len(twice)} ran twice"
    print(found)
    assert {end.exit_code for end in ends if end is not None and not end.host_lost} <= {3}
    assert starts.keys() | lost == {*names}
    assert twice <= lost
    return found, twice


async def kill_at_next_start(program, folder, delay):
    """Kill a program of both nodes `delay` seconds after the next container has written its name."""

    def written():
        return (folder / "all").stat().st_size if (folder / "all").exists() else 0

    pids, before = await asyncio.to_thread(lambda: [*processes_on_nodes(program)]), written()
    while written() == before:  # noqa: ASYNC110 - a file sets no event
        await asyncio.sleep(0.001)
    await asyncio.sleep(delay)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.kubernetes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unreliable")
async def test_each_container_starts_once_although_requests_and_replies_are_lost(tmp_path, kind, counts):
    found, twice = await check_starts(tmp_path, kind)

    counts.append(f"{found}; requests and replies lost")
    assert twice == set()


@pytest.mark.kubernetes
@pytest.mark.process
@pytest.mark.parametrize("servers", ["control plane", "kubelet", "containerd"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unreliable")
async def test_each_container_starts_once_although_servers_are_killed(tmp_path, kind, servers, counts):
    """Only the bed's own servers are killed.

    A kubelet itself starts a container again whose start was not saved by a containerd that was killed. So containerds
    are killed when a program has just begun.
    """
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")

    async def kill_servers():
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(1, 5))
            if servers == "control plane":
                await asyncio.to_thread(restart, rng.choice(("kube-apiserver", "etcd")))
                await asyncio.to_thread(wait_for, "a server", lambda: (request("/readyz") or "").strip() == "ok")
            elif servers == "containerd":
                await kill_at_next_start(servers, tmp_path, rng.uniform(0, 0.02))
            else:
                await asyncio.to_thread(kill_on_nodes, servers)
            kills.append(servers)

    rng, kills = Random(28), []
    killing = asyncio.create_task(kill_servers())
    try:
        found, twice = await check_starts(tmp_path, kind)
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    counts.append(f"{found}; {len(kills)} kills of {servers}")
    assert servers == "containerd" or twice == set()


@pytest.mark.kubernetes
@pytest.mark.parametrize("kind", ["jobs", "arrays", "gangs"])
async def test_each_job_starts_once_although_batchq_is_killed_after_its_commits(tmp_path, unreliable, kind, counts):
    """Each server is killed after one to four commits."""
    clock, rng, kills = ShiftedClock(), Random(28), 0
    policy = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, volumes=(tmp_path,))
    async with (
        on_cluster(clock=clock, policy=policy) as runtime,
        world_on(runtime, clock, tmp_path / "checkpoints") as world,
    ):
        jobs, single = await submitted(world, tmp_path, kind)
        async with asyncio.timeout(PATIENCE):
            while any(job.status is not Status.FAILED for job in (await world.store.jobs(jobs)).values()):
                for _ in range(rng.randint(1, 4)):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(world.store.next_commit(), 2)
                await world.crash()
                await world.boot()
                kills += 1
        attempts = {job: (await world.job(job)).attempts for job in single}
        unreliable.is_on = False
        await answered(partial(check_empty, runtime))  # busy kubelets need more than a minute for 60 pods

    starts = Counter((tmp_path / "all").read_text().split())
    assert {len(found) for found in attempts.values()} == {1}
    ends = {f"{job}/{end.node}": end for job, (attempt,) in attempts.items() for end in attempt.containers}
    lost = {name for name, end in ends.items() if HOST_TERMINATED in (end.reason, attempts[name[:-2]][0].status_reason)}
    counts.append(
        f"{kind}: {len(ends)} starts, {len(starts)} ran, {len(lost)} host lost, "
        f"{sum(count > 1 for count in starts.values())} ran twice; {kills} kills of batchq"
    )
    print(counts[-1])
    assert len(ends) == STARTS
    assert max(starts.values()) == 1
    assert starts.keys() | lost == ends.keys()
    assert {end.exit_code for name, end in ends.items() if name not in lost} <= {3}


async def submitted(world, folder, kind):
    """Submit jobs with STARTS containers that append their names to a file of the nodes, and fail with code 3.

    Returns the ids of the jobs, and of those that have no children.
    """
    mounts = (Mount(container_path="/starts", host_path=str(folder)),)
    command = ("sh", "-c", f"{NAMES_ITSELF}; exit 3")
    fields = {"millicpus": 50, "command": command, "mounts": mounts}
    if kind == "arrays":
        arrays = await world.submit_many(STARTS // CHILDREN, None, array_size=CHILDREN, **fields)
        return arrays, [JobId(f"{array}:{index}") for array in arrays for index in range(CHILDREN)]
    if kind == "gangs":
        each = task(task_container(memory_mib=32, **fields))
        waits = ("sh", "-c", f"{NAMES_ITSELF}; {WAITS_FOR_NODE_1}; exit 3")
        leader = task(task_container(memory_mib=32, **fields | {"command": waits}))
        jobs = await world.submit_many(STARTS // 2, None, nodes=gang(2, leader=leader, each=each))
    else:
        jobs = await world.submit_many(STARTS, None, **fields)
    return jobs, jobs
