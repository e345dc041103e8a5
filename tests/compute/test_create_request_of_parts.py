"""A container of an attempt with several, in the engine's create call."""

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import (
    LaunchInputs,
    Namespaces,
    attempt_in,
    attempt_object_labels,
    build_create_request,
    container_labels,
    container_name,
    pause_container_name,
    shared_network_in,
    tag_of,
    volume_name,
)
from batchq.compute.docker.policy import STRICT_POLICY
from batchq.domain.container import Mount
from batchq.domain.ids import JobId, Tag
from batchq.ports.runtime import LaunchSpec
from tests.support import builders

JOB = JobId("8a0e5a1c-0000-4000-8000-000000000001")
WHOLE = Tag(job_id=JOB, attempt=2)
PART = replace(WHOLE, container_key="3/side-car")
OWN, CONTAINER_MODE = Namespaces(network="n1", node="node-3"), Namespaces(network="container:k1")


def config(*, tag=PART, namespaces=OWN, mounts=(), **spec):
    launch = LaunchSpec(tag=tag, spec=builders.container(**spec), environment=())
    return build_create_request(
        launch, instance="i1", policy=STRICT_POLICY, inputs=LaunchInputs(namespaces=namespaces, mounts=mounts)
    ).config


def host(**members):
    return config(**members)["HostConfig"]


def test_the_name_has_node_and_container():
    assert container_name("i1", PART) == f"bq-i1-{JOB}-2-3-side-car"


def test_no_container_has_the_name_of_a_pause_container():
    assert pause_container_name("i1", PART) == f"bq-i1-{JOB}-2-3"
    assert not {pause_container_name("i1", PART)} & {
        container_name("i1", tag) for tag in (WHOLE, PART, replace(WHOLE, attempt=3))
    }


@pytest.mark.parametrize("tag", [WHOLE, PART])
def test_labels_are_read_back(tag):
    assert tag_of(container_labels("i1", tag), "i1") == tag


def test_pause_containers_belong_to_no_job():
    assert tag_of(attempt_object_labels("i1", PART), "i1") is None
    assert attempt_in(attempt_object_labels("i1", PART), "i1") == WHOLE


@pytest.mark.parametrize(
    "labels", [{}, container_labels("i1", PART), attempt_object_labels("i2", PART), {"io.batchq.keeps": "x"}]
)
def test_an_attempt_that_shares_nothing_has_no_pause_container(labels):
    assert attempt_in(labels, "i1") is None
    assert shared_network_in(labels, "i1") is None
    assert attempt_in({"io.batchq.instance": "i1"} | labels | {"io.batchq.keeps": "j/two"}, "i1") is None


def test_a_single_container_of_a_node_joins_the_network_itself():
    made = config(namespaces=OWN)

    assert made["HostConfig"]["NetworkMode"] == "n1"
    assert made["NetworkingConfig"] == {"EndpointsConfig": {"n1": {"Aliases": ["node-3"]}}}


def test_one_of_several_containers_joins_the_pause_container():
    made = config(namespaces=CONTAINER_MODE)

    assert made["HostConfig"]["NetworkMode"] == "container:k1"
    assert not {"IpcMode", "PidMode"} & made["HostConfig"].keys()
    assert "NetworkingConfig" not in made


def test_shared_namespaces_are_those_of_the_pause_container():
    made = host(namespaces=replace(CONTAINER_MODE, ipc="container:k1", pid="container:k1"))

    assert (made["IpcMode"], made["PidMode"]) == ("container:k1", "container:k1")


def test_the_first_process_of_a_shared_namespace_is_the_pause_program():
    assert host(namespaces=replace(CONTAINER_MODE, pid="container:k1"), init=True)["Init"] is False
    assert host(namespaces=CONTAINER_MODE, init=True)["Init"] is True


def test_a_single_container_attempt_has_no_placement():
    made = config(tag=WHOLE, namespaces=None)

    assert not {"NetworkMode", "IpcMode", "PidMode"} & made["HostConfig"].keys()
    assert "NetworkingConfig" not in made


def test_a_shared_volume_has_a_name_and_labels_of_its_attempt():
    (mount,) = host(mounts=(Mount(container_path="/x", host_path=None, volume="scratch", read_only=True),))["Mounts"]

    assert mount == {
        "Type": "volume",
        "Source": volume_name("i1", PART, "scratch"),
        "Target": "/x",
        "ReadOnly": True,
        "VolumeOptions": {"Labels": attempt_object_labels("i1", PART) | {"io.batchq.volume": "scratch"}},
    }


def test_a_shared_volume_belongs_to_its_node_and_attempt():
    tags = [PART, replace(PART, container_key="4/side-car"), replace(PART, attempt=3)]

    names = {volume_name("i1", tag, volume) for tag in tags for volume in ("a", "b")}

    assert len(names) == 6
    assert volume_name("i1", PART, "a") == volume_name("i1", replace(PART, container_key="3/main"), "a")


def test_the_name_of_a_volume_may_have_awss_maximum_length():
    assert len(volume_name("i1", PART, "v" * 255)) < 255


@pytest.mark.parametrize(
    ("tag", "mount"),
    [
        (PART, Mount(container_path="/x", host_path=None)),
        (WHOLE, Mount(container_path="/x", host_path=None, volume="scratch")),
    ],
)
def test_a_volume_that_is_not_shared_belongs_to_its_container(tag, mount):
    assert host(tag=tag, mounts=(mount,))["Mounts"] == [{"Type": "volume", "Target": "/x", "ReadOnly": False}]


def test_a_shared_host_path_is_mounted_as_any_other():
    mount = Mount(container_path="/x", host_path="/data", volume="scratch")

    assert host(mounts=(mount,))["Mounts"] == [{"Type": "bind", "Source": "/data", "Target": "/x", "ReadOnly": False}]
