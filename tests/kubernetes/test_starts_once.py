"""Starts of tasks on a cluster while replies are lost or its servers are killed: each container starts at most once."""

import asyncio
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
from tests.kubernetes.bed.__main__ import STATE, kill_on_nodes, request, restart, wait_for
from tests.kubernetes.conftest import on_cluster, world_on
from tests.support.clock import ShiftedClock
from tests.support.containers import launch, over

STARTS, NAMES = 60, ("one", "two")
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

    Returns the containers that ran twice. Each of them is host lost.
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
    print(f"{kind.__name__}: {len(names)} starts, {len(starts)} ran, {len(lost)} host lost, {len(twice)} ran twice")
    assert {end.exit_code for end in ends if end is not None and not end.host_lost} <= {3}
    assert starts.keys() | lost == {*names}
    assert twice <= lost
    return twice


@pytest.mark.kubernetes
@pytest.mark.parametrize("kind", [single_containers, tasks])
@pytest.mark.usefixtures("unreliable")
async def test_each_container_starts_once_although_requests_and_replies_are_lost(tmp_path, kind):
    assert await check_starts(tmp_path, kind) == set()


@pytest.mark.kubernetes
@pytest.mark.process
@pytest.mark.parametrize("servers", ["control plane", "kubelet", "containerd"])
@pytest.mark.parametrize("kind", [single_containers, tasks])
@pytest.mark.usefixtures("unreliable")
async def test_each_container_starts_once_although_servers_are_killed(tmp_path, kind, servers):
    """Only the bed's own servers are killed.

    A kubelet itself starts a container again whose start was not saved by a containerd that was killed.
    """
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")

    async def kill_servers():
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(1, 5))
            if servers == "control plane":
                await asyncio.to_thread(restart, rng.choice(("kube-apiserver", "etcd")))
                await asyncio.to_thread(wait_for, "a server", lambda: (request("/readyz") or "").strip() == "ok")
            else:
                await asyncio.to_thread(kill_on_nodes, servers)
            kills.append(servers)

    rng, kills = Random(28), []
    killing = asyncio.create_task(kill_servers())
    try:
        twice = await check_starts(tmp_path, kind)
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    print(f"{len(kills)} kills of {servers}")
    assert servers == "containerd" or twice == set()


@pytest.mark.kubernetes
async def test_each_job_starts_once_although_batchq_is_killed_after_its_commits(tmp_path, unreliable):
    """Each server is killed after one to four commits."""
    clock, rng, kills = ShiftedClock(), Random(28), 0
    command = ("sh", "-c", "echo $AWS_BATCH_JOB_ID >> /starts/all; exit 3")
    mounts = (Mount(container_path="/starts", host_path=str(tmp_path)),)
    policy = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, volumes=(tmp_path,))
    async with (
        on_cluster(clock=clock, policy=policy) as runtime,
        world_on(runtime, clock, tmp_path / "checkpoints") as world,
    ):
        jobs = await world.submit_many(STARTS, None, millicpus=50, command=command, mounts=mounts)
        async with asyncio.timeout(PATIENCE):
            while any(job.status is not Status.FAILED for job in (await world.store.jobs(jobs)).values()):
                for _ in range(rng.randint(1, 4)):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(world.store.next_commit(), 2)
                await world.crash()
                await world.boot()
                kills += 1
        ended = [(await world.job(job)).attempts for job in jobs]
        unreliable.is_on = False
        await answered(partial(check_empty, runtime))  # busy kubelets need more than a minute for 60 pods

    starts = Counter((tmp_path / "all").read_text().split())
    lost = [attempts for attempts in ended if attempts[-1].reason == HOST_TERMINATED]
    print(f"{STARTS} jobs, {kills} kills of batchq, {len(starts)} ran, {len(lost)} host lost")
    assert max(starts.values()) == 1
    assert {attempts[-1].exit_code for attempts in ended if attempts not in lost} <= {3}
    assert len(starts) + len(lost) >= STARTS
