"""Networks that jobs share, and networks of attempts, on a fake engine. Real ones: test_docker_networks.py."""

from ipaddress import IPv4Network
from itertools import islice

import pytest
from docker.errors import APIError, NotFound
from msgspec.structs import replace

from batchq.compute.docker import network_objects as objects
from batchq.compute.docker.create_request import (
    CONTAINER_MODE,
    SharedNetwork,
    container_labels,
    shared_network_labels,
    shared_network_name,
)
from batchq.compute.docker.network_objects import SUBNET_RANGE, NoSubnet, ensure_network, free_subnets, routed_networks
from batchq.compute.docker.network_placement import AttemptNetworks, NetworkPlacement
from batchq.compute.docker.shared_networks import SharedNetworks
from batchq.domain.catalog import Network
from batchq.errors import RuntimeUnknown
from tests.support.containers import launch, new_tag
from tests.support.fake_engine import api_error

INSTANCE = "i1"
DEFAULT_POOLS = 31  # subnets in Docker's default address pools
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
    """The methods of the SDK that networks need. Its own address pools have room for `pools` networks."""

    def __init__(self, pools=0, *, rows=(), taken=(), hidden=(), refusal=None):
        """`rows` are containers, `taken` the subnets of networks, `hidden` those of networks that it does not list.

        `refusal` is the error of each create; None: creates succeed.
        """
        self.removed = []
        self.inspections = 0
        self._pools = pools
        self._hidden = list(map(IPv4Network, hidden))
        self._refusal = refusal
        self.rows = dict(enumerate(rows))
        self.bridges = [
            {"Id": f"old{subnet}", "Labels": {}, "IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in taken
        ]

    def containers(self, *, filters, all, limit):  # noqa: A002 - the SDK's word
        assert all
        return [row for row in self.rows.values() if _has(row, filters)]

    def volumes(self, filters):
        return {"Volumes": []}

    def networks(self, filters):
        return [bridge for bridge in self.bridges if _has(bridge, filters)]

    def inspect_container(self, name):
        self.inspections += 1
        for row in self.rows.values():
            if f"/{name}" in row["Names"]:
                return {"Id": row["Id"], "Config": {"Labels": row["Labels"]}, "State": {"Status": row["State"]}}
        raise api_error(404, f"No such container: {name}", NotFound)

    def create_container_from_config(self, config, *, name):
        self.rows[name] = {"Id": name, "Names": [f"/{name}"], "State": "running", "Labels": config["Labels"]}
        return {"Id": name}

    def start(self, container):
        assert container in self.rows

    def remove_container(self, container, *, v, force):
        self.removed.append(container)
        self.rows = {
            name: other_container for name, other_container in self.rows.items() if other_container["Id"] != container
        }

    def create_network(self, name, *, driver, labels, ipam, internal, check_duplicate):
        assert (driver, internal, check_duplicate) == ("bridge", False, True)
        if self._refusal:
            raise self._refusal
        if ipam is None and not self._pools:
            raise api_error(404, NO_POOL, NotFound)
        self._pools -= ipam is None
        subnet = ipam["Config"][0]["Subnet"] if ipam else "172.18.0.0/16"
        if any(IPv4Network(subnet).overlaps(other) for other in self._hidden):
            raise api_error(403, OVERLAP)
        made = {"Id": name, "Labels": labels, "Created": "2026", "IPAM": {"Config": [{"Subnet": subnet}]}}
        self.bridges.append(made)
        return made

    def remove_network(self, network):
        self.bridges = [bridge for bridge in self.bridges if bridge["Id"] != network]

    def subnet(self, name):
        return next(bridge["IPAM"]["Config"][0]["Subnet"] for bridge in self.bridges if bridge["Id"] == name)

    def modes(self):
        """The network modes of containers on its networks."""
        return {CONTAINER_MODE + bridge["Id"] for bridge in self.bridges}

    def run_job_on(self, mode):
        job = {"Id": mode, "State": "running", "Names": ["/job"], "Labels": container_labels(INSTANCE, new_tag())}
        self.rows[f"job on {mode}"] = job | {"HostConfig": {"NetworkMode": mode}}


def _has(row, filters):
    return set(filters["label"]) <= {f"{name}={value}" for name, value in row["Labels"].items()}


def pause(environment="local", account="", name=None):
    shared = SharedNetwork(environment=environment, account=account)
    names = [f"/{name or shared_network_name(INSTANCE, shared)}"]
    labels = shared_network_labels(INSTANCE, shared)
    return {"Id": f"pause of {environment}{account}", "State": "running", "Labels": labels, "Names": names}


def job(mode=None):
    row = {"Id": "job", "State": "exited", "Names": ["/job"], "Labels": container_labels(INSTANCE, new_tag())}
    return row if mode is None else row | {"HostConfig": {"NetworkMode": mode}}


@pytest.mark.fault("SE29")
@pytest.mark.parametrize(
    ("rows", "removed"),
    [
        ([pause()], ["pause of local"]),
        ([pause(), job("container:pause of local")], []),
        ([pause(), job("host")], ["pause of local"]),
        ([pause(), job("host"), job()], []),
        ([pause(), pause("other"), job("container:pause of other")], ["pause of local"]),
        (
            [pause(), pause(account="a"), pause(account="b"), job("container:pause of locala")],
            ["pause of local", "pause of localb"],
        ),
    ],
    ids=["no job", "a job on it", "a job elsewhere", "unknown network of a job", "environments", "accounts"],
)
def test_a_network_that_no_job_may_use_is_removed(rows, removed):
    engine = Engine(rows=rows)

    SharedNetworks(INSTANCE).remove_unused(engine)

    assert sorted(engine.removed) == removed


@pytest.mark.fault("SE28")
def test_a_container_of_another_name_holds_no_network():
    engine = Engine(rows=[pause(), pause(name="by-hand") | {"Id": "by hand"}, job("container:pause of local")])

    SharedNetworks(INSTANCE, max_idle=0).update(engine)

    assert engine.removed == []


def test_no_network_is_searched_where_none_was_seen():
    networks = SharedNetworks(INSTANCE)

    networks.update(Engine())
    before = networks.may_exist
    networks.update(Engine(rows=[pause()]))

    assert (before, networks.may_exist) == (False, True)


def test_a_pause_container_that_runs_in_a_survey_is_not_inspected_again():
    engine = Engine(rows=[pause()])
    networks = SharedNetworks(INSTANCE)
    before = networks.join(engine, SharedNetwork(environment="local"))

    networks.update(engine)

    assert networks.join(engine, SharedNetwork(environment="local")) == before == "container:pause of local"
    assert engine.inspections == 1


def test_a_pause_container_that_ended_before_a_survey_is_replaced_by_the_next_job():
    engine = Engine(rows=[pause()])
    networks = SharedNetworks(INSTANCE)
    networks.join(engine, SharedNetwork(environment="local"))
    engine.rows[0] |= {"State": "exited"}

    networks.update(engine)

    networks.join(engine, SharedNetwork(environment="local"))
    assert engine.inspections == 2


def test_a_recently_used_network_is_kept():
    engine = Engine(rows=[pause()])
    networks = SharedNetworks(INSTANCE, max_idle=2)

    networks.update(engine)
    networks.update(engine)
    before = list(engine.removed)
    networks.update(engine)

    assert (before, engine.removed) == ([], ["pause of local"])


class RecordingEngine:
    """An engine without containers and networks."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, call):
        def answer(*_, **__):
            self.calls.append(call)
            return []

        return answer


def test_shared_parts_are_kept_while_a_container_of_the_attempt_is_created():
    networks, engine, tag = AttemptNetworks("an-instance"), RecordingEngine(), new_tag()

    with networks.hold(tag):
        networks.remove_if_unused(engine, tag)
        during_create = list(engine.calls)
    networks.remove_if_unused(engine, tag)

    assert during_create == []
    assert engine.calls


def test_a_free_subnet_of_the_engine_is_used_once():
    engine = Engine(pools=2)

    assert [ensure_network(engine, name, LABELS) for name in ("n", "again")] == ["n", "n"]

    assert engine.subnet("n") == "172.18.0.0/16"


def test_of_two_networks_all_containers_use_the_older():
    engine = Engine(pools=1)
    ensure_network(engine, "n", LABELS)
    engine.bridges.insert(0, engine.bridges[0] | {"Id": "late", "Created": "2027"})

    assert ensure_network(engine, "again", LABELS) == "n"


@pytest.mark.parametrize(
    ("existing", "used"),
    [({"taken": ("10.224.0.0/22", "fd00::/64")}, "10.224.0.0/22"), ({"hidden": ("10.224.0.0/20",)}, "10.224.0.0/20")],
    ids=["listed", "refused by the engine"],
)
def test_a_free_subnet_is_chosen_when_the_engine_has_none_left(existing, used):
    engine = Engine(**existing)

    ensure_network(engine, "n", LABELS)

    assert IPv4Network(engine.subnet("n")).subnet_of(SUBNET_RANGE)
    assert not IPv4Network(engine.subnet("n")).overlaps(IPv4Network(used))


@pytest.mark.parametrize("full", [{"taken": ("10.0.0.0/8",)}, {"hidden": ("10.0.0.0/8",)}])
def test_without_any_free_subnet_the_outcome_is_unknown(full):
    with pytest.raises(RuntimeUnknown, match="no subnet is free"):
        ensure_network(Engine(**full), "n", LABELS)


def test_any_other_refusal_is_passed_on():
    engine = Engine(refusal=api_error(400, "invalid name"))

    with pytest.raises(APIError):
        ensure_network(engine, "n", LABELS)


def test_free_subnets_do_not_overlap_with_used_ones():
    taken = [IPv4Network("10.224.0.0/16"), IPv4Network("10.225.4.0/24"), IPv4Network("172.17.0.0/16")]

    assert [str(subnet) for subnet in islice(free_subnets(taken), 2)] == ["10.225.0.0/22", "10.225.8.0/22"]


def test_used_subnets_are_read_from_the_routes():
    assert list(routed_networks(ROUTES)) == [IPv4Network("10.224.0.0/22")]


@pytest.fixture
def placement():
    return NetworkPlacement(INSTANCE, Network.SHARED)


def placed(placement, engine, account, environment="local"):
    """The network mode of a job's container."""
    namespaces = placement.namespaces_for(engine, replace(launch(), placed_on=environment, account=account))
    assert namespaces is not None
    return namespaces.network


@pytest.mark.fault("SE29")
def test_forty_accounts_on_two_environments_have_a_network_each(placement):
    engine = Engine(DEFAULT_POOLS)

    modes = {placed(placement, engine, f"a{number}", at) for number in range(40) for at in ("local", "other")}

    assert len(modes) == len(engine.bridges) == 80


@pytest.mark.fault("SE29")
def test_without_a_subnet_networks_without_a_job_are_removed_first(placement, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))  # one subnet beside the engine's
    engine = Engine(1)
    engine.run_job_on(busy := placed(placement, engine, "busy"))
    idle = placed(placement, engine, "idle")
    placement.orphaned(engine, existing=())

    found = placed(placement, engine, "new")

    assert engine.modes() == {busy, found}
    assert idle not in {busy, found}


@pytest.mark.fault("SE29")
def test_with_all_networks_in_use_the_start_waits_with_a_reason(placement, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))
    engine = Engine(0)
    engine.run_job_on(placed(placement, engine, "busy"))
    placement.orphaned(engine, existing=())

    with pytest.raises(NoSubnet, match="no subnet is free for another network: could not find an available"):
        placed(placement, engine, "new")

    assert len(engine.bridges) == 1


@pytest.mark.fault("SE29")
def test_a_network_just_joined_is_not_removed_for_another(placement, monkeypatch):
    monkeypatch.setattr(objects, "SUBNET_RANGE", IPv4Network("10.224.0.0/22"))
    engine = Engine(0)
    placed(placement, engine, "first")
    placement.orphaned(engine, existing=())
    joined = placed(placement, engine, "first")

    with pytest.raises(NoSubnet):
        placed(placement, engine, "second")

    assert engine.modes() == {joined}
