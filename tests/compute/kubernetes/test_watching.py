"""The watch: ends of containers, lists after a watch, versions that the server does not know any more."""

import asyncio
from datetime import timedelta

import pytest

from batchq.compute.kubernetes import list_watch, rest
from batchq.errors import RuntimeUnknown, StartUnderWay
from batchq.ports.runtime import ContainerState, DeathReport
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import death_of, launch, launched, started, until
from tests.support.kubernetes import runtime_at
from tests.support.kubernetes_api import failure
from tests.support.scripts import Script

PODS = "/api/v1/namespaces/jobs/pods"
LASTS = Script(seconds=None)
ENDED = {
    "reason": "Error",
    "exitCode": 4,
    "startedAt": "2026-01-01T00:00:00Z",
    "finishedAt": "2026-01-01T00:00:05Z",
    "containerID": "containerd://1",
}


async def running(runtime, cluster):
    """The name and the tag of a pod whose container runs, without kubelets."""
    container = launch(LASTS)
    await runtime.create(container)
    starting = asyncio.create_task(runtime.start(container.tag))
    await bound(cluster, name_of(container.tag))
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    cluster.set_container(name_of(container.tag), state, containerID="containerd://1")
    await starting
    return container.tag


async def test_a_pod_that_its_kubelet_refuses_after_it_was_accepted_is_lost(manual):
    """A kubelet that starts again admits its pods again, also those whose containers have run."""
    runtime, cluster = manual
    container = launch(LASTS)
    await runtime.create(container)
    async with runtime.deaths() as deaths:
        starting = asyncio.create_task(runtime.start(container.tag))
        await bound(cluster, name_of(container.tag))
        cluster.set_status(name_of(container.tag), phase="Pending", startTime="2026-01-01T00:00:00Z")
        with pytest.raises(StartUnderWay):
            await starting
        cluster.set_status(name_of(container.tag), phase="Failed", reason="OutOfcpu", message="too few cpus")

        report = await death_of(deaths, container.tag)

    assert report.found.host_lost


async def test_an_end_is_reported_from_the_state_of_the_container_before_the_phase(manual):
    runtime, cluster = manual
    tag = await running(runtime, cluster)
    async with runtime.deaths() as deaths:
        cluster.set_container(name_of(tag), {"terminated": ENDED}, containerID="containerd://1")

        report = await death_of(deaths, tag)

    assert cluster.pods[name_of(tag)]["status"]["phase"] == "Pending"
    assert isinstance(report, DeathReport)
    assert report.found == await runtime.inspect(tag)
    assert report.found.exit_code == 4


async def test_an_end_is_reported_once_although_the_pod_is_removed_then(manual):
    runtime, cluster = manual
    tag = await running(runtime, cluster)
    async with runtime.deaths() as deaths:
        cluster.set_container(name_of(tag), {"terminated": ENDED})
        cluster.set_status(name_of(tag), phase="Failed")
        await death_of(deaths, tag)
        await runtime.remove(tag)
        other = await running(runtime, cluster)
        cluster.set_container(name_of(other), {"terminated": ENDED})

        assert (await anext(deaths)).tag == other


