"""What the scheduler stands on: the queues and environments as they are at this moment."""

from collections.abc import Mapping
from typing import Protocol

from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, JobQueue
from batchq.domain.names import QueueName


class Ground(Protocol):
    """The catalog is one. Both are kept in memory, so reading them costs nothing and waits for nothing."""

    @property
    def queues(self) -> Mapping[QueueName, JobQueue]: ...

    @property
    def environments(self) -> Mapping[EnvironmentName, ComputeEnvironment]: ...
