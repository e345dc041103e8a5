"""A node that left the cluster by an administrator's word loses its containers; one that does not answer keeps them."""

from datetime import timedelta

import pytest

from batchq.compute.kubernetes import departed_nodes, pod_start
from batchq.compute.kubernetes.nodes import node_facts
from batchq.errors import ContainerGone, StartUnderWay
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import name_of
from tests.support.clock import ShiftedClock
from tests.support.containers import launch, new_tag, output, over, part_of, started, until
from tests.support.kubernetes import kubernetes_runtime, runtime_at, served
from tests.support.kubernetes_api import ModelCluster, node
from tests.support.scripts import Script

LASTS = Script(seconds=None, on_term=7, output=("ready",))
RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED
OFF = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
DEDICATED = {"key": "team", "value": "a", "effect": "NoSchedule"}


def changed_node(cluster, **changes):
    """The node n1, changed."""
    return node("n1", **changes) | {"metadata": cluster.nodes["n1"]["metadata"]}


async def surveyed(runtime, tag):
    (found,) = [found for found in await runtime.survey() if found.tag == tag]
    return found.state


async def shown(runtime, cluster):
    """Wait until the watch has shown the nodes as they are."""

    async def is_shown():
        facts = {name: node_facts(found) for name, found in cluster.nodes.items()}
        return runtime._nodes._nodes == {name: known for name, known in facts.items() if known is not None}

    await until(is_shown)


@pytest.mark.parametrize("taints", [None, [OFF]])
async def test_a_container_of_a_node_that_was_deleted_or_is_out_of_service_is_lost_with_its_host(model, taints):
    runtime, cluster = model
    tag = await started(runtime, LASTS)

    cluster.lose_node("n1", taints and changed_node(cluster, ready=False, taints=taints))

    found = await over(runtime, tag)
    assert (found.exit_code, found.host_lost) == (137, True)
    assert found.started_at <= found.stopped_at
    assert await surveyed(runtime, tag) is EXITED
    for stop in (runtime.signal_stop, runtime.kill):
        with pytest.raises(ContainerGone):
            await stop(tag)


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": False},
        {"ready": False, "taints": [DEDICATED]},
        {"ready": True, "taints": [OFF]},
        {"ready": False, "unschedulable": True},
    ],
)
async def test_a_container_of_a_node_without_an_administrators_word_may_still_run(model, changes):
    runtime, cluster = model
    tag = await started(runtime, LASTS)

    cluster.lose_node("n1", changed_node(cluster, **changes))
    await shown(runtime, cluster)

    assert (await runtime.inspect(tag)).state is RUNNING
    assert await surveyed(runtime, tag) is RUNNING


async def test_a_watch_that_is_behind_does_not_lose_a_container(model):
    runtime, _ = model
    tag = await started(runtime, LASTS)
    # The watch shows the deletion, and not yet that the kubelet registered its node again.
    runtime._nodes._node_gone("n1")

    assert (await runtime.inspect(tag)).state is RUNNING


async def test_a_list_of_nodes_that_fails_does_not_lose_a_container(model):
    runtime, cluster = model
    tag = await started(runtime, LASTS)
    runtime._nodes._node_gone("n1")
    cluster.lose_node("n1")
    cluster.fault = lambda _method, path: "refused" if path == "/api/v1/nodes" else None

    assert (await runtime.inspect(tag)).state is RUNNING


async def test_a_node_that_was_registered_again_reports_the_true_end_of_its_container(model):
    runtime, cluster = model
    tag = await started(runtime, LASTS)
    cluster.lose_node("n1")
    cluster.restore_node("n1")
    await shown(runtime, cluster)

    assert (await runtime.inspect(tag)).state is RUNNING
    await runtime.signal_stop(tag, grace=timedelta(seconds=5))
    found = await over(runtime, tag)
    assert (found.exit_code, found.host_lost) == (7, False)


