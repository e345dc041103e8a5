"""Quantities, demands of pods, and the capacity that batchq may use."""

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from batchq.compute.kubernetes import list_watch, rest
from batchq.compute.kubernetes.nodes import demand_of, node_facts, quantity
from batchq.domain.container import Resources
from batchq.errors import RuntimeUnknown, StartHadNoEffect
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import death_of, launch, launched, started
from tests.support.kubernetes import runtime_at
from tests.support.kubernetes_api import failure, node
from tests.support.scripts import Script

RECORDED = Path(__file__).parent / "recorded"
TWO = {"cpu": "2", "memory": "1Gi", "pods": "110"}


def of_others(name, node_name, cpu="500m", phase="Running"):
    """A pod that batchq did not create."""
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {
            "nodeName": node_name,
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}],
        },
        "status": {"phase": phase},
    }


async def free_cpus(runtime, **expected):
    """Wait until the machines have these CPUs, by name."""
    async with asyncio.timeout(10):
        while True:
            machines = await runtime.machines()
            if {machine.name: machine.resources.millicpus / 1000 for machine in machines} == expected:
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        ("100m", "0.1"),
        ("24684084Ki", 24684084 * 1024),
        ("1.5Gi", 1.5 * 2**30),
        ("1k", 1000),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("128974848", 128974848),
        (None, 0),
    ],
)
def test_quantities(text, value):
    assert quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "1x", "Gi", "1 Gi"])
def test_an_invalid_quantity_is_no_answer(text):
    with pytest.raises(RuntimeUnknown):
        quantity(text)


@pytest.mark.parametrize("version", ["1.20.2", "1.36.2"])
def test_a_recorded_node_is_a_machine_that_is_open_or_away(version):
    present, away = (json.loads((RECORDED / version / f"{name}.json").read_text()) for name in ("node", "node-away"))

    facts = node_facts(present)

    assert (facts.name, facts.allocatable.millicpus, facts.max_pods) == ("bq-n1", 2000, 110)
    assert facts.allocatable.memory_mib > 20_000
    assert facts.machine(()).is_open
    assert node_facts(away).machine(()).away_since is not None


def _requesting(cpu, memory, **members):
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **members}


APPS = [_requesting("500m", "1Mi")] * 2
SIDECAR = _requesting("300m", "32Mi", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "millicpus", "memory_mib"),
    [
        (
            {"containers": APPS, "initContainers": [{"resources": {"limits": {"cpu": "250m", "memory": "64Mi"}}}]},
            1000,
            64,
        ),
        ({"containers": APPS, "initContainers": [SIDECAR]}, 1300, 34),
        ({"containers": APPS, "initContainers": [_requesting("250m", "64Mi"), SIDECAR]}, 1300, 64),
        ({"containers": APPS, "initContainers": [SIDECAR, _requesting("2", "64Mi")]}, 2300, 96),
        ({"containers": APPS, "overhead": {"cpu": "250m", "memory": "120Mi"}}, 1250, 122),
        ({"containers": APPS, "resources": {"requests": {"cpu": "3"}}}, 3000, 2),
    ],
    ids=["init", "sidecar", "init before a sidecar", "init after a sidecar", "overhead", "resources of the pod"],
)
def test_the_demand_of_a_pod_is_what_the_kubelet_reserves(spec, millicpus, memory_mib):
    assert demand_of({"spec": spec}) == Resources(millicpus=millicpus, memory_mib=memory_mib)


async def test_machines_have_what_pods_of_others_leave(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO), "n2": node("n2", TWO, labels={"batchq.environment": "wide"})}
    cluster.others = [of_others("dns", "n1")]
    await launched(runtime, launch(Script(seconds=None)))

    first, second = await runtime.machines()

    assert (first.name, first.resources) == ("n1", Resources(millicpus=1500, memory_mib=768))
    assert (second.name, second.resources) == ("n2", Resources(millicpus=2000, memory_mib=1024))
    assert first.max_nodes == second.max_nodes - 1
    assert (first.environment, second.environment) == (None, "wide")
    assert ("batchq.environment", "wide") in second.labels
    assert all(machine.is_open and machine.is_enforced for machine in (first, second))


@pytest.mark.parametrize(
    ("fields", "cordoned", "away"),
    [
        ({"unschedulable": True}, True, False),
        ({"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}, True, False),
        ({"ready": False}, True, True),
    ],
)
async def test_a_node_that_takes_no_pods_for_a_time_is_a_machine_that_is_not_open(model, fields, cordoned, away):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO, **fields)}

    (machine,) = await runtime.machines()

    assert (machine.is_cordoned, machine.away_since is not None) == (cordoned, away)


async def test_a_node_with_a_taint_of_an_administrator_is_no_machine(model):
    runtime, cluster = model
    cluster.nodes["n2"] = node("n2", TWO, taints=[{"key": "control-plane", "effect": "NoSchedule"}])

    assert [machine.name for machine in await runtime.machines()] == ["n1"]


async def test_without_the_right_to_list_all_pods_only_the_own_namespace_counts(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO)}
    cluster.fault = lambda _method, path: (403, "forbidden") if path == "/api/v1/pods" else None
    large = Resources(millicpus=1500, memory_mib=64)

    first = await launched(runtime, launch(Script(seconds=None), resources=large))

    assert cluster.pods[name_of(first)]["spec"]["nodeName"] == "n1"
    (machine,) = await runtime.machines()
    assert machine.resources == Resources(millicpus=2000, memory_mib=1024)


async def test_the_room_of_an_ended_pod_is_free_at_once(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO)}
    large = Resources(millicpus=1500, memory_mib=64)
    async with runtime.deaths() as deaths:
        for _ in range(3):
            await launched(runtime, launch(Script(seconds=0), resources=large))
            await anext(deaths)


