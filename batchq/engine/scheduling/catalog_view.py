"""What the scheduler stands on: queues, environments, policies and resources as they are at this moment."""

from collections.abc import Mapping
from typing import Protocol

from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    EnvironmentName,
    JobQueue,
    Network,
    PolicyName,
    SchedulingPolicy,
    network_of,
)
from batchq.domain.ids import ConsumableName, QueueName


class CatalogView(Protocol):
    """The catalog is one. All are kept in memory, so reading them costs nothing and waits for nothing."""

    @property
    def queues(self) -> Mapping[QueueName, JobQueue]: ...

    @property
    def environments(self) -> Mapping[EnvironmentName, ComputeEnvironment]: ...

    @property
    def policies(self) -> Mapping[PolicyName, SchedulingPolicy]: ...

    @property
    def consumables(self) -> Mapping[ConsumableName, ConsumableResource]: ...


def network_on(ground: CatalogView, environment: str) -> Network | None:
    """What a compute environment says of it; nothing, where it is gone meanwhile."""
    known = ground.environments.get(EnvironmentName(environment))
    return None if known is None else network_of(known.tags)
