"""A containerd that is killed during a start: the kubelet may create the container again, also with `Never`.

The statuses are those of Kubernetes 1.20.2.
"""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes import pod_start
from batchq.compute.kubernetes.pod_names import DELETED_FOR
from batchq.errors import ContainerUnusable, StartRefused, StartUnderWay
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import death_of, launch, until
from tests.support.kubernetes import kubernetes_runtime, runtime_at
from tests.support.kubernetes_api import ModelCluster, now, stamp

FIRST, SECOND = "containerd://first", "containerd://second"
LONG_AGO = "2026-01-01T00:00:00Z"
CLOSED = {"waiting": {"reason": "CreateContainerError", "message": "transport is closing"}}
RUNNING = {"running": {"startedAt": LONG_AGO}}
EXITED = {
    "terminated": {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": LONG_AGO,
        "finishedAt": LONG_AGO,
        "containerID": SECOND,
    }
}


async def requested(runtime, cluster):
    """The launch of a container whose pod is bound and accepted just now, and its start, which waits."""
    container = launch()
    made = await runtime.create(container)
    starting = asyncio.create_task(runtime.start(container.tag))
    await bound(cluster, name_of(container.tag))
    cluster.set_status(name_of(container.tag), startTime=stamp(now()))
    return replace(container, container_id=made.container_id), starting


def is_deleted(cluster, tag):
    return "deletionTimestamp" in cluster.pods[name_of(tag)]["metadata"]


@pytest.mark.parametrize("state", [RUNNING, EXITED])
async def test_a_container_that_its_kubelet_created_again_is_lost_with_its_host_and_killed(manual, caplog, state):
    """The pod showed the first container only as `waiting`, although its program had run."""
    runtime, cluster = manual
    async with runtime.deaths() as deaths:
        container, starting = await requested(runtime, cluster)
        cluster.set_container(name_of(container.tag), {"waiting": {}}, containerID=FIRST)
        cluster.set_container(name_of(container.tag), state, containerID=SECOND, restartCount=1)
        await starting
        found = (await death_of(deaths, container.tag)).found

    assert (found.state, found.exit_code, found.host_lost) == (ContainerState.EXITED, 137, True)
    assert await runtime.inspect(container.tag) == found

    async def is_killed():
        return "activeDeadlineSeconds" in cluster.pods[name_of(container.tag)]["spec"]

    await until(is_killed)
    assert caplog.text.count("may have run twice") == 1


async def test_the_survey_of_the_next_server_finds_a_container_that_was_created_again(manual):
    runtime, cluster = manual
    container, starting = await requested(runtime, cluster)
    starting.cancel()
    cluster.set_container(name_of(container.tag), EXITED, containerID=SECOND, restartCount=1)

    following = runtime_at(runtime._rest._cluster.server)
    try:
        (found,) = await following.survey()
    finally:
        await following.close()

    assert (found.state, found.host_lost) == (ContainerState.EXITED, True)


async def test_an_exit_code_without_a_start_is_not_believed(manual):
    """It is that of the program, or that of a runc that did not start the program."""
    runtime, cluster = manual
    container, starting = await requested(runtime, cluster)
    ended = EXITED["terminated"] | {"exitCode": 1, "startedAt": "1970-01-01T00:00:00Z", "containerID": FIRST}
    cluster.set_container(name_of(container.tag), {"terminated": ended}, containerID=FIRST)
    await starting

    found = await runtime.inspect(container.tag)

    assert (found.state, found.exit_code, found.host_lost) == (ContainerState.EXITED, 137, True)


async def test_a_pod_is_not_withdrawn_while_its_kubelet_repeats_what_containerd_did_not_do(manual):
    """The program of a pod that is deleted then may have run beside that of the pod which replaces it."""
    runtime, cluster = manual
    container, starting = await requested(runtime, cluster)
    cluster.set_container(name_of(container.tag), CLOSED)
    with pytest.raises(StartUnderWay, match="repeats the creation of the container: transport is closing"):
        await starting

    starting = asyncio.create_task(runtime.start(container.tag))
    cluster.set_container(name_of(container.tag), RUNNING, containerID=FIRST)
    await starting

    assert not is_deleted(cluster, container.tag)
    assert (await runtime.inspect(container.tag)).state is ContainerState.RUNNING


async def test_a_clock_that_is_ahead_of_the_cluster_does_not_shorten_the_time_of_the_kubelet(manual):
    runtime, cluster = manual
    container, starting = await requested(runtime, cluster)
    cluster.pods[name_of(container.tag)]["metadata"]["creationTimestamp"] = LONG_AGO
    cluster.set_status(name_of(container.tag), startTime=LONG_AGO)
    cluster.set_container(name_of(container.tag), CLOSED)

    with pytest.raises(StartUnderWay, match="repeats the creation"):
        await starting

    assert not is_deleted(cluster, container.tag)


@pytest.fixture(params=[20, 36])
async def version(request, monkeypatch):
    """A runtime, a cluster of Kubernetes 1.20 or 1.36 without kubelets, and whether it reports the end of each pod."""
    monkeypatch.setattr(pod_start, "START_WAIT", 0.3)
    cluster = ModelCluster(kubelet=False, minor=request.param)
    async with kubernetes_runtime(cluster, allow_old=True) as (runtime, _):
        yield runtime, cluster, request.param == 36


async def test_a_pod_whose_kubelet_repeats_the_start_for_a_minute_is_withdrawn(version, monkeypatch):
    """Kubernetes 1.20 confirms the deletion without an end, also of a container that it has started meanwhile."""
    runtime, cluster, reports_the_end = version
    container, starting = await requested(runtime, cluster)
    monkeypatch.setattr(pod_start, "REPEAT_WAIT", timedelta(0))
    cluster.set_container(name_of(container.tag), CLOSED)

    async def is_withdrawn():
        return is_deleted(cluster, container.tag)

    await until(is_withdrawn)
    pod = cluster.pods[name_of(container.tag)]
    assert pod["metadata"]["annotations"][DELETED_FOR].startswith("withdraw: CannotCreateContainerError: ")
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    if reports_the_end:
        unknown = {"reason": "ContainerStatusUnknown", "exitCode": 137}
        cluster.set_container(name_of(container.tag), {"terminated": unknown})
        cluster.set_status(name_of(container.tag), phase="Failed")
        with pytest.raises(StartRefused, match="transport is closing"):
            await starting
        with pytest.raises(ContainerUnusable):
            await runtime.create(container)
    else:
        cluster.set_status(name_of(container.tag))
        await starting
        assert (await runtime.inspect(container.tag)).host_lost
