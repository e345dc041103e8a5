"""Requests for jobs with several containers or several nodes."""

from tests.api.conftest import CONTAINER

SIDECAR = {
    "name": "side",
    "image": "busybox",
    "essential": False,
    "command": ["serve", "Ref::port"],
    "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "32"}],
}
WORKER = {
    "name": "work",
    "image": "batchq-test:latest",
    "command": ["run", "Ref::port"],
    "dependsOn": [{"containerName": "side", "condition": "START"}],
    "environment": [{"name": "A", "value": "1"}],
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
}
TASK = {"containers": [SIDECAR, WORKER]}
ECS = {"taskProperties": [TASK]}
DUO = {"jobDefinitionName": "duo", "type": "container", "ecsProperties": ECS}

RANGES = [{"targetNodes": "0:", "container": CONTAINER}, {"targetNodes": "2:3", "ecsProperties": ECS}]
NODES = {"numNodes": 4, "mainNode": 0, "nodeRangeProperties": RANGES}
GANG = {"jobDefinitionName": "gang", "type": "multinode", "nodeProperties": NODES}


def with_task(**members):
    """`duo` with other members of its task."""
    return DUO | {"ecsProperties": {"taskProperties": [TASK | members]}}


def with_worker(**members):
    """`duo` with other members of its essential container."""
    return with_task(containers=[SIDECAR, WORKER | members])


def with_nodes(**members):
    return GANG | {"nodeProperties": NODES | members}


def with_range(**members):
    """`gang` with other members of the range that has one container."""
    return with_nodes(nodeRangeProperties=[RANGES[0] | members, RANGES[1]])
