"""Compute environments: create, update, delete, describe. Members that select machines to rent have no effect."""

import json
from typing import Annotated, Any, Literal
from uuid import NAMESPACE_URL, uuid5

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.eks_configuration import EksConfiguration, engine_tag
from batchq.api.batch.validation import (
    Integer,
    NameList,
    PageSize,
    StateName,
    Tags,
    Text,
    Unsupported,
    WireModel,
)
from batchq.api.http.page_tokens import page_of_entries
from batchq.api.operations.parts import Parts, ServerLimits
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName
from batchq.domain.container import merge_pairs
from batchq.domain.enums import State
from batchq.errors import Invalid

Document = dict[str, Any]
NOT_IN_DOCUMENT = {"computeEnvironmentName", "computeEnvironment", "state", "tags"}
OMITTED_IF_EMPTY = {"serviceRole", "eksConfiguration"}
FARGATE_TYPES = ("FARGATE", "FARGATE_SPOT")
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

NEEDED_ON_FARGATE = ("subnets", "securityGroupIds")
REMOVED_IF_EMPTY = ("ec2KeyPair", "imageId", "ec2Configuration")


class InfrastructureOptimization(WireModel):
    scaleInAfter: Integer | None = None


class InstancesNetwork(WireModel):
    subnets: list[Text] | None = None
    securityGroups: list[Text] | None = None


class InstanceRequirements(WireModel):
    allowedInstanceTypes: list[Text] | None = None


class InstancesStorage(WireModel):
    storageSizeGiB: Integer | None = None


class CapacityReservations(WireModel):
    reservationGroupArn: Text | None = None
    reservationPreference: Text | None = None


class LocalStorage(WireModel):
    useLocalStorage: bool | None = None


class InstanceLaunchTemplate(WireModel):
    ec2InstanceProfileArn: Text | None = None
    networkConfiguration: InstancesNetwork | None = None
    instanceRequirements: InstanceRequirements | None = None
    capacityOptionType: Text | None = None
    storageConfiguration: InstancesStorage | None = None
    monitoring: Text | None = None
    fipsEnabled: bool | None = None
    capacityReservations: CapacityReservations | None = None
    instanceMetadataTagsPropagation: bool | None = None
    localStorageConfiguration: LocalStorage | None = None


class ManagedInstancesProvider(WireModel):
    propagateTags: Text | None = None
    infrastructureRoleArn: Text | None = None
    instanceLaunchTemplate: InstanceLaunchTemplate | None = None
    infrastructureOptimization: InfrastructureOptimization | None = None


ResourceType = Literal["EC2", "SPOT", "FARGATE", "FARGATE_SPOT", "ECS_MANAGED_INSTANCES"]
UpdatedAllocationStrategy = Literal[
    "BEST_FIT_PROGRESSIVE",
    "BEST_FIT_PROGRESSIVE_ORDERED",
    "SPOT_CAPACITY_OPTIMIZED",
    "SPOT_PRICE_CAPACITY_OPTIMIZED",
    "SPOT_CAPACITY_OPTIMIZED_PRIORITIZED",
]
AllocationStrategy = Literal["BEST_FIT"] | UpdatedAllocationStrategy
UserdataType = Literal["EKS_BOOTSTRAP_SH", "EKS_NODEADM"]
Count = Annotated[Integer, Field(ge=0)]
Label = Annotated[Text, Field(min_length=1, max_length=256)]


class LaunchTemplateOverride(WireModel):
    launchTemplateId: Text | None = None
    launchTemplateName: Text | None = None
    version: Text | None = None
    targetInstanceTypes: list[Text] | None = None
    userdataType: UserdataType | None = None


class LaunchTemplate(WireModel):
    launchTemplateId: Text | None = None
    launchTemplateName: Text | None = None
    version: Text | None = None
    overrides: list[LaunchTemplateOverride] | None = None
    userdataType: UserdataType | None = None


class Ec2Configuration(WireModel):
    imageType: Label
    imageIdOverride: Label | None = None
    batchImageStatus: Text | None = None
    imageKubernetesVersion: Label | None = None


class ScalingPolicy(WireModel):
    minScaleDownDelayMinutes: Integer | None = None


class Machines(WireModel):
    """Members that can be set by create and changed by update."""

    minvCpus: Count | None = None
    desiredvCpus: Count | None = None
    instanceTypes: list[Text] | None = None
    imageId: Text | None = None
    subnets: list[Text] | None = None
    securityGroupIds: list[Text] | None = None
    ec2KeyPair: Text | None = None
    instanceRole: Text | None = None
    tags: dict[Text, Text] | None = None
    placementGroup: Text | None = None
    bidPercentage: Count | None = None
    launchTemplate: LaunchTemplate | None = None
    ec2Configuration: list[Ec2Configuration] | None = None
    scalingPolicy: ScalingPolicy | None = None
    managedInstancesProvider: ManagedInstancesProvider | None = None
    capacityTags: Tags | None = None


