"""Quantities, demands of pods, and the capacity that batchq may use."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from batchq.compute.kubernetes.nodes import demand_of, node_room, quantity
from batchq.domain.container import Resources
from batchq.errors import RuntimeUnknown
from tests.compute.kubernetes.conftest import name_of
from tests.support.containers import launch, launched
from tests.support.kubernetes_api import node
from tests.support.scripts import Script

RECORDED = Path(__file__).parent / "recorded"
TWO = {"cpu": "2", "memory": "1Gi", "pods": "110"}


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

    room = node_room(present)

    assert (room.name, room.allocatable.millicpus, room.max_pods) == ("bq-n1", 2000, 110)
    assert room.allocatable.memory_mib > 20_000
    assert room.machine().is_open
    assert node_room(away).machine().away_since is not None


def test_the_demand_of_a_pod_is_the_larger_of_its_containers_and_its_init_containers():
    def container(cpu, memory):
        return {"resources": {"requests": {"cpu": cpu}, "limits": {"memory": memory}}}

    pod = {"spec": {"containers": [container("500m", "1Mi")] * 2, "initContainers": [container("250m", "64Mi")]}}

    assert demand_of(pod) == Resources(millicpus=1000, memory_mib=64)


async def test_machines_have_what_pods_of_others_leave(model):
    runtime, cluster = model
    cluster.nodes = {"n1": node("n1", TWO), "n2": node("n2", TWO, labels={"batchq.environment": "wide"})}
    request = {"cpu": "500m", "memory": "256Mi"}
    cluster.others = [
        {
            "metadata": {"name": "dns", "uid": "dns"},
            "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": request}}]},
            "status": {"phase": "Running"},
        }
    ]
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
