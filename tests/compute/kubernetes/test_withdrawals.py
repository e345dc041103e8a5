"""Starts that are given up because an image cannot be pulled: the kubelet repeats the pull for ever.

The container gets an image that cannot be pulled at all. Its kubelet handles one version of the pod after the other, so
the container has not run and never will once the kubelet reports that it waits for that image.
"""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes import pod_start, start_requests
from batchq.compute.kubernetes.pod_names import DELETED_FOR, HELD_IMAGE
from batchq.errors import ContainerUnusable, ImageUnavailable, StartUnderWay
from batchq.ports.runtime import ContainerState, Inspection
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import launch
from tests.support.kubernetes import kubernetes_runtime
from tests.support.kubernetes_api import ModelCluster

LONG_AGO = "2026-01-01T00:00:00Z"
ENDED = {
    "reason": "Error",
    "exitCode": 143,
    "startedAt": LONG_AGO,
    "finishedAt": LONG_AGO,
    "containerID": "containerd://1",
}
WHY = "withdraw: CannotPullContainerError: gone"


class Withdrawal:
    """A container whose image is gone, on a cluster without kubelets: the test writes what the kubelet reports."""

    def __init__(self, runtime, cluster):
        self.runtime = runtime
        self.cluster = cluster
        self.container = launch()
        self.tag = self.container.tag
        self.name = name_of(self.tag)

    @property
    def pod(self):
        return self.cluster.pods[self.name]

    async def begin(self):
        """Request the start, whose image the kubelet cannot pull. Returns the start."""
        made = await self.runtime.create(self.container)
        self.container = replace(self.container, container_id=made.container_id)
        starting = asyncio.create_task(self.runtime.start(self.tag))
        await bound(self.cluster, self.name)
        self.report(self.container.spec.image)
        return starting

    def report(self, image, **status):
        """The kubelet reports that it waits for the image."""
        waiting = {"waiting": {"reason": "ErrImagePull", "message": "gone" if image != HELD_IMAGE else image}}
        self.cluster.set_container(self.name, waiting, image=image, **status)

    async def is_held(self):
        async with asyncio.timeout(10):
            while self.pod["spec"]["containers"][0]["image"] != HELD_IMAGE:  # noqa: ASYNC110 - the model sets no event
                await asyncio.sleep(0.005)

    async def is_deleted(self):
        async with asyncio.timeout(10):
            while "deletionTimestamp" not in self.pod["metadata"]:  # noqa: ASYNC110 - the model sets no event
                await asyncio.sleep(0.005)

    async def is_refused(self, call):
        with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: gone$"):
            await call


@pytest.fixture
async def withdrawal(manual):
    return Withdrawal(*manual)


async def test_an_image_that_cannot_be_pulled_refuses_the_start(model):
    runtime, cluster = model
    cluster.missing_images["batchq-test:latest"] = "not found"
    container = launch()
    await runtime.create(container)

    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: not found$"):
        await runtime.start(container.tag)

    assert await runtime.inspect(container.tag) == Inspection(tag=container.tag, state=ContainerState.CREATED)
    assert "deletionTimestamp" not in cluster.pods[name_of(container.tag)]["metadata"]
    await runtime.remove(container.tag)
    assert cluster.pods == {}


async def test_a_start_is_refused_only_once_the_node_waits_for_the_held_image(withdrawal, monkeypatch):
    monkeypatch.setattr(pod_start, "WITHDRAWAL_WAIT", 0.05)
    starting = await withdrawal.begin()

    with pytest.raises(StartUnderWay, match="has not confirmed"):
        await starting
    withdrawal.report(HELD_IMAGE)

    await withdrawal.is_refused(withdrawal.runtime.create(withdrawal.container))
    with pytest.raises(ContainerUnusable):
        await withdrawal.runtime.create(withdrawal.container)


async def test_a_withdrawal_waits_no_longer_than_its_time(withdrawal, monkeypatch):
    monkeypatch.setattr(pod_start, "WITHDRAWAL_WAIT", 0.05)
    waits = []

    async def wait_for_event(seconds, event):
        waits.append(seconds)
        await start_requests.wait_for_event(seconds, event)

    monkeypatch.setattr(pod_start, "wait_for_event", wait_for_event)
    starting = await withdrawal.begin()

    with pytest.raises(StartUnderWay):
        await starting

    assert max(waits) <= pod_start.START_WAIT