class ComputeResource(Machines):
    type: ResourceType
    maxvCpus: Count
    allocationStrategy: AllocationStrategy | None = None
    spotIamFleetRole: Text | None = None


class ComputeResourceUpdate(Machines):
    type: ResourceType | None = None
    maxvCpus: Count | None = None
    allocationStrategy: UpdatedAllocationStrategy | None = None
    updateToLatestImageVersion: bool | None = None


class UpdatePolicy(WireModel):
    terminateJobsOnUpdate: bool | None = None
    jobExecutionTimeoutMinutes: Annotated[int, Field(ge=1, le=7200)] | None = None


class EcsSettings(WireModel):
    containerInsights: Literal["ENABLED", "ENHANCED", "DISABLED"] | None = None


class CreateComputeEnvironment(WireModel):
    computeEnvironmentName: Text
    type: Literal["MANAGED", "UNMANAGED"]
    state: StateName | None = None
    unmanagedvCpus: Count | None = None
    computeResources: ComputeResource | None = None
    serviceRole: Text | None = None
    tags: Tags | None = None
    eksConfiguration: EksConfiguration | None = None
    context: Text | None = None
    ecsSettings: EcsSettings | None = None


class UpdateComputeEnvironment(WireModel):
    computeEnvironment: Text
    state: StateName | None = None
    unmanagedvCpus: Count | None = None
    computeResources: ComputeResourceUpdate | None = None
    serviceRole: Text | None = None
    updatePolicy: UpdatePolicy | None = None
    context: Text | None = None
    ecsSettings: EcsSettings | None = None
    eksConfiguration: Unsupported | None = None


class DeleteComputeEnvironment(WireModel):
    computeEnvironment: Text


class DescribeComputeEnvironments(WireModel):
    computeEnvironments: NameList | None = None
    maxResults: PageSize | None = None
    nextToken: Text | None = None


async def create_compute_environment(parts: Parts, request: BatchRequest, body: CreateComputeEnvironment) -> Answer:
    """Creates a compute environment: a limit of vCPUs on the machine, with a network."""
    engine = engine_tag(body.eksConfiguration, body.tags or {}, parts.limits.kubernetes_namespace)
    if body.type == "MANAGED":
        _check_managed(body.computeResources, body.unmanagedvCpus)
    document = _document_members(body)
    environment = ComputeEnvironment(
        name=EnvironmentName(validation.name(body.computeEnvironmentName, "computeEnvironmentName")),
        state=State(body.state or State.ENABLED),
        max_millicpus=capacity_millicpus(document, parts.limits),
        document=json.dumps(document),
        tags=merge_pairs(validation.validated_tags(body.tags), engine),
        created_at=parts.clock.now(),
    )
    return _name_and_arn(await parts.catalog.compute_environments.create(environment, caller=request.caller), request)


async def update_compute_environment(parts: Parts, request: BatchRequest, body: UpdateComputeEnvironment) -> Answer:
    """Changes a compute environment."""
    name = environment_name(body.computeEnvironment, request.arns)
    made = await parts.catalog.compute_environments.update(
        name, lambda environment: updated_compute_environment(environment, body, parts.limits), caller=request.caller
    )
    return _name_and_arn(made, request)


async def delete_compute_environment(parts: Parts, request: BatchRequest, body: DeleteComputeEnvironment) -> None:
    """Deletes a DISABLED compute environment that belongs to no queue."""
    await parts.catalog.compute_environments.delete(
        environment_name(body.computeEnvironment, request.arns), caller=request.caller
    )


async def describe_compute_environments(
    parts: Parts, request: BatchRequest, body: DescribeComputeEnvironments
) -> Answer:
    """Describes compute environments."""
    names = request.arns.all_named(ArnKind.ENVIRONMENT, body.computeEnvironments or ())
    known = parts.catalog.environments
    found = (
        {name: environment for name, environment in known.items() if name in names}
        if body.computeEnvironments
        else known
    )
    query = ("DescribeComputeEnvironments", names)
    entries, more = page_of_entries(found, body, query=query, tokens=parts.tokens)
    return {
        "computeEnvironments": [compute_environment_detail(environment, request.arns) for environment in entries],
        **more,
    }


def _name_and_arn(environment: ComputeEnvironment, request: BatchRequest) -> Answer:
    arn = request.arns.environment(environment.name)
    return {"computeEnvironmentName": environment.name, "computeEnvironmentArn": arn}


def environment_name(text: str, arns: BatchArns) -> EnvironmentName:
    return EnvironmentName(arns.required_name(ArnKind.ENVIRONMENT, text, member="computeEnvironment"))


