"""Creating and starting pods: at most one start, whatever happens to the requests and their replies."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes import pod_start, start_requests
from batchq.compute.secrets import Secrets
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Resources, Secret
from batchq.errors import (
    ContainerGone,
    ContainerRuntimeError,
    ContainerUnusable,
    NameTaken,
    RuntimeUnknown,
    StartHadNoEffect,
    StartInterrupted,
    StartRefused,
    StartUnderWay,
)
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import launch, launched, over
from tests.support.examples import quick_seeds
from tests.support.kubernetes import kubernetes_runtime, runtime_at, served
from tests.support.kubernetes_api import ModelCluster, node
from tests.support.scripts import Script

QUICK = Script(seconds=0, exit_code=3)


def binding(fault, times=1):
    """The fault for the next bindings."""
    left = [times]

    def decide(_method, path):
        if not path.endswith("/binding") or not left[0]:
            return None
        left[0] -= 1
        return fault

    return decide


async def test_a_created_pod_is_not_bound(model):
    runtime, cluster = model
    container = launch()

    made = await runtime.create(container)

    pod = cluster.pods[name_of(container.tag)]
    assert made.container_id == pod["metadata"]["uid"]
    assert "nodeName" not in pod["spec"]
    assert cluster.starts == {}


async def test_the_binding_names_the_uid_of_the_pod_that_was_created(model):
    runtime, cluster = model
    container = replace(launch(QUICK), machine="n1")
    await runtime.create(container)
    # Another pod takes the name: the start must not reach it.
    await runtime.remove(container.tag)
    other = launch(QUICK, tag=container.tag)
    runtime._starts._created.clear()
    first = await runtime.create(other)
    runtime._starts._created[container.tag] = (
        {**cluster.pods[name_of(container.tag)], "metadata": {"name": name_of(container.tag), "uid": "old"}},
        container,
    )

    with pytest.raises(ContainerGone):
        await runtime.start(container.tag)

    assert cluster.starts == {}
    assert cluster.pods[name_of(container.tag)]["metadata"]["uid"] == first.container_id


@pytest.mark.parametrize("fault", ["lost", "twice"])
async def test_a_binding_without_a_reply_or_sent_twice_starts_the_pod_once(model, fault):
    runtime, cluster = model
    container = launch(QUICK)
    made = await runtime.create(container)
    cluster.fault = binding(fault)

    with suppress(RuntimeUnknown):
        await runtime.start(container.tag)
    await runtime.start(container.tag)

    assert (await over(runtime, container.tag)).exit_code == 3
    assert cluster.starts == {made.container_id: 1}


async def test_a_late_binding_does_not_start_the_pod_again(model):
    runtime, cluster = model
    container = launch(QUICK)
    made = await runtime.create(container)
    cluster.fault = binding("late")
    with pytest.raises(RuntimeUnknown):
        await runtime.start(container.tag)
    await runtime.start(container.tag)
    await over(runtime, container.tag)

    await cluster.run_late_calls()

    assert cluster.starts == {made.container_id: 1}


async def test_a_late_binding_does_not_start_a_removed_pod(model):
    runtime, cluster = model
    container = launch(QUICK)
    await runtime.create(container)
    cluster.fault = binding("late")
    with pytest.raises(RuntimeUnknown):
        await runtime.start(container.tag)
    await runtime.remove(container.tag)

    await cluster.run_late_calls()

    assert cluster.starts == {}


@pytest.mark.parametrize("seed", quick_seeds(3, of=8))
async def test_a_third_of_all_replies_lost_starts_each_pod_at_most_once(seed):
    """Every call is repeated until it is answered, as the engine does; the server is replaced in between."""
    rng = Random(seed)
    cluster = ModelCluster()
    cluster.fault = lambda _method, path: (
        None if "watch" in path else rng.choice([None, None, None, None, "lost", "twice", "refused"])
    )
    async with served(cluster) as url:
        for index in range(4):
            container = launch(QUICK)
            runtime = runtime_at(url)
            made = await _answered(lambda: runtime.create(container))  # noqa: B023 - called at once
            if index % 2:
                await runtime.close()
                runtime = runtime_at(url)
            container = replace(container, container_id=made.container_id)
            await _answered(lambda: runtime.create(container))  # noqa: B023 - called at once
            await _answered(lambda: runtime.start(container.tag))  # noqa: B023 - called at once
            found = await _answered(lambda: over(runtime, container.tag))  # noqa: B023 - called at once
            assert found.exit_code == 3
            assert cluster.starts[made.container_id] == 1
            await _answered(lambda: runtime.remove(container.tag))  # noqa: B023 - called at once
            await runtime.close()
    assert set(cluster.starts.values()) == {1}


async def _answered(call):
    async with asyncio.timeout(20):
        while True:
            try:
                return await call()
            except RuntimeUnknown:
                await asyncio.sleep(0)


async def test_a_pod_that_was_bound_and_is_absent_is_not_created_again(model):
    runtime, cluster = model
    container = launch(Script(seconds=None))
    made = await runtime.create(container)
    await runtime.start(container.tag)
    cluster.pods.clear()

    with pytest.raises(ContainerGone):
        await runtime.create(replace(container, container_id=made.container_id))

    assert cluster.pods == {}


async def test_a_reply_that_is_not_a_pod_does_not_prove_that_the_pod_is_absent(model):
    runtime, cluster = model
    tag = await launched(runtime, launch(Script(seconds=None)))
    cluster.fault = lambda method, _path: (200, "the page of a proxy") if method == "GET" else None

    with pytest.raises(RuntimeUnknown, match="invalid reply"):
        await runtime.inspect(tag)


async def test_a_pod_whose_account_lost_its_permission_since_is_not_started(model):
    runtime, cluster = model
    container = launch()
    made = await runtime.create(container)

    with pytest.raises(StartRefused, match="may not run containers as root"):
        await runtime.create(
            replace(container, container_id=made.container_id, allowances=(ContainerPolicy(volumes=("/data",)),))
        )

    assert cluster.starts == {}


async def test_a_pod_of_another_client_with_the_same_name_is_not_touched(model):
    runtime, cluster = model
    container = launch()
    foreign = {"metadata": {"name": name_of(container.tag), "uid": "u"}, "spec": {}, "status": {}}
    cluster.pods[name_of(container.tag)] = foreign

    with pytest.raises(NameTaken):
        await runtime.create(container)

    assert cluster.pods == {name_of(container.tag): foreign}


async def test_a_start_under_way_is_reported_and_continues(manual):
    runtime, cluster = manual
    container = launch()
    made = await runtime.create(container)

    with pytest.raises(StartUnderWay, match="pulls the image"):
        await runtime.start(container.tag)
    again = await runtime.create(replace(container, container_id=made.container_id))
    waiting = asyncio.create_task(runtime.start(container.tag))
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    cluster.set_container(name_of(container.tag), running, containerID="containerd://1")
    await waiting

    assert again.state is ContainerState.CREATED
    assert (await runtime.inspect(container.tag)).state is ContainerState.RUNNING
    assert [path for method, path in cluster.calls if path.endswith("/binding")] == [
        f"/api/v1/namespaces/jobs/pods/{name_of(container.tag)}/binding"
    ]


async def test_a_pod_that_its_node_did_not_admit_is_replaced_under_a_new_uid(manual):
    runtime, cluster = manual
    container = launch()
    made = await runtime.create(container)
    starting = asyncio.create_task(runtime.start(container.tag))
    await bound(cluster, name_of(container.tag))
    cluster.set_status(name_of(container.tag), phase="Failed", reason="OutOfcpu", message="too little cpu")

    with pytest.raises(StartHadNoEffect, match="too little cpu"):
        await starting
    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(container, container_id=made.container_id))
    again = await runtime.create(container)

    assert again.container_id != made.container_id
    assert again.state is ContainerState.CREATED
    assert len(cluster.pods) == 1


async def test_a_pod_without_a_start_that_another_client_deleted_is_replaced(manual):
    runtime, cluster = manual
    container = launch()
    made = await runtime.create(container)
    cluster.pods[name_of(container.tag)]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(container, container_id=made.container_id))

    assert (await runtime.create(container)).container_id != made.container_id


async def test_a_volume_that_cannot_be_mounted_refuses_the_start_after_a_minute(manual, monkeypatch):
    runtime, cluster = manual
    container = launch()
    await runtime.create(container)
    starting = asyncio.create_task(runtime.start(container.tag))
    await bound(cluster, name_of(container.tag))
    cluster.events[name_of(container.tag)] = [{"reason": "FailedMount", "message": "no such directory"}]
    cluster.set_container(name_of(container.tag), {"waiting": {"reason": "ContainerCreating"}})
    with pytest.raises(StartUnderWay):
        await starting

    monkeypatch.setattr(pod_start, "REPEAT_WAIT", timedelta(0))
    starting = asyncio.create_task(runtime.start(container.tag))
    while "deletionTimestamp" not in cluster.pods[name_of(container.tag)]["metadata"]:  # noqa: ASYNC110 - the model sets no event
        await asyncio.sleep(0.005)
    cluster.set_container(name_of(container.tag), {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}})

    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: no such directory$"):
        await starting


async def test_a_pod_is_bound_to_the_machine_on_which_its_job_was_placed(model):
    runtime, cluster = model
    container = replace(launch(Script(seconds=None)), machine="n2")

    await launched(runtime, container)

    assert cluster.pods[name_of(container.tag)]["spec"]["nodeName"] == "n2"
    (found,) = await runtime.survey()
    assert found.machine == "n2"


@pytest.mark.parametrize(
    "full",
    [
        node("n1", {"cpu": "8", "memory": "8Gi", "pods": "0"}),
        node("n1", {"cpu": "100m", "memory": "8Gi", "pods": "9"}),
    ],
)
async def test_a_start_on_a_node_without_room_has_no_effect(model, full):
    runtime, cluster = model
    cluster.nodes = {"n1": full}
    container = launch()
    await runtime.create(container)

    with pytest.raises(StartHadNoEffect, match="node n1 has no room"):
        await runtime.start(container.tag)

    assert cluster.starts == {}


async def test_a_binding_without_a_reply_does_not_take_the_room_of_its_own_pod(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", {"cpu": "1", "memory": "8Gi", "pods": "1"})}
    container = launch(Script(seconds=None))
    made = await runtime.create(container)
    cluster.fault = binding("lost")
    with pytest.raises(RuntimeUnknown):
        await runtime.start(container.tag)

    await runtime.start(container.tag)

    assert cluster.starts == {made.container_id: 1}


async def test_the_room_of_a_binding_without_effect_is_free_once_the_pod_is_on_another_node(model):
    runtime, cluster = model
    cluster.nodes = {name: node(name, {"cpu": "1", "memory": "8Gi", "pods": "1"}) for name in ("n1", "n2")}
    first, second = [replace(launch(Script(seconds=None)), machine="n1") for _ in range(2)]
    made = await runtime.create(first)
    cluster.fault = binding("refused")
    with pytest.raises(RuntimeUnknown):
        await runtime.start(first.tag)

    await launched(runtime, replace(first, machine="n2", container_id=made.container_id))
    await launched(runtime, second)

    assert sorted(pod["spec"]["nodeName"] for pod in cluster.pods.values()) == ["n1", "n2"]


async def test_a_conflict_about_a_quota_is_not_a_taken_name(model):
    """The API server answers 409 also if several creations change the use of a quota at the same time."""
    runtime, cluster = model
    conflicts = iter([(409, "Operation cannot be fulfilled on resourcequotas: the object has been modified")])
    cluster.fault = lambda method, _path: next(conflicts, None) if method == "POST" else None
    container = launch()

    made = await runtime.create(container)

    assert made.container_id == cluster.pods[name_of(container.tag)]["metadata"]["uid"]


async def test_a_pod_to_which_a_webhook_added_a_scheduling_gate_is_refused(model):
    """Kueue and others do so. Another attempt may start."""
    runtime, cluster = model
    container = launch()
    await runtime.create(container)
    cluster.fault = binding((409, "pod p has non-empty .spec.schedulingGates"))

    with pytest.raises(StartRefused, match=r"^CannotStartContainerError: pod p has non-empty") as refused:
        await runtime.start(container.tag)

    assert not refused.value.certain


async def test_a_start_on_a_node_that_has_left_the_cluster_is_lost_with_its_host(model):
    runtime, cluster = model
    container = launch()
    await runtime.create(container)
    del cluster.nodes["n1"]

    with pytest.raises(StartInterrupted, match="node n1 is no longer in the cluster"):
        await runtime.start(container.tag)

    assert cluster.starts == {}


async def test_a_pod_of_another_platform_than_its_node_is_refused(model):
    runtime, cluster = model
    container = launch(platform="linux/arm64")
    await runtime.create(container)

    with pytest.raises(StartRefused, match="node n1 has kubernetes"):
        await runtime.start(container.tag)

    assert cluster.starts == {}


async def test_a_pod_with_gpus_waits_until_its_node_has_free_gpus(model):
    """A kubelet does not check GPUs: a pod on a node without them would run without a GPU."""
    runtime, cluster = model
    cluster.nodes["n1"] = node("n1", {"cpu": "8", "memory": "8Gi", "pods": "9", "nvidia.com/gpu": "1"})
    gpus = Resources(millicpus=100, memory_mib=64, gpus=1)
    first = await launched(runtime, launch(Script(seconds=None), resources=gpus))
    second = launch(resources=gpus)
    await runtime.create(second)

    with pytest.raises(StartHadNoEffect):
        await runtime.start(second.tag)

    await runtime.remove(first)
    await runtime.start(second.tag)


def secret_of(folder, text):
    """Secrets with this one, whose name is `db`."""
    file = folder / "secrets.json"
    file.write_text(f'{{"db": "{text}"}}')
    file.chmod(0o600)
    return Secrets(file=file, environment={})


async def test_a_secret_is_created_before_the_start_and_gone_with_the_pod(tmp_path):
    async with kubernetes_runtime(secrets=secret_of(tmp_path, "hidden")) as (runtime, cluster):
        container = launch(Script(seconds=None), secrets=(Secret(name="PASSWORD", value_from="db"),))
        cluster.fault = lambda method, path: "lost" if method == "POST" and path.endswith("secrets") else None
        with pytest.raises(RuntimeUnknown):
            await runtime.create(container)
        cluster.fault = lambda _method, _path: None

        made = await runtime.create(container)

        secret = cluster.secrets[name_of(container.tag)]
        assert secret["stringData"] == {"main-env-0": "hidden"}
        assert secret["metadata"]["ownerReferences"][0]["uid"] == made.container_id
        await runtime.remove(container.tag)
        assert cluster.secrets == {}


QUOTA = 'pods "p" is forbidden: exceeded quota: team, requested: limits.memory={},pods=1, used: pods=9, limited: {}'


async def test_a_pod_waits_for_a_quota_of_the_namespace(model):
    runtime, cluster = model
    with pytest.raises(StartHadNoEffect, match="exceeded quota: team"):
        await _create_answered(runtime, cluster, 403, QUOTA.format("512Mi", "limits.memory=1Gi,pods=9"))


async def test_a_pod_that_itself_uses_the_quota_up_is_found_again(model):
    """The reply to its creation was lost. The API server compares the quota before the name."""
    runtime, cluster = model
    container = launch()
    cluster.fault = lambda method, _path: "lost" if method == "POST" else None
    with pytest.raises(RuntimeUnknown):
        await runtime.create(container)
    full = QUOTA.format("512Mi", "limits.memory=1Gi,pods=9")
    cluster.fault = lambda method, path: (403, full) if method == "POST" and path.endswith("/pods") else None

    made = await runtime.create(container)

    assert made.container_id == cluster.pods[name_of(container.tag)]["metadata"]["uid"]


async def test_a_pod_waits_for_the_end_of_its_namespace(model):
    """The namespace may be created again with the same name."""
    runtime, cluster = model
    with pytest.raises(RuntimeUnknown):
        await _create_answered(runtime, cluster, 403, "unable to create new content, because it is being terminated")


@pytest.mark.parametrize(
    "message",
    [
        QUOTA.format("2Gi", "limits.memory=1Gi,pods=9"),
        'pods "p" is forbidden: failed quota: team: must specify limits.cpu for: main',
    ],
    ids=["larger than the quota", "policy"],
)
async def test_a_pod_that_its_namespace_never_permits_is_refused(model, message):
    runtime, cluster = model
    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: pods") as refused:
        await _create_answered(runtime, cluster, 403, message)
    assert not refused.value.certain


@pytest.mark.parametrize(
    ("status", "message"), [(422, "env: Invalid value"), (413, "too large"), (500, "etcdserver: request is too large")]
)
async def test_an_invalid_pod_is_refused_for_good(model, status, message):
    runtime, cluster = model
    with pytest.raises(StartRefused) as refused:
        await _create_answered(runtime, cluster, status, message)
    assert refused.value.certain


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_a_create_without_an_answer_is_unknown(model, status):
    runtime, cluster = model
    with pytest.raises(RuntimeUnknown):
        await _create_answered(runtime, cluster, status, "later")


async def _create_answered(runtime, cluster, status, message):
    """A create that the API server answers with an error."""
    cluster.fault = lambda method, path: (status, message) if method == "POST" and path.endswith("/pods") else None
    await runtime.create(launch())


async def test_an_absent_server_has_no_effect_on_a_start(model):
    runtime, cluster = model
    container = launch()
    await runtime.create(container)
    cluster.end_watches()
    unreachable = runtime_at("http://127.0.0.1:9")

    with pytest.raises(ContainerRuntimeError):
        await unreachable.create(container)
    await unreachable.close()


async def test_only_the_secret_of_an_earlier_pod_is_replaced(tmp_path):
    async with kubernetes_runtime(secrets=secret_of(tmp_path, "s3cret")) as (runtime, cluster):
        container = launch(Script(seconds=None), secrets=(Secret(name="PASSWORD", value_from="db"),))
        name = name_of(container.tag)
        secret = {"metadata": {"name": name, "uid": "1", "ownerReferences": [{"uid": "an earlier pod"}]}}
        cluster.secrets[name] = secret

        def replace_before_deletion(method, _path):
            if method == "DELETE":
                cluster.secrets[name] = {"metadata": {**secret["metadata"], "uid": "2"}}

        cluster.fault = replace_before_deletion
        with pytest.raises(RuntimeUnknown):
            await runtime.create(container)
        assert cluster.secrets[name]["metadata"]["uid"] == "2"

        cluster.fault = lambda _method, _path: None
        made = await runtime.create(container)
        assert cluster.secrets[name]["metadata"]["ownerReferences"][0]["uid"] == made.container_id


async def test_an_ended_container_is_removed_after_the_starts_that_are_requested(model):
    runtime, cluster = model
    ended = launch(QUICK)
    await launched(runtime, ended)
    await over(runtime, ended.tag)
    successor = launch(QUICK)
    await runtime.create(successor)
    cluster.calls.clear()

    removal = asyncio.create_task(runtime.remove_silent(ended.tag))
    await asyncio.sleep(0.05)
    assert cluster.calls == []
    await runtime.start(successor.tag)
    await removal

    first, *later = [path.rpartition("/")[2] for _, path in cluster.calls]
    assert first == "binding"
    assert later[-3:] == ["log", name_of(ended.tag), name_of(ended.tag)]


@pytest.mark.parametrize("outcome", ["not created", "runs already", "removed", "not answered"])
async def test_a_removal_does_not_wait_for_a_start_that_is_not_requested(model, monkeypatch, outcome):
    runtime, cluster = model
    if outcome == "not answered":
        monkeypatch.setattr(start_requests, "REMOVAL_WAIT", 0.05)
    ended, other = launch(QUICK), launch(Script(seconds=None))
    await launched(runtime, ended)
    await over(runtime, ended.tag)
    match outcome:
        case "not created":
            cluster.fault = lambda method, _path: "refused" if method == "POST" else None
            with pytest.raises(RuntimeUnknown):
                await runtime.create(other)
        case "runs already":
            await launched(runtime, other)
            await runtime.create(other)
        case "removed":
            await runtime.create(other)
            await runtime.remove(other.tag)
        case _:
            await runtime.create(other)

    async with asyncio.timeout(start_requests.REMOVAL_WAIT / 2 if outcome != "not answered" else 10):
        assert await runtime.remove_silent(ended.tag) is None
