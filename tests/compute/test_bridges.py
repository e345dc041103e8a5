"""Networks of attempts, on engines that have no subnet left."""

from ipaddress import IPv4Network
from itertools import islice

import pytest
from docker.errors import APIError, NotFound

from batchq.compute.docker.network import objects
from batchq.compute.docker.network.objects import SUBNET_RANGE, ensure_network, free_subnets, routed_networks
from batchq.errors import EngineUnknown
from tests.compute.test_docker_errors import answer

NO_POOL = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"
OVERLAP = "Pool overlaps with other one on this address space"
ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
eth0	0000E00A	00000000	0001	0	0	0	00FCFFFF	0	0	0
"""
LABELS = {"a": "1"}


@pytest.fixture(autouse=True)
def no_routes(monkeypatch, tmp_path):
    monkeypatch.setattr(objects, "ROUTES", tmp_path / "route")


class Engine:
    """As much of the SDK as is asked. Its own pools are used up; `hidden` is taken by what it does not list."""

    def __init__(self, *, taken=(), hidden=(), pools=0, refusal=None):
        self.made = [{"Id": f"old{subnet}", "Labels": {}, "IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in taken]
        self._hidden = list(map(IPv4Network, hidden))
        self._pools = pools
        self._refusal = refusal

    def networks(self, filters):
        wanted = set(filters["label"])
        return [it for it in self.made if wanted <= {f"{key}={value}" for key, value in it["Labels"].items()}]

    def create_network(self, name, *, driver, labels, ipam, internal, check_duplicate):
        assert (driver, internal, check_duplicate) == ("bridge", False, True)
        if self._refusal:
            raise self._refusal
        if ipam is None and not self._pools:
            raise answer(404, NO_POOL, NotFound)
        subnet = ipam["Config"][0]["Subnet"] if ipam else "172.18.0.0/16"
        if any(IPv4Network(subnet).overlaps(other) for other in self._hidden):
            raise answer(403, OVERLAP)
        made = {"Id": name, "Labels": labels, "Created": "2026", "IPAM": {"Config": [{"Subnet": subnet}]}}
        self.made.append(made)
        return made

    def subnet(self, name):
        return next(it["IPAM"]["Config"][0]["Subnet"] for it in self.made if it["Id"] == name)


def test_a_free_subnet_of_the_engine_is_used():
    engine = Engine(pools=1)

    assert ensure_network(engine, "n", LABELS) == "n"

    assert engine.subnet("n") == "172.18.0.0/16"


def test_a_repeated_request_creates_one_network():
    engine = Engine(pools=2)
    ensure_network(engine, "n", LABELS)

    assert ensure_network(engine, "again", LABELS) == "n"


def test_of_two_networks_all_containers_use_the_older():
    engine = Engine(pools=1)
    ensure_network(engine, "n", LABELS)
    engine.made.insert(0, engine.made[0] | {"Id": "late", "Created": "2027"})

    assert ensure_network(engine, "again", LABELS) == "n"


def test_a_subnet_is_chosen_when_the_engine_has_none_left():
    engine = Engine(taken=("10.224.0.0/22", "fd00::/64"))

    ensure_network(engine, "n", LABELS)

    assert IPv4Network(engine.subnet("n")).subnet_of(SUBNET_RANGE)
    assert not IPv4Network(engine.subnet("n")).overlaps(IPv4Network("10.224.0.0/22"))


def test_a_subnet_that_the_engine_refuses_is_skipped():
    engine = Engine(hidden=("10.224.0.0/20",))

    ensure_network(engine, "n", LABELS)

    assert not IPv4Network(engine.subnet("n")).overlaps(IPv4Network("10.224.0.0/20"))


@pytest.mark.parametrize("full", [{"taken": ("10.0.0.0/8",)}, {"hidden": ("10.0.0.0/8",)}])
def test_without_any_free_subnet_the_outcome_is_unknown(full):
    with pytest.raises(EngineUnknown, match="no subnet is free"):
        ensure_network(Engine(**full), "n", LABELS)


def test_any_other_refusal_is_passed_on():
    engine = Engine(refusal=answer(400, "invalid name"))

    with pytest.raises(APIError):
        ensure_network(engine, "n", LABELS)


def test_free_subnets_do_not_overlap_with_used_ones():
    taken = [IPv4Network("10.224.0.0/16"), IPv4Network("10.225.4.0/24"), IPv4Network("172.17.0.0/16")]

    assert [str(it) for it in islice(free_subnets(taken), 2)] == ["10.225.0.0/22", "10.225.8.0/22"]


def test_used_subnets_are_read_from_the_routes():
    assert list(routed_networks(ROUTES)) == [IPv4Network("10.224.0.0/22")]