async def started_on_a_replaced_node(runtime, cluster):
    """The tag of a container whose node left with its pod, and whose name another node has now."""
    tag = await started(runtime, LASTS)
    cluster.lose_node("n1")
    cluster.collect_pods()
    cluster.set_node("n1", node("n1"))
    await shown(runtime, cluster)
    return tag


@pytest.mark.parametrize(("wait", "state"), [(60, RUNNING), (0, EXITED)])
async def test_a_node_of_the_same_name_that_does_not_know_a_deleted_pod_loses_it_after_a_while(
    model, monkeypatch, wait, state
):
    monkeypatch.setattr(departed_nodes, "REPORT_WAIT", timedelta(seconds=wait))
    runtime, cluster = model

    tag = await started_on_a_replaced_node(runtime, cluster)

    assert (await runtime.inspect(tag)).state is state


async def test_a_clock_ahead_of_the_cluster_does_not_shorten_the_time_in_which_a_new_node_reports():
    clock = ShiftedClock()
    clock.ahead = timedelta(minutes=10)
    async with kubernetes_runtime(clock=clock) as (runtime, cluster):
        tag = await started_on_a_replaced_node(runtime, cluster)

        assert (await runtime.inspect(tag)).state is RUNNING


async def test_the_pod_of_a_departed_node_is_removed_without_its_log(model):
    runtime, cluster = model
    async with runtime.deaths():
        tag = await started(runtime, LASTS)
        cluster.lose_node("n1", changed_node(cluster, ready=False, taints=[OFF]))
        await over(runtime, tag)

        assert await output(runtime, tag) == []
        assert await runtime.remove_silent(tag) is None

    assert cluster.pods[name_of(tag)]["metadata"]["finalizers"] == []
    assert await surveyed(runtime, tag) is ContainerState.GOING
    cluster.set_node("n1", None)
    cluster.collect_pods()
    assert cluster.pods == {}


async def test_what_was_read_of_a_log_before_its_node_left_is_kept(model):
    runtime, cluster = model
    cluster.has_shell = False
    async with runtime.deaths():
        tag = await started(runtime, Script(seconds=None, output=("ready",)))
        await runtime.signal_stop(tag, grace=timedelta(seconds=30))
        cluster.lose_node("n1")
        await over(runtime, tag)

        assert await output(runtime, tag) == ["ready"]


async def test_a_start_on_a_node_that_leaves_meanwhile_is_lost_with_its_host(monkeypatch):
    monkeypatch.setattr(pod_start, "START_WAIT", 0.3)
    async with kubernetes_runtime(ModelCluster(kubelet=False)) as (runtime, cluster):
        container = launch(LASTS)
        await runtime.create(container)
        with pytest.raises(StartUnderWay):
            await runtime.start(container.tag)
        cluster.lose_node("n1")

        await runtime.start(container.tag)

        found = await runtime.inspect(container.tag)
        assert (found.state, found.host_lost) == (EXITED, True)


async def test_a_container_of_a_task_that_was_not_started_on_a_departed_node_is_lost_too(model, monkeypatch):
    monkeypatch.setattr(pod_start, "START_WAIT", 0.3)
    runtime, cluster = model
    first = part_of(new_tag(), "0/one", LASTS, beside=("two",))
    second = part_of(first.tag, "0/two", LASTS, beside=("one",))
    await runtime.create(first)
    await runtime.start(first.tag)
    await runtime.create(second)
    cluster.lose_node("n1")

    await runtime.start(second.tag)

    for part in (first, second):
        found = await over(runtime, part.tag)
        assert found.host_lost


async def test_the_next_server_knows_the_node_to_which_a_pod_was_bound():
    cluster = ModelCluster()
    async with served(cluster) as url:
        first, second = runtime_at(url), runtime_at(url)
        try:
            tag = await started(first, LASTS)
            uid = cluster.nodes["n1"]["metadata"]["uid"]
            assert cluster.pods[name_of(tag)]["metadata"]["annotations"]["io.batchq.node-uid"] == uid
            cluster.lose_node("n1")

            assert (await second.inspect(tag)).host_lost
        finally:
            await first.close()
            await second.close()