async def test_the_next_server_finishes_a_withdrawal_with_the_same_reason(withdrawal):
    starting = await withdrawal.begin()
    await withdrawal.is_held()
    starting.cancel()
    withdrawal.report(HELD_IMAGE)

    assert withdrawal.pod["metadata"]["annotations"][DELETED_FOR] == WHY
    await withdrawal.is_refused(withdrawal.runtime.start(withdrawal.tag))


@pytest.mark.parametrize(
    "state", [{"state": {"terminated": ENDED}}, {"state": {"waiting": {}}, "lastState": {"terminated": ENDED}}]
)
async def test_a_withdrawn_container_that_ran_after_all_is_reported(withdrawal, state):
    """Its pull succeeded before the node saw the held image. The kubelet ends a container whose image has changed."""
    starting = await withdrawal.begin()
    await withdrawal.is_held()
    withdrawal.cluster.set_container(withdrawal.name, **state, image="batchq-test:latest", containerID="containerd://1")

    await starting

    found = await withdrawal.runtime.inspect(withdrawal.tag)
    assert (found.state, found.exit_code, found.host_lost) == (ContainerState.EXITED, 143, False)


async def test_a_container_that_runs_is_not_withdrawn_because_the_watch_is_behind(manual):
    withdrawal = Withdrawal(*manual)
    cluster, running = withdrawal.cluster, {"running": {"startedAt": LONG_AGO}}

    def start_before_the_read(method, path):
        if method == "GET" and path.endswith(withdrawal.name):
            status = {"name": "main", "state": running, "containerID": "containerd://1"}
            withdrawal.pod["status"]["containerStatuses"] = [status]

    cluster.fault = start_before_the_read
    await (await withdrawal.begin())

    assert withdrawal.pod["spec"]["containers"][0]["image"] == withdrawal.container.spec.image


async def test_a_pod_is_deleted_if_the_cluster_refuses_the_held_image(withdrawal):
    """A policy of the cluster for images may do so."""
    faults = iter([(403, "denied by a policy")])
    withdrawal.cluster.fault = lambda method, _path: next(faults, None) if method == "PATCH" else None
    starting = await withdrawal.begin()
    await withdrawal.is_deleted()
    assert withdrawal.pod["metadata"]["annotations"][DELETED_FOR] == WHY
    withdrawal.cluster.set_container(withdrawal.name, {"terminated": {"reason": "ContainerStatusUnknown"}})
    withdrawal.cluster.set_status(withdrawal.name, phase="Failed")

    await withdrawal.is_refused(starting)


async def test_a_pod_whose_node_never_waits_for_the_held_image_is_deleted_after_a_minute(withdrawal, monkeypatch):
    monkeypatch.setattr(pod_start, "WITHDRAWAL_WAIT", 0.05)
    starting = await withdrawal.begin()
    with pytest.raises(StartUnderWay):
        await starting
    with pytest.raises(StartUnderWay):
        await withdrawal.runtime.start(withdrawal.tag)
    assert "deletionTimestamp" not in withdrawal.pod["metadata"]

    monkeypatch.setattr(pod_start, "REPEAT_WAIT", timedelta(0))
    with pytest.raises(StartUnderWay):
        await withdrawal.runtime.start(withdrawal.tag)

    await withdrawal.is_deleted()


async def test_a_withdrawn_pod_that_another_client_deletes_is_lost_on_1_20(monkeypatch):
    """A kubelet of 1.20 removes a container of a deleted pod, and then shows no trace of it."""
    monkeypatch.setattr(pod_start, "WITHDRAWAL_WAIT", 0.05)
    async with kubernetes_runtime(ModelCluster(kubelet=False, minor=20), allow_old=True) as (runtime, cluster):
        withdrawal = Withdrawal(runtime, cluster)
        starting = await withdrawal.begin()
        with pytest.raises(StartUnderWay):
            await starting
        withdrawal.pod["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 0}
        withdrawal.report(HELD_IMAGE)

        await runtime.start(withdrawal.tag)

        assert (await runtime.inspect(withdrawal.tag)).host_lost
