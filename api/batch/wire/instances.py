"""Shapes of ECS Managed Instances, for create and update: stored and returned, without effect."""

from batchq.api.batch.wire.shape import Integer, Text, WireModel


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
