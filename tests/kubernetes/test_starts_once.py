"""Starts of tasks on a cluster while replies are lost or its servers are killed: each container starts at most once."""

import asyncio
from collections import Counter
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.container import Mount
from batchq.domain.ids import JobId, Tag
from batchq.domain.task import TaskContainer
from batchq.errors import ContainerUnusable, RuntimeUnknown, RuntimeUnreachable
from tests.kubernetes.bed.__main__ import STATE, read, restart, wait_for
from tests.kubernetes.conftest import on_cluster
from tests.support.containers import launch, over

TASKS, NAMES = 6, ("one", "two")


@pytest.fixture
def unreliable(monkeypatch):
    """Loses requests before they are sent, and replies after they were received; sends some requests twice."""
    rng, request = Random(28), RestClient.request

    async def unreliable_request(self, *arguments, **options):
        fault = rng.random()
        if fault < 0.1:
            raise RuntimeUnreachable("not sent")
        reply = await request(self, *arguments, **options)
        if fault < 0.2:
            reply = await request(self, *arguments, **options)
        if 0.1 < fault < 0.35:
            raise RuntimeUnknown("the reply was lost")
        return reply

    monkeypatch.setattr(RestClient, "request", unreliable_request)


def container(tag, folder):
    """A container that appends its name to a file of the node, and fails with code 3."""
    command = ("sh", "-c", f"echo {tag.job_id}/{tag.container} >> /starts/all; exit 3")
    return launch(tag=tag, command=command, mounts=(Mount(container_path="/starts", host_path=str(folder)),))


async def answered(call):
    async with asyncio.timeout(120):
        while True:
            try:
                return await call()
            except RuntimeUnknown:
                await asyncio.sleep(0.05)


async def started(runtime, it):
    """Create and start the container as the engine does: a node may refuse the pod before any container ran."""
    async with asyncio.timeout(120):
        while True:
            try:
                made = await runtime.create(it)
                it = replace(it, container_id=made.container_id)
                return await runtime.start(it.tag)
            except ContainerUnusable:
                it = replace(it, container_id=None)
            except RuntimeUnknown:
                await asyncio.sleep(0.05)


async def check_starts(tmp_path):
    """Start the containers of some tasks at the same time, and count what they have written."""
    async with on_cluster(policy=PodPolicy(volumes=(tmp_path,))) as runtime:

        async def life(it):
            await started(runtime, it)
            await answered(partial(runtime.start, it.tag))
            assert (await answered(partial(over, runtime, it.tag))).exit_code == 3

        launches = []
        for task in range(TASKS):
            tags = [Tag(job_id=JobId(f"job-{task}"), attempt=1, container_key=f"0/{name}") for name in NAMES]
            one, two = (container(tag, tmp_path) for tag in tags)
            launches.append(replace(one, beside=(TaskContainer(name="two", spec=two.spec),)))
            launches.append(replace(two, beside=(TaskContainer(name="one", spec=one.spec),)))
        await asyncio.gather(*(life(it) for it in launches))
        for it in launches:
            await answered(partial(runtime.remove, it.tag))

        starts = Counter((tmp_path / "all").read_text().split())
        assert starts == {f"{it.tag.job_id}/{it.tag.container}": 1 for it in launches}


@pytest.mark.kubernetes
@pytest.mark.usefixtures("unreliable")
async def test_each_container_starts_once_although_requests_and_replies_are_lost(tmp_path):
    await check_starts(tmp_path)


@pytest.mark.kubernetes
@pytest.mark.process
async def test_each_container_starts_once_although_servers_are_killed(tmp_path):
    """Only the bed's own servers are killed."""
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")

    async def kill_servers():
        for name in ("kube-apiserver", "etcd") * 2:
            await asyncio.sleep(rng.uniform(0.5, 4))
            await asyncio.to_thread(restart, name)
            await asyncio.to_thread(wait_for, name, lambda: (read("/readyz") or "").strip() == "ok")

    rng = Random(28)
    killing = asyncio.create_task(kill_servers())
    await check_starts(tmp_path)
    await killing
