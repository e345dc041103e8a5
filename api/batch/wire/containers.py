"""Shapes of containers, in job definitions and in SubmitJob's overrides."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.shape import Integer, Text, Unserved, WireModel


class KeyValuePair(WireModel):
    name: Text | None = None
    value: Text | None = None


class ResourceRequirement(WireModel):
    """AWS: the value is a string. A number is accepted: job definitions written by hand often have one for GPUs."""

    type: Literal["GPU", "VCPU", "MEMORY"]
    value: Annotated[Text, Field(strict=False, coerce_numbers_to_str=True)]


class Host(WireModel):
    sourcePath: Text | None = None


class Volume(WireModel):
    name: Text | None = None
    host: Host | None = None
    efsVolumeConfiguration: Unserved | None = None
    s3filesVolumeConfiguration: Unserved | None = None


class MountPoint(WireModel):
    containerPath: Text | None = None
    readOnly: bool | None = None
    sourceVolume: Text | None = None


class Ulimit(WireModel):
    name: Text
    softLimit: Integer
    hardLimit: Integer


class Device(WireModel):
    hostPath: Text
    containerPath: Text | None = None
    permissions: list[Literal["READ", "WRITE", "MKNOD"]] | None = None


class Tmpfs(WireModel):
    containerPath: Text
    size: Integer
    mountOptions: list[Text] | None = None


class LinuxParameters(WireModel):
    devices: list[Device] | None = None
    initProcessEnabled: bool | None = None
    sharedMemorySize: Annotated[Integer, Field(ge=1)] | None = None
    tmpfs: list[Tmpfs] | None = None
    maxSwap: Annotated[Integer, Field(ge=0)] | None = None
    swappiness: Annotated[int, Field(ge=0, le=100)] | None = None


class Secret(WireModel):
    name: Text
    valueFrom: Text


class LogConfiguration(WireModel):
    logDriver: Literal["json-file", "syslog", "journald", "gelf", "fluentd", "awslogs", "splunk", "awsfirelens"]
    options: dict[Text, Text] | None = None
    secretOptions: list[Secret] | None = None


class NetworkConfiguration(WireModel):
    assignPublicIp: Literal["ENABLED", "DISABLED"] | None = None


class FargatePlatformConfiguration(WireModel):
    platformVersion: Text | None = None


class EphemeralStorage(WireModel):
    sizeInGiB: Annotated[int, Field(ge=21, le=200)]


class RuntimePlatform(WireModel):
    operatingSystemFamily: Text | None = None
    cpuArchitecture: Text | None = None


class RepositoryCredentials(WireModel):
    credentialsParameter: Text


class ContainerProperties(WireModel):
    image: Text | None = None
    vcpus: Integer | None = None
    memory: Integer | None = None
    command: list[Text] | None = None
    jobRoleArn: Text | None = None
    executionRoleArn: Text | None = None
    volumes: list[Volume] | None = None
    environment: list[KeyValuePair] | None = None
    mountPoints: list[MountPoint] | None = None
    readonlyRootFilesystem: bool | None = None
    privileged: bool | None = None
    ulimits: list[Ulimit] | None = None
    user: Text | None = None
    instanceType: Text | None = None
    resourceRequirements: list[ResourceRequirement] | None = None
    linuxParameters: LinuxParameters | None = None
    logConfiguration: LogConfiguration | None = None
    secrets: list[Secret] | None = None
    networkConfiguration: NetworkConfiguration | None = None
    fargatePlatformConfiguration: FargatePlatformConfiguration | None = None
    enableExecuteCommand: bool | None = None
    ephemeralStorage: EphemeralStorage | None = None
    runtimePlatform: RuntimePlatform | None = None
    repositoryCredentials: RepositoryCredentials | None = None


class ContainerOverrides(WireModel):
    vcpus: Integer | None = None
    memory: Integer | None = None
    command: list[Text] | None = None
    instanceType: Text | None = None
    environment: list[KeyValuePair] | None = None
    resourceRequirements: list[ResourceRequirement] | None = None
