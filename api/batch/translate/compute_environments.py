"""Compute environments: requests to the domain's values, and values to responses."""

import json
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from msgspec.structs import replace

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.server_limits import Rules
from batchq.api.batch.translate import unsupported, validation
from batchq.api.batch.wire.compute_environments import (
    ComputeResource,
    CreateComputeEnvironment,
    UpdateComputeEnvironment,
)
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, State
from batchq.errors import Invalid, NotFound

Document = dict[str, Any]

ECHOED = {
    "type",
    "unmanagedvCpus",
    "computeResources",
    "serviceRole",
    "updatePolicy",
    "context",
    "ecsSettings",
}
ON_EC2 = ("EC2", "SPOT")
ON_FARGATE = ("FARGATE", "FARGATE_SPOT")
NOT_ON_FARGATE = (
    "allocationStrategy",
    "minvCpus",
    "desiredvCpus",
    "instanceTypes",
    "imageId",
    "ec2KeyPair",
    "instanceRole",
    "tags",
    "placementGroup",
    "bidPercentage",
    "spotIamFleetRole",
    "launchTemplate",
    "ec2Configuration",
)


def name_of(text: str, arns: BatchArns) -> EnvironmentName:
    name = arns.named(ArnKind.ENVIRONMENT, validation.required(text, "computeEnvironment"))
    if name is None:
        raise NotFound(f"ComputeEnvironment {text} not found.")
    return EnvironmentName(name)


def created(given: CreateComputeEnvironment) -> Document:
    """The document that is stored for a new environment. Raises Invalid."""
    unsupported.refuse({"eksConfiguration": given.eksConfiguration}, unsupported.KUBERNETES)
    if given.type == "MANAGED":
        _check_managed(given.computeResources, given.unmanagedvCpus)
    return _said(given)


def changed(before: ComputeEnvironment, given: UpdateComputeEnvironment, rules: Rules) -> ComputeEnvironment:
    """The environment after an update: omitted members stay unchanged. Raises Invalid."""
    unsupported.refuse({"eksConfiguration": given.eksConfiguration}, unsupported.KUBERNETES)
    after = before if given.state is None else replace(before, state=State(given.state))
    if not (said := _said(given)):
        return after
    told = updated(json.loads(before.document), said, given)
    return replace(after, document=json.dumps(told), max_millicpus=millicpus(told, rules))


def updated(before: Document, said: Document, given: UpdateComputeEnvironment) -> Document:
    """The stored document, merged with the members of the request; computeResources are merged member by member."""
    after = before | said
    if resources := before.get("computeResources", {}) | said.get("computeResources", {}):
        resources.pop("updateToLatestImageVersion", None)  # AWS: a command, not a property
        after["computeResources"] = resources
    if after.get("type") == "MANAGED":
        _check_unmanaged(given.unmanagedvCpus)
        _check_range(resources)
        _check_type(resources["type"], said.get("computeResources", {}))
    return after


def millicpus(document: Document, rules: Rules) -> int:
    """The capacity for jobs, in thousandths of a vCPU."""
    managed = document.get("type") == "MANAGED"
    vcpus = document["computeResources"]["maxvCpus"] if managed else document.get("unmanagedvCpus", rules.vcpus)
    return int(vcpus) * 1000


def on_fargate(environment: ComputeEnvironment) -> bool:
    """Whether the environment is of a Fargate type. An UNMANAGED one is not: it has machines, as on EC2."""
    return json.loads(environment.document).get("computeResources", {}).get("type") in ON_FARGATE


def detail(environment: ComputeEnvironment, arns: BatchArns) -> dict[str, object]:
    """AWS: the status becomes VALID after a while, when there is a cluster. Here it always is VALID."""
    return {
        "computeEnvironmentName": environment.name,
        "computeEnvironmentArn": arns.environment(environment.name),
        "ecsClusterArn": arns.cluster(environment.name),
        "uuid": str(uuid5(NAMESPACE_URL, environment.name)),
        "state": environment.state.value,
        "status": "VALID",
        "statusReason": "ComputeEnvironment Healthy",
        "containerOrchestrationType": "ECS",
        "tags": dict(environment.tags),
        "type": "UNMANAGED",
        **json.loads(environment.document),
    }


def _said(given: CreateComputeEnvironment | UpdateComputeEnvironment) -> Document:
    said = given.model_dump(mode="json", include=ECHOED, exclude_none=True)
    return {member: value for member, value in said.items() if member != "serviceRole" or value}


def _check_managed(resources: ComputeResource | None, unmanaged: int | None) -> None:
    if resources is None:
        raise Invalid("computeResources must be provided for a MANAGED compute environment.")
    said = resources.model_dump(exclude_none=True)
    _check_unmanaged(unmanaged)
    _check_type(resources.type, said)
    if resources.type in ON_EC2:
        _check_ec2(resources)
    _check_range(said)


def _check_unmanaged(vcpus: int | None) -> None:
    if vcpus is not None:
        raise Invalid("unmanagedvCpus is not applicable for a MANAGED compute environment.")


def _check_ec2(resources: ComputeResource) -> None:
    if not resources.instanceRole:
        raise Invalid("Instance role is required.")
    if resources.minvCpus is None:
        raise Invalid("Resource minvCpus is required.")


def _check_type(kind: str, said: Document) -> None:
    for member in NOT_ON_FARGATE:
        if kind in ON_FARGATE and said.get(member):
            raise Invalid(f"{member} is not applicable for Fargate.")


def _check_range(resources: Document) -> None:
    if resources.get("minvCpus", 0) > resources["maxvCpus"]:
        raise Invalid("minvCpus must not be above maxvCpus.")
