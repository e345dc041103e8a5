"""Copies of pods by other clients, answers that are not the API server's, and an etcd that was restored."""

import asyncio
from copy import deepcopy
from uuid import uuid4

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes import rest
from batchq.errors import ContainerGone, RuntimeUnknown, StartInterrupted, StartRefused, StartUnderWay
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import name_of
from tests.support.containers import death_of, launch, launched, over, until
from tests.support.kubernetes import runtime_at
from tests.support.scripts import Script

LASTS = Script(seconds=None)


def proxy(status, *methods):
    """A proxy on the way that answers in place of the API server."""
    return lambda method, _path: (status, "the page of a proxy") if method in methods else None


def copied(cluster, tag, **spec):
    """Copy a pod as `kubectl debug --copy-to --keep-labels` does: all but its name and its node. Returns the copy."""
    copy = deepcopy(cluster.pods[name_of(tag)])
    copy["metadata"] |= {"name": "debug", "uid": str(uuid4()), "finalizers": []}
    copy["spec"] |= {"nodeName": "n1"} | spec
    copy["status"] = {"phase": "Running"}
    cluster.pods["debug"] = copy
    cluster._save(copy, "ADDED")
    return copy


async def test_the_end_of_a_copy_of_a_pod_is_not_the_end_of_the_job(model):
    runtime, cluster = model
    tag = await launched(runtime, launch(LASTS))
    async with runtime.deaths() as deaths:
        copied(cluster, tag)
        ended = {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"}
        cluster.set_container("debug", {"terminated": ended | {"containerID": "containerd://copy"}})
        await runtime.kill(tag)
        report = await death_of(deaths, tag)

    assert report.found.exit_code == 137


async def test_a_pod_that_another_client_created_again_is_not_the_one_of_the_job(model):
    """Its program runs a second time, by the word of that client. The job has lost its container."""
    runtime, cluster = model
    container = launch(LASTS)
    made = await runtime.create(container)
    await runtime.start(container.tag)
    again = deepcopy(cluster.pods[name_of(container.tag)])
    again["metadata"]["uid"] = str(uuid4())
    cluster.pods[name_of(container.tag)] = again

    assert await runtime.inspect(container.tag) is None
    assert await runtime.survey() == ()
    with pytest.raises(ContainerGone):
        await runtime.create(replace(container, container_id=made.container_id))


async def test_a_survey_lists_no_copies_of_pods(model):
    runtime, cluster = model
    tag = await launched(runtime, launch(LASTS))
    copied(cluster, tag)

    assert [found.tag for found in await runtime.survey()] == [tag]


async def test_one_pod_with_a_node_that_is_no_number_does_not_hide_the_others(model):
    runtime, cluster = model
    tag = await launched(runtime, launch(LASTS))
    copied(cluster, tag)["metadata"]["annotations"] |= {"io.batchq.node": "x", "io.batchq.containers": '{"main": "m"}'}

    assert [found.tag for found in await runtime.survey()] == [tag]


async def test_two_servers_in_one_namespace_do_not_see_the_pods_of_each_other(model):
    """They have the same job and attempt, as after the data of one was copied before its first start."""
    runtime, cluster = model
    other = runtime_at(runtime._rest._cluster.server, instance="i2")
    container = launch(LASTS)
    async with other.deaths() as deaths:
        for server in (runtime, other):
            await launched(server, container)
        await runtime.kill(container.tag)
        await over(runtime, container.tag)

        assert (await other.inspect(container.tag)).state is ContainerState.RUNNING
        assert len(await other.survey()) == 1
        await runtime.remove(container.tag)
        await other.kill(container.tag)
        assert (await death_of(deaths, container.tag)).found.exit_code == 137
    await other.close()

    assert sorted(cluster.starts.values()) == [1, 1]


async def test_a_proxy_that_answers_404_does_not_prove_that_the_pod_is_absent(model):
    runtime, cluster = model
    tag = await launched(runtime, launch(LASTS))
    cluster.fault = proxy(404, "GET")

    with pytest.raises(RuntimeUnknown, match="the page of a proxy"):
        await runtime.inspect(tag)
    with pytest.raises(RuntimeUnknown, match="by a proxy"):
        await anext(runtime.logs(tag, after=0))


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirection_to_a_login_is_no_answer(model, status):
    runtime, cluster = model
    container = launch(LASTS)
    await runtime.create(container)
    cluster.fault = proxy(status, "POST")

    with pytest.raises(RuntimeUnknown, match="the page of a proxy"):
        await runtime.start(container.tag)

    assert cluster.starts == {}


async def test_the_image_that_holds_containers_is_refused_as_the_image_of_a_job(model):
    """A job with this image would wait for its pull for ever."""
    runtime, _ = model

    with pytest.raises(
        StartRefused, match="by which batchq holds containers is not available on Kubernetes"
    ) as refused:
        await runtime.create(launch(image="127.0.0.1:1/batchq-held:1"))

    assert refused.value.certain


async def test_a_watch_of_the_time_before_a_restore_of_etcd_is_replaced(model, monkeypatch):
    """The API server sends such a watch nothing until its own versions have passed the one of the watch."""
    monkeypatch.setattr(rest, "STREAM_TIMEOUT", 0.2)
    runtime, cluster = model
    tag = await launched(runtime, launch(LASTS))
    backup = cluster.backup()
    for _ in range(100):
        cluster.bookmark()
    async with asyncio.timeout(20):
        cluster.restore(backup)
        await cluster.watched()
        await runtime.kill(tag)

        async def is_reported():
            """A watch that has ended is replaced by the next subscription."""
            async with runtime.deaths() as deaths:
                found = await runtime.inspect(tag)
                if found.state is ContainerState.EXITED:
                    return True
                return any([death async for death in deaths])

        await until(is_reported)
    assert (await runtime.inspect(tag)).state is ContainerState.EXITED


async def test_a_pod_whose_binding_is_not_in_a_restored_etcd_is_not_bound_again(manual):
    """Its node may have started the program, and ends the program once it does not see the pod any more."""
    runtime, cluster = manual
    container = launch(LASTS)
    made = await runtime.create(container)
    backup = cluster.backup()
    with pytest.raises(StartUnderWay):
        await runtime.start(container.tag)

    cluster.restore(backup)
    await runtime.create(replace(container, container_id=made.container_id))
    with pytest.raises(StartInterrupted, match="has lost the binding"):
        await runtime.start(container.tag)

    assert "nodeName" not in cluster.pods[name_of(container.tag)]["spec"]
