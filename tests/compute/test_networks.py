"""Networks that jobs share, and networks of attempts, on engines with sparse lists. Real ones: test_docker_networks."""

import pytest

from batchq.compute.docker.create_request import (
    SharedNetwork,
    container_labels,
    shared_network_labels,
    shared_network_name,
)
from batchq.compute.docker.network_placement import AttemptNetworks
from batchq.compute.docker.shared_networks import SharedNetworks
from tests.support.containers import new_tag

INSTANCE = "i1"


def pause(environment="local", account="", name=None):
    shared = SharedNetwork(environment=environment, account=account)
    names = [f"/{name or shared_network_name(INSTANCE, shared)}"]
    labels = shared_network_labels(INSTANCE, shared)
    return {"Id": f"pause of {environment}{account}", "State": "running", "Labels": labels, "Names": names}


def job(mode=None):
    reported = {} if mode is None else {"HostConfig": {"NetworkMode": mode}}
    return {"Id": "job", "State": "exited", "Labels": container_labels(INSTANCE, new_tag())} | reported


class Engine:
    """The methods of the SDK that shared networks call."""

    def __init__(self, *rows):
        self.rows = list(rows)
        self.removed = []
        self.inspections = 0

    def inspect_container(self, name):
        self.inspections += 1
        row = next(it for it in self.rows if f"/{name}" in it["Names"])
        return {"Id": row["Id"], "Config": {"Labels": row["Labels"]}, "State": {"Status": "running"}}

    def containers(self, *, filters, **in_any_state):
        assert in_any_state == {"all": True, "limit": -1}
        wanted = filters["label"]
        return [it for it in self.rows if set(wanted) <= {f"{name}={value}" for name, value in it["Labels"].items()}]

    def networks(self, filters):
        return []

    def remove_container(self, container, *, v, force):
        self.removed.append(container)


@pytest.mark.parametrize(
    ("jobs", "removed"),
    [
        ([], ["pause of local"]),
        ([job("container:pause of local")], []),
        ([job("host")], ["pause of local"]),
        ([job("host"), job()], []),
    ],
    ids=["no job", "a job on it", "a job elsewhere", "a job tag_of network is not reported"],
)
def test_a_network_that_a_job_may_use_is_kept(jobs, removed):
    engine = Engine(pause(), *jobs)

    SharedNetworks(INSTANCE).remove_unused(engine)

    assert engine.removed == removed


def test_each_environment_is_decided_separately():
    engine = Engine(pause(), pause("other"), job("container:pause of other"))

    SharedNetworks(INSTANCE).remove_unused(engine)

    assert engine.removed == ["pause of local"]


@pytest.mark.fault("SE29")
def test_the_network_of_one_account_is_removed_without_those_of_others():
    engine = Engine(pause(), pause(account="a"), pause(account="b"), job("container:pause of locala"))

    SharedNetworks(INSTANCE).remove_unused(engine)

    assert sorted(engine.removed) == ["pause of local", "pause of localb"]


@pytest.mark.fault("SE28")
def test_a_container_of_another_name_holds_no_network():
    engine = Engine(pause(), pause(name="by-hand") | {"Id": "by hand"}, job("container:pause of local"))

    SharedNetworks(INSTANCE, max_idle=0).update(engine)

    assert engine.removed == []


def test_no_network_is_searched_where_none_was_seen():
    networks = SharedNetworks(INSTANCE)

    networks.update(Engine())
    before = networks.may_exist
    networks.update(Engine(pause()))

    assert (before, networks.may_exist) == (False, True)


def test_a_pause_container_that_runs_in_a_survey_is_not_inspected_again():
    engine = Engine(pause())
    networks = SharedNetworks(INSTANCE)
    before = networks.join(engine, SharedNetwork(environment="local"))

    networks.update(engine)

    assert networks.join(engine, SharedNetwork(environment="local")) == before == "container:pause of local"
    assert engine.inspections == 1


def test_a_pause_container_that_ended_before_a_survey_is_replaced_by_the_next_job():
    engine = Engine(pause())
    networks = SharedNetworks(INSTANCE)
    networks.join(engine, SharedNetwork(environment="local"))
    engine.rows[0] |= {"State": "exited"}

    networks.update(engine)

    networks.join(engine, SharedNetwork(environment="local"))
    assert engine.inspections == 2


def test_a_recently_used_network_is_kept():
    engine = Engine(pause())
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