async def test_the_room_of_an_ended_container_stays_free_until_its_pod_has_ended(manual):
    """The phase of the pod follows its container; the watch of all pods shows the pod once more before."""
    runtime, cluster = manual
    cluster.nodes = {"n1": node("n1", TWO)}
    large = Resources(millicpus=1500, memory_mib=64)
    first, second = launch(resources=large), launch(resources=large)
    async with runtime.deaths() as deaths:
        await runtime.create(first)
        starting = asyncio.create_task(runtime.start(first.tag))
        await bound(cluster, name_of(first.tag))
        running, end = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, {"terminated": {"exitCode": 0}}
        cluster.set_container(name_of(first.tag), running, containerID="containerd://1")
        await starting
        cluster.set_container(name_of(first.tag), end, containerID="containerd://1")
        await death_of(deaths, first.tag)
    cluster.set_status(name_of(first.tag), message="once more")
    cluster.set_other(of_others("later", "n1", cpu="250m"))
    await free_cpus(runtime, n1=1.75)  # the watch of all pods has shown both

    await runtime.create(second)
    starting = asyncio.create_task(runtime.start(second.tag))
    await bound(cluster, name_of(second.tag))
    cluster.set_container(name_of(second.tag), running, containerID="containerd://2")
    await starting


async def test_a_pod_of_an_earlier_server_keeps_its_room_until_it_has_ended(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO)}
    large = Resources(millicpus=1500, memory_mib=64)
    earlier = await launched(runtime, launch(Script(seconds=None), resources=large))
    following = runtime_at(runtime._rest._cluster.server)
    later = launch(Script(seconds=0), resources=large)
    try:
        await following.create(later)
        with pytest.raises(StartHadNoEffect, match="no room"):
            await following.start(later.tag)
        async with following.deaths() as deaths:
            await following.kill(earlier)
            await death_of(deaths, earlier)

        await following.start(later.tag)
    finally:
        await following.close()


async def test_changes_of_the_own_pods_come_by_one_watch(model):
    runtime, cluster = model
    async with runtime.deaths() as deaths:
        tag = await started(runtime, Script(seconds=0))
        await death_of(deaths, tag)
        await runtime.remove(tag)
    cluster.set_other(of_others("later", "n1", cpu="1"))
    await free_cpus(runtime, n1=7, n2=8)

    assert cluster.sent["/api/v1/pods"] == 1


async def test_nodes_and_pods_are_listed_once_and_their_changes_are_followed(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO), "n2": node("n2", TWO)}
    cluster.others = [of_others("first", "n1")]
    await started(runtime, Script(seconds=0))
    await free_cpus(runtime, n1=1.5, n2=2)

    cluster.set_other(of_others("second", "n2", cpu="250m"))
    await free_cpus(runtime, n1=1.5, n2=1.75)
    cluster.set_other(of_others("first", "n1", phase="Succeeded"))
    await free_cpus(runtime, n1=2, n2=1.75)
    cluster.set_other(of_others("second", "n2", cpu="250m"), removed=True)
    cluster.set_node("n0", node("n0", TWO))
    cluster.set_node("n1", None)
    await free_cpus(runtime, n0=2, n2=2)
    cluster.set_node("n0", node("n0", TWO, taints=[{"key": "control-plane", "effect": "NoSchedule"}]))
    await free_cpus(runtime, n2=2)

    read = [path for method, path in cluster.calls if (method, path.rpartition("/")[0]) == ("GET", "/api/v1")]
    assert sorted(read) == ["/api/v1/nodes"] * 2 + ["/api/v1/pods"] * 2  # a list and a watch of each


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_change_between_two_watches_is_known(model, monkeypatch, compacted):
    runtime, cluster = model
    monkeypatch.setattr(list_watch, "SHORTEST_WATCH", timedelta())
    cluster.nodes = {"n1": node("n1", TWO), "n2": node("n2", TWO)}
    cluster.others = [of_others("first", "n1")]
    await free_cpus(runtime, n1=1.5, n2=2)
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        await cluster.watched(path)

    cluster.end_watches()
    cluster.set_other(of_others("first", "n1"), removed=True)
    cluster.set_node("n2", None)
    if compacted:
        cluster.compact()

    await free_cpus(runtime, n1=2)


async def test_without_the_right_to_watch_the_lists_are_read_again_after_a_while(model, monkeypatch):
    runtime, cluster = model

    async def forbidden(_request, _belongs):
        return failure(403, "Forbidden", "no watch")

    cluster._watch = forbidden
    cluster.nodes = {"n1": node("n1", TWO), "n2": node("n2", TWO)}
    await free_cpus(runtime, n1=2, n2=2)

    cluster.others = [of_others("first", "n1")]
    del cluster.nodes["n2"]
    await free_cpus(runtime, n1=2, n2=2)
    monkeypatch.setattr(list_watch, "MAX_AGE", timedelta())

    await free_cpus(runtime, n1=1.5)


async def test_a_long_list_is_read_in_pages(model, monkeypatch):
    runtime, cluster = model
    monkeypatch.setattr(rest, "PAGE", 2)
    cluster.nodes = {name: node(name, TWO) for name in ("n1", "n2", "n3", "n4", "n5")}
    cluster.others = [of_others(str(number), "n5") for number in range(3)]
    tags = {await started(runtime, Script(seconds=None)) for _ in range(3)}

    await free_cpus(runtime, n1=2, n2=2, n3=2, n4=2, n5=0.5)
    assert {found.tag for found in await runtime.survey()} == tags