async def test_an_ended_pod_is_removed_without_being_read_again_and_keeps_finalizers_of_others(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        tag = await started(runtime, Script(seconds=0))
        await death_of(deaths, tag)
    cluster.pods[name_of(tag)]["metadata"]["finalizers"].append("others.io/finalizer")
    cluster.calls.clear()

    await runtime.remove(tag)

    assert [method for method, path in cluster.calls if path.endswith(name_of(tag))] == ["PATCH", "DELETE"]
    assert cluster.pods[name_of(tag)]["metadata"]["finalizers"] == ["others.io/finalizer"]


async def test_the_watch_shows_the_removal_of_an_ended_pod_by_one_event(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        tag = await started(runtime, Script(seconds=0))
        await death_of(deaths, tag)
        before = cluster.sent[PODS]
        await runtime.remove(tag)
        await started(runtime, LASTS)

    assert cluster.sent[PODS] - before == 3  # the removal; of the next pod its node, and that its container runs


async def test_a_second_start_after_the_removal_was_requested_is_killed(manual, caplog):
    runtime, cluster = manual
    tag = await running(runtime, cluster)
    async with runtime.deaths() as deaths:
        cluster.set_container(name_of(tag), {"terminated": ENDED}, containerID="containerd://1")
        await death_of(deaths, tag)
    await runtime.remove(tag)
    await runtime.survey()
    state = {"running": {"startedAt": "2026-01-01T00:00:06Z"}}
    cluster.set_container(name_of(tag), state, containerID="containerd://2")

    [found] = await runtime.survey()

    assert found.host_lost
    assert f"container {tag}: its node created it a second time" in caplog.text


async def test_what_is_known_of_pods_is_dropped_after_they_were_removed(model):
    runtime, cluster = model

    async def is_forgotten():
        await runtime.survey()
        return not runtime._reader.known_uids

    async with runtime.deaths() as deaths:
        tag = await started(runtime, Script(seconds=0))
        await death_of(deaths, tag)
        assert runtime._reader.known_uids == {cluster.pods[name_of(tag)]["metadata"]["uid"]}
        await runtime.remove(tag)
        await until(is_forgotten)


async def test_a_pod_without_a_node_is_not_followed(model):
    runtime, cluster = model
    async with runtime.deaths():
        await cluster.watched()
        await runtime.create(launch(LASTS))
        await started(runtime, LASTS)

    assert cluster.sent[PODS] <= 2  # of the second pod: its node, and that its container runs


async def test_a_removal_that_ended_before_the_deletion_is_made_again(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        tag = await started(runtime, Script(seconds=0))
        await death_of(deaths, tag)
    cluster.fault = lambda method, _path: "refused" if method == "DELETE" else None
    with pytest.raises(RuntimeUnknown):
        await runtime.remove(tag)
    cluster.fault = lambda _method, _path: None

    assert [found.state for found in await runtime.survey()] == [ContainerState.EXITED]
    await runtime.remove(tag)
    assert cluster.pods == {}


@pytest.mark.parametrize("compacted", [False, True])
async def test_an_end_between_two_watches_is_reported(manual, monkeypatch, compacted):
    runtime, cluster = manual
    monkeypatch.setattr(list_watch, "SHORTEST_WATCH", timedelta())
    tag = await running(runtime, cluster)
    async with runtime.deaths() as deaths:
        await cluster.watched()
        if compacted:
            cluster.compact()
        cluster.end_watches()
        cluster.set_container(name_of(tag), {"terminated": ENDED})

        assert (await death_of(deaths, tag)).found.exit_code == 4


async def test_a_version_that_the_server_does_not_know_any_more_is_listed_anew(manual, monkeypatch):
    runtime, cluster = manual
    monkeypatch.setattr(list_watch, "SHORTEST_WATCH", timedelta())
    cluster.oldest_version = 50  # the next lists are too old for a watch
    async with runtime.deaths() as deaths:
        tag = await running(runtime, cluster)
        cluster.set_container(name_of(tag), {"terminated": ENDED})

        assert (await death_of(deaths, tag)).found.exit_code == 4


async def test_the_subscription_ends_with_the_server_and_another_one_begins(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        await cluster.watched()
        cluster.end_watches()

        with pytest.raises(StopAsyncIteration):
            await anext(deaths)
    async with runtime.deaths() as deaths:
        tag = await launched(runtime, launch(Script(seconds=0)))

        await death_of(deaths, tag)


async def test_a_bookmark_is_not_a_pod(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        cluster.bookmark()
        tag = await started(runtime, Script(seconds=0))

        await death_of(deaths, tag)


async def test_a_list_whose_version_expires_between_two_pages_reports_nothing_as_gone(model, monkeypatch):
    monkeypatch.setattr(rest, "PAGE", 1)
    runtime, cluster = model
    tags = {await started(runtime, Script(seconds=None)) for _ in range(3)}
    replies = iter([None, (410, "The provided continue parameter is too old")])
    cluster.fault = lambda _method, path: next(replies, None) if path.endswith("/pods") else None

    with pytest.raises(RuntimeUnknown, match="too old"):
        await runtime.survey()

    assert {found.tag for found in await runtime.survey()} == tags


async def test_a_subscription_fails_if_the_server_refuses_the_list(model):
    runtime, cluster = model
    cluster.fault = lambda _method, _path: "refused"

    with pytest.raises(RuntimeUnknown):
        async with runtime.deaths():
            pass
    cluster.fault = lambda _method, _path: None


async def test_a_pod_that_another_client_removes_is_reported(model):
    runtime, cluster = model
    tag = await started(runtime, LASTS)
    async with runtime.deaths() as deaths:
        pod = cluster.pods.pop(name_of(tag))
        cluster._save(pod, "DELETED")

        assert await death_of(deaths, tag) == tag


async def test_pods_of_other_instances_and_of_no_job_are_ignored(model):
    runtime, cluster = model
    cluster.pods["x"] = {"metadata": {"name": "x", "uid": "x", "labels": {"io.batchq.instance": "i1"}}, "spec": {}}
    cluster.pods["y"] = {"metadata": {"name": "y", "uid": "y", "labels": {"io.batchq.instance": "i2"}}, "spec": {}}

    assert await runtime.survey() == ()


async def test_a_second_start_by_the_node_is_killed_and_counts_as_a_loss_of_the_host(manual, caplog):
    runtime, cluster = manual
    tag = await running(runtime, cluster)
    async with runtime.deaths() as deaths:
        state = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}
        cluster.set_container(name_of(tag), state, containerID="containerd://2")

        found = (await death_of(deaths, tag)).found

    assert (found.exit_code, found.host_lost) == (137, True)
    async with asyncio.timeout(10):
        while "activeDeadlineSeconds" not in cluster.pods[name_of(tag)]["spec"]:  # noqa: ASYNC110 - the model sets no event
            await asyncio.sleep(0.005)
    assert caplog.text.count("created it a second time") == 1


async def test_a_refused_watch_ends_the_subscription(model):
    runtime, cluster = model

    async def forbidden(_request, _belongs):
        return failure(403, "Forbidden", "no watch")

    cluster._watch = forbidden
    async with runtime.deaths() as deaths:
        with pytest.raises(StopAsyncIteration):
            await anext(deaths)


async def test_the_next_server_notices_a_second_start_of_a_container_that_a_survey_saw_run(manual):
    runtime, cluster = manual
    tag = await running(runtime, cluster)
    await runtime.survey()
    pod = cluster.pods[name_of(tag)]

    async def is_annotated():
        return "run.batchq.io/main" in pod["metadata"]["annotations"]

    await until(is_annotated)
    before = (await runtime.inspect(tag)).started_at
    calls = len(cluster.calls)
    await runtime.survey()
    assert [method for method, _ in cluster.calls[calls:]] == ["GET"]

    following = runtime_at(runtime._rest._cluster.server)
    try:
        cluster.set_container(
            name_of(tag), {"running": {"startedAt": "2026-01-01T01:00:00Z"}}, containerID="containerd://2"
        )

        found = await following.inspect(tag)

        assert (found.state, found.host_lost, found.started_at) == (ContainerState.EXITED, True, before)
    finally:
        await following.close()
