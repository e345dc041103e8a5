"""Accounts times environments are more networks than an engine has subnets for. Simulated engine."""

from ipaddress import IPv4Network

import pytest
from docker.errors import NotFound
from msgspec.structs import replace

from batchq.compute.docker.create_request import CONTAINER_MODE, container_labels
from batchq.compute.docker.network import objects
from batchq.compute.docker.network.objects import NoSubnet
from batchq.compute.docker.network.placement import NetworkPlacement
from batchq.domain.catalog import Network
from tests.compute.test_docker_errors import answer
from tests.support.containers import launch, new_tag

INSTANCE = "i1"
DEFAULT_POOLS = 31  # of Docker, as it comes


class Engine:
    """As much of the SDK as shared networks need. Its own pools have room for `pools` networks."""

    def __init__(self, pools):
        self._pools = pools
        self.rows = {}
        self.bridges = {}

    def containers(self, *, filters, **_):
        return [it for it in self.rows.values() if _has(it, filters)]

    def volumes(self, filters):
        return {"Volumes": []}

    def networks(self, filters):
        return [it for it in self.bridges.values() if _has(it, filters)]

    def inspect_container(self, name):
        raise answer(404, f"No such container: {name}", NotFound)

    def create_container_from_config(self, config, *, name):
        self.rows[name] = {"Id": name, "Names": [f"/{name}"], "State": "running", "Labels": config["Labels"]}
        return {"Id": name}

    def start(self, container):
        assert container in self.rows

    def remove_container(self, container, *, v, force):
        del self.rows[container]

    def create_network(self, name, *, ipam, labels, **_):
        own = sum(it["IPAM"]["Config"] == [] for it in self.bridges.values())
        if ipam is None and own == self._pools:
            raise answer(404, "could not find an available, non-overlapping IPv4 address pool", NotFound)
        pools = [] if ipam is None else [{"Subnet": ipam["Config"][0]["Subnet"]}]
        self.bridges[name] = {"Id": name, "Labels": labels, "Created": "2026", "IPAM": {"Config": pools}}
        return {"Id": name}

    def remove_network(self, network):
        del self.bridges[network]

    def run_job_on(self, mode):
        job = {"Id": mode, "State": "running", "Names": ["/job"], "Labels": container_labels(INSTANCE, new_tag())}
        self.rows[f"job on {mode}"] = job | {"HostConfig": {"NetworkMode": mode}}


def _has(row, filters):
    return set(filters["label"]) <= {f"{name}={value}" for name, value in row["Labels"].items()}


@pytest.fixture
def places(monkeypatch, tmp_path):
    monkeypatch.setattr(objects, "ROUTES", tmp_path / "route")
    return NetworkPlacement(INSTANCE, Network.SHARED)


def placed(places, engine, account, environment="local"):
    """The network mode of a job's container."""
    place = places.namespaces_for(engine, replace(launch(), placed_on=environment, account=account))
    assert place is not None
    return place.network


pytestmark = pytest.mark.fault("SE29")


def test_forty_accounts_on_two_environments_have_a_network_each(places):
    engine = Engine(DEFAULT_POOLS)

    modes = {placed(places, engine, f"a{number}", at) for number in range(40) for at in ("local", "other")}

    assert len(modes) == len(engine.bridges) == 80


def test_without_a_subnet_networks_without_a_job_are_removed_first(places, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))  # one subnet beside the engine's
    engine = Engine(1)
    engine.run_job_on(busy := placed(places, engine, "busy"))
    idle = placed(places, engine, "idle")
    places.orphaned(engine, existing=())

    found = placed(places, engine, "new")

    assert {f"{CONTAINER_MODE}{it}" for it in engine.bridges} == {busy, found}
    assert idle not in {busy, found}


def test_with_all_networks_in_use_the_start_waits_with_a_reason(places, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))
    engine = Engine(0)
    engine.run_job_on(placed(places, engine, "busy"))
    places.orphaned(engine, existing=())

    with pytest.raises(NoSubnet, match="no subnet is free for another network: could not find an available"):
        placed(places, engine, "new")

    assert len(engine.bridges) == 1


def test_a_network_just_joined_is_not_removed_for_another(places, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))
    engine = Engine(0)
    placed(places, engine, "first")
    places.orphaned(engine, existing=())
    joined = placed(places, engine, "first")

    with pytest.raises(NoSubnet):
        placed(places, engine, "second")

    assert [f"{CONTAINER_MODE}{it}" for it in engine.bridges] == [joined]
