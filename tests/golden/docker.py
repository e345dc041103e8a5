"""The names and labels by which containers, networks and volumes of the Docker engine are found again."""

import json

from batchq.compute.docker import create_request, network_objects
from batchq.compute.docker.create_request import LaunchInputs, SharedNetwork
from batchq.compute.docker.policy import STRICT_POLICY
from batchq.domain.container import ContainerSpec, Mount, Resources
from batchq.domain.ids import JobId, Tag
from batchq.ports.runtime import LaunchSpec

INSTANCE = "0123abcd"
JOB = "8b1f1f7e-0000-4000-8000-000000000001"
ATTEMPT = Tag(job_id=JobId(JOB), attempt=2)
NODE = Tag(job_id=JobId(JOB), attempt=2, container_key="3/sidecar")
CONTAINERS = {
    "container of a job": ATTEMPT,
    "container of a child of an array": Tag(job_id=JobId(f"{JOB}:4"), attempt=1),
    "container of a node or of a task": NODE,
}
SHARED = {
    "shared network of a compute environment, and its pause container": SharedNetwork(environment="local"),
    "shared network of an account, and its pause container": SharedNetwork(environment="local", account="a/team"),
}


def files() -> dict[str, str]:
    found = {what: _creation(tag) for what, tag in CONTAINERS.items()}
    found["volume of a node"] = _volume()
    found["network of an attempt"] = {
        "name": create_request.attempt_name(INSTANCE, NODE),
        "labels": create_request.attempt_object_labels(INSTANCE, NODE),
    }
    found["pause container of a node"] = {
        "name": create_request.pause_container_name(INSTANCE, NODE),
        "labels": create_request.attempt_object_labels(INSTANCE, NODE),
    }
    for what, shared in SHARED.items():
        found[what] = {
            "name": create_request.shared_network_name(INSTANCE, shared),
            "labels": create_request.shared_network_labels(INSTANCE, shared),
        }
    found["image of pause containers"] = {
        "name": network_objects.PAUSE_IMAGE,
        "labels": {network_objects.PAUSE_LABEL: "1"},
    }
    return {"docker.json": json.dumps(found, indent=2) + "\n"}


def _creation(tag: Tag) -> dict[str, object]:
    made = create_request.build_create_request(
        _launch(tag), instance=INSTANCE, policy=STRICT_POLICY, inputs=LaunchInputs(gpus=("0", "1"))
    )
    return {"name": create_request.container_name(INSTANCE, tag), "labels": made["Labels"]}


def _volume() -> dict[str, object]:
    mounts = (Mount(container_path="/data", host_path=None, volume="scratch"),)
    made = create_request.build_create_request(
        _launch(NODE), instance=INSTANCE, policy=STRICT_POLICY, inputs=LaunchInputs(mounts=mounts)
    )
    (mount,) = made["HostConfig"]["Mounts"]
    return {"name": mount["Source"], "labels": mount["VolumeOptions"]["Labels"]}


def _launch(tag: Tag) -> LaunchSpec:
    spec = ContainerSpec(image="an-image", resources=Resources(millicpus=1000, memory_mib=128), command=())
    return LaunchSpec(tag=tag, spec=spec, environment=())
