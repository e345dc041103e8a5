"""Shapes of compute environments. Members that select machines to rent are stored and returned, without effect."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.instances import ManagedInstancesProvider
from batchq.api.batch.wire.job_queues import State
from batchq.api.batch.wire.shape import Integer, Named, Page, Tags, Text, Unserved, WireModel

ResourceType = Literal["EC2", "SPOT", "FARGATE", "FARGATE_SPOT", "ECS_MANAGED_INSTANCES"]
LaterStrategy = Literal[
    "BEST_FIT_PROGRESSIVE",
    "BEST_FIT_PROGRESSIVE_ORDERED",
    "SPOT_CAPACITY_OPTIMIZED",
    "SPOT_PRICE_CAPACITY_OPTIMIZED",
    "SPOT_CAPACITY_OPTIMIZED_PRIORITIZED",
]
AllocationStrategy = Literal["BEST_FIT"] | LaterStrategy
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
    allocationStrategy: LaterStrategy | None = None
    updateToLatestImageVersion: bool | None = None


class UpdatePolicy(WireModel):
    terminateJobsOnUpdate: bool | None = None
    jobExecutionTimeoutMinutes: Annotated[int, Field(ge=1, le=7200)] | None = None


class EcsSettings(WireModel):
    containerInsights: Literal["ENABLED", "ENHANCED", "DISABLED"] | None = None


class CreateComputeEnvironment(WireModel):
    computeEnvironmentName: Text
    type: Literal["MANAGED", "UNMANAGED"]
    state: State | None = None
    unmanagedvCpus: Count | None = None
    computeResources: ComputeResource | None = None
    serviceRole: Text | None = None
    tags: Tags | None = None
    eksConfiguration: Unserved | None = None
    context: Text | None = None
    ecsSettings: EcsSettings | None = None


class UpdateComputeEnvironment(WireModel):
    computeEnvironment: Text
    state: State | None = None
    unmanagedvCpus: Count | None = None
    computeResources: ComputeResourceUpdate | None = None
    serviceRole: Text | None = None
    updatePolicy: UpdatePolicy | None = None
    context: Text | None = None
    ecsSettings: EcsSettings | None = None
    eksConfiguration: Unserved | None = None


class DeleteComputeEnvironment(WireModel):
    computeEnvironment: Text


class DescribeComputeEnvironments(WireModel):
    computeEnvironments: Named | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None
