"""The scheduler's read view of the catalog: the current queues, environments, policies and consumable resources."""

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
    """The current catalog, kept in memory: reads do no I/O. Implemented by the catalog service."""

    @property
    def queues(self) -> Mapping[QueueName, JobQueue]: ...

    @property
    def environments(self) -> Mapping[EnvironmentName, ComputeEnvironment]: ...

    @property
    def policies(self) -> Mapping[PolicyName, SchedulingPolicy]: ...

    @property
    def consumables(self) -> Mapping[ConsumableName, ConsumableResource]: ...


def network_on(catalog: CatalogView, environment: str) -> Network | None:
    """The network settings of a compute environment; None without any, or if the environment no longer exists."""
    found = catalog.environments.get(EnvironmentName(environment))
    return None if found is None else network_of(found.tags)
