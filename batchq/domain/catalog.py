"""What jobs are made from and where they wait: job definitions, job queues, compute environments.

`document` is what the caller registered, as JSON text: carried and echoed, never read by the domain.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from batchq.domain.container import ContainerSpec
from batchq.domain.job import DefinitionRef, QueueName, RetryStrategy

EnvironmentName = NewType("EnvironmentName", str)
Tags = tuple[tuple[str, str], ...]


class State(StrEnum):
    """Whether new work is taken. What runs is never touched by it."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


class DefinitionStatus(StrEnum):
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEnvironment:
    """Capacity on this machine's engine: at most `max_millicpus` of jobs at a time. Memory and GPUs are the host's."""

    name: EnvironmentName
    state: State
    max_millicpus: int
    document: str
    tags: Tags = ()
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueue:
    """Where jobs wait. Higher priority first; environments are tried in the order given."""

    name: QueueName
    state: State
    priority: int
    environments: tuple[EnvironmentName, ...]
    document: str
    tags: Tags = ()
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """One revision. It never changes but for its status and tags, and is kept for ever."""

    ref: DefinitionRef
    status: DefinitionStatus
    container: ContainerSpec
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy
    timeout: timedelta | None = None
    scheduling_priority: int | None = None
    propagate_tags: bool = False
    document: str
    tags: Tags = ()
    created_at: datetime
