"""Shapes of jobs with several containers: ecsProperties, and SubmitJob's overrides of them."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.containers import (
    EphemeralStorage,
    KeyValuePair,
    LinuxParameters,
    LogConfiguration,
    MountPoint,
    NetworkConfiguration,
    RepositoryCredentials,
    ResourceRequirement,
    RuntimePlatform,
    Secret,
    Ulimit,
    Volume,
)
from batchq.api.batch.wire.shape import Text, WireModel

Seconds = Annotated[int, Field(ge=2, le=120)]


class TaskContainerDependency(WireModel):
    containerName: Text | None = None
    condition: Text | None = None


class FirelensConfiguration(WireModel):
    type: Literal["fluentd", "fluentbit"]
    options: dict[Text, Text] | None = None


class TaskContainerProperties(WireModel):
    command: list[Text] | None = None
    dependsOn: list[TaskContainerDependency] | None = None
    environment: list[KeyValuePair] | None = None
    essential: bool | None = None
    firelensConfiguration: FirelensConfiguration | None = None
    image: Text
    linuxParameters: LinuxParameters | None = None
    logConfiguration: LogConfiguration | None = None
    mountPoints: list[MountPoint] | None = None
    name: Text | None = None
    privileged: bool | None = None
    readonlyRootFilesystem: bool | None = None
    repositoryCredentials: RepositoryCredentials | None = None
    resourceRequirements: list[ResourceRequirement] | None = None
    secrets: list[Secret] | None = None
    ulimits: list[Ulimit] | None = None
    user: Text | None = None
    startTimeout: Seconds | None = None
    stopTimeout: Seconds | None = None


class EcsTaskProperties(WireModel):
    containers: list[TaskContainerProperties]
    ephemeralStorage: EphemeralStorage | None = None
    executionRoleArn: Text | None = None
    platformVersion: Text | None = None
    ipcMode: Text | None = None
    taskRoleArn: Text | None = None
    pidMode: Text | None = None
    networkConfiguration: NetworkConfiguration | None = None
    runtimePlatform: RuntimePlatform | None = None
    volumes: list[Volume] | None = None
    enableExecuteCommand: bool | None = None
    networkMode: Text | None = None


class EcsProperties(WireModel):
    taskProperties: list[EcsTaskProperties]


class TaskContainerOverrides(WireModel):
    command: list[Text] | None = None
    environment: list[KeyValuePair] | None = None
    name: Text | None = None
    resourceRequirements: list[ResourceRequirement] | None = None


class TaskPropertiesOverride(WireModel):
    containers: list[TaskContainerOverrides] | None = None


class EcsPropertiesOverride(WireModel):
    taskProperties: list[TaskPropertiesOverride] | None = None