def updated_compute_environment(
    before: ComputeEnvironment, given: UpdateComputeEnvironment, limits: ServerLimits
) -> ComputeEnvironment:
    """The environment after an update: omitted members stay unchanged. Raises Invalid."""
    validation.refuse_unsupported({"eksConfiguration": given.eksConfiguration}, validation.KUBERNETES)
    after = before if given.state is None else replace(before, state=State(given.state))
    if not (members := _document_members(given)):
        return after
    merged = merge_documents(json.loads(before.document), members, given)
    return replace(after, document=json.dumps(merged), max_millicpus=capacity_millicpus(merged, limits))


def merge_documents(before: Document, members: Document, given: UpdateComputeEnvironment) -> Document:
    """The stored document, merged with the members of the request; computeResources are merged member by member."""
    after = before | members
    if resources := _changed_resources(before.get("computeResources", {}), members.get("computeResources", {})):
        resources.pop("updateToLatestImageVersion", None)  # AWS: a command, not a property
        after["computeResources"] = resources
    if after.get("type") == "MANAGED":
        _check_unmanaged(given.unmanagedvCpus)
        _check_range(resources)
        _check_type(resources["type"], members.get("computeResources", {}))
    return after


def _changed_resources(before: Document, changes: Document) -> Document:
    """AWS: an empty member of REMOVED_IF_EMPTY, or an empty id or name of the launch template, removes the member.

    AWS: empty subnets and security groups change nothing on Fargate.
    """
    on_fargate = before.get("type") in FARGATE_TYPES
    after = before | {
        member: value for member, value in changes.items() if value or not (on_fargate and member in NEEDED_ON_FARGATE)
    }
    template = after.get("launchTemplate", {})
    removed = {member for member in REMOVED_IF_EMPTY if not after.get(member)}
    if "" in (template.get("launchTemplateId"), template.get("launchTemplateName")):
        removed.add("launchTemplate")
    return {member: value for member, value in after.items() if member not in removed}


def capacity_millicpus(document: Document, limits: ServerLimits) -> int:
    """The capacity for jobs, in thousandths of a vCPU."""
    managed = document.get("type") == "MANAGED"
    vcpus = document["computeResources"]["maxvCpus"] if managed else document.get("unmanagedvCpus", limits.vcpus)
    return int(vcpus) * 1000


def is_fargate(environment: ComputeEnvironment) -> bool:
    """Whether the environment is of a Fargate type. An UNMANAGED one is not: it has machines, as on EC2."""
    return json.loads(environment.document).get("computeResources", {}).get("type") in FARGATE_TYPES


def compute_environment_detail(environment: ComputeEnvironment, arns: BatchArns) -> dict[str, object]:
    """AWS: the status becomes VALID after a while, when there is a cluster. Here it always is VALID."""
    document = json.loads(environment.document)
    is_eks = "eksConfiguration" in document
    return {
        "computeEnvironmentName": environment.name,
        "computeEnvironmentArn": arns.environment(environment.name),
        **({} if is_eks else {"ecsClusterArn": arns.cluster(environment.name)}),
        "uuid": str(uuid5(NAMESPACE_URL, environment.name)),
        "state": environment.state.value,
        "status": "VALID",
        "statusReason": "ComputeEnvironment Healthy",
        "containerOrchestrationType": "EKS" if is_eks else "ECS",
        "tags": dict(environment.tags),
        "type": "UNMANAGED",
        **document,
    }


def _document_members(given: CreateComputeEnvironment | UpdateComputeEnvironment) -> Document:
    """The members of the request that the environment's document has."""
    members = given.model_dump(mode="json", exclude=NOT_IN_DOCUMENT, exclude_none=True)
    return {member: value for member, value in members.items() if member not in OMITTED_IF_EMPTY or value}


def _check_managed(resources: ComputeResource | None, unmanaged: int | None) -> None:
    if resources is None:
        raise Invalid("computeResources must be provided for a MANAGED compute environment.")
    members = resources.model_dump(exclude_none=True)
    _check_unmanaged(unmanaged)
    _check_type(resources.type, members)
    if resources.type in {"EC2", "SPOT"} and not resources.instanceRole:
        raise Invalid("Instance role is required.")
    if resources.type in {"EC2", "SPOT"} and resources.minvCpus is None:
        raise Invalid("Resource minvCpus is required.")
    _check_range(members)


def _check_unmanaged(vcpus: int | None) -> None:
    if vcpus is not None:
        raise Invalid("unmanagedvCpus is not applicable for a MANAGED compute environment.")


def _check_type(kind: str, members: Document) -> None:
    for member in NOT_ON_FARGATE:
        if kind in FARGATE_TYPES and members.get(member):
            raise Invalid(f"{member} is not applicable for Fargate.")


def _check_range(resources: Document) -> None:
    if resources.get("minvCpus", 0) > resources["maxvCpus"]:
        raise Invalid("minvCpus must not be above maxvCpus.")
