"""The catalog: job definitions, job queues, compute environments, policies and consumable resources. Pure.

`document` is the JSON that the caller registered, as text. It is stored and returned, and the domain does not read it.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from msgspec import Struct

from batchq.domain.access.accounts import NO_OWNER, Owner
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import ConsumableName, DefinitionRef, QueueName
from batchq.domain.job import ConsumableRequirement, RetryStrategy
from batchq.domain.task import Nodes, Task

EnvironmentName = NewType("EnvironmentName", str)
PolicyName = NewType("PolicyName", str)
#: Keys and values.
Tags = tuple[tuple[str, str], ...]


class State(StrEnum):
    """Whether a queue accepts jobs, or an environment starts them. Running jobs are not affected."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


class DefinitionStatus(StrEnum):
    """Whether jobs can be submitted with a job definition; INACTIVE: it was deregistered."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class Network(StrEnum):
    """The network of the jobs of a compute environment that have one container. Decision 0022.

    Jobs with several containers or nodes have networks of their own.
    """

    #: One address, shared by the jobs of the environment and account.
    SHARED = "shared"
    #: An address for each job.
    BRIDGE = "bridge"
    #: The host's network.
    HOST = "host"
    #: No network.
    NONE = "none"


NETWORK_TAG = "batchq:network"  # a tag of compute environments, because AWS has no member for it


def network_of(tags: Tags) -> Network | None:
    """The network mode that the tags name; None without the tag, or with an unknown mode."""
    said = dict(tags).get(NETWORK_TAG)
    return None if said is None else next((it for it in Network if it == said), None)


class ComputeEnvironment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Capacity on this machine's container engine. Memory and GPUs are limited by the host only."""

    name: EnvironmentName
    state: State
    #: Thousandths of a vCPU that its jobs may hold together.
    max_millicpus: int
    #: The registered JSON, as text.
    document: str
    tags: Tags = ()
    created_at: datetime


class ShareWeight(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a policy's shareDistribution."""

    #: The share identifier. AWS: a trailing `*` matches any rest.
    identifier: str
    #: AWS: the lower, the more vCPUs the share gets.
    weight: float = 1.0


class SchedulingPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fair-share policy."""

    name: PolicyName
    shares: tuple[ShareWeight, ...] = ()
    #: AWS's shareDecaySeconds: how long past use counts against a share; zero: AWS's shortest window.
    decay: timedelta = timedelta()
    #: AWS's computeReservation, 0 to 99: the percentage kept for shares that are not active yet.
    reservation: int = 0
    #: The registered JSON, as text.
    document: str
    tags: Tags = ()
    created_at: datetime

    def weight(self, share: str) -> float:
        """The weight of a share. AWS: 1.0 if no entry matches; no two entries match the same share."""
        return next((it.weight for it in self.shares if _names(it.identifier, share)), 1.0)


def _names(identifier: str, share: str) -> bool:
    return share.startswith(identifier[:-1]) if identifier.endswith("*") else share == identifier


class ResourceKind(StrEnum):
    """Whether a job returns its units when it ends, or uses them up."""

    REPLENISHABLE = "REPLENISHABLE"
    NON_REPLENISHABLE = "NON_REPLENISHABLE"


class ConsumableResource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named number of units that jobs hold or use up, such as licences."""

    name: ConsumableName
    #: Units, as set by its owner; the use of a NON_REPLENISHABLE resource is stored beside it and subtracted.
    total: int
    kind: ResourceKind
    tags: Tags = ()
    created_at: datetime


class Operation(StrEnum):
    """What UpdateConsumableResource does with its quantity."""

    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"


class ConsumableUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An UpdateConsumableResource that was applied, so that a repetition of it is not applied again."""

    #: The request's clientToken.
    token: str
    operation: Operation
    #: Units.
    quantity: int
    #: When it was applied.
    at: datetime


class TimeLimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of jobStateTimeLimitActions: a RUNNABLE job that is blocked too long is cancelled."""

    #: The status reason it applies to, as `CAPACITY:...`.
    reason: str
    #: The longest time that a job may be blocked for that reason.
    most: timedelta


class JobQueue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job queue."""

    name: QueueName
    state: State
    #: Whether it accepts jobs and starts none. Running jobs are not affected.
    drained: bool = False
    #: Queues with a higher priority are placed first.
    priority: int
    #: Compute environments, in the order in which they are tried.
    environments: tuple[EnvironmentName, ...]
    #: The fair-share policy; None: first in, first out.
    policy: PolicyName | None = None
    time_limits: tuple[TimeLimit, ...] = ()
    #: The registered JSON, as text.
    document: str
    tags: Tags = ()
    created_at: datetime


class JobDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision of a job definition. Only its status and tags change; it is never deleted."""

    ref: DefinitionRef
    status: DefinitionStatus
    #: As in `JobSpec`, like the members below, before SubmitJob's overrides.
    container: ContainerSpec
    task: Task | None = None
    nodes: Nodes | None = None
    needs: tuple[ConsumableRequirement, ...] = ()
    #: Default values for `Ref::name`.
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy
    timeout: timedelta | None = None
    scheduling_priority: int | None = None
    propagate_tags: bool = False
    #: The registered JSON, as text.
    document: str
    tags: Tags = ()
    created_at: datetime
    #: The user and account that registered it.
    owner: Owner = NO_OWNER
