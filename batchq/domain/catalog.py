"""What jobs are made from and where they wait: job definitions, job queues, compute environments.

`document` is what the caller registered, as JSON text: carried and echoed, never read by the domain.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from msgspec import Struct

from batchq.domain.access.accounts import NOBODY, Owner
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import ConsumableName, DefinitionRef, QueueName
from batchq.domain.job import Need, RetryStrategy
from batchq.domain.task import Nodes, Task

EnvironmentName = NewType("EnvironmentName", str)
PolicyName = NewType("PolicyName", str)
Tags = tuple[tuple[str, str], ...]


class State(StrEnum):
    """Whether new work is taken. What runs is never touched by it."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


class DefinitionStatus(StrEnum):
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class Network(StrEnum):
    """What jobs see of the network: one address that those of an environment share, one each, the host's, or nothing.

    It is said of jobs of one container. Tasks and gangs are on networks of their own.
    """

    SHARED = "shared"
    BRIDGE = "bridge"
    HOST = "host"
    NONE = "none"


NETWORK_TAG = "batchq:network"  # of a compute environment: AWS has no member that says it


def network_of(tags: Tags) -> Network | None:
    """What the tags say, None where they say nothing that is known."""
    said = dict(tags).get(NETWORK_TAG)
    return None if said is None else next((it for it in Network if it == said), None)


class ComputeEnvironment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Capacity on this machine's engine: at most `max_millicpus` of jobs at a time. Memory and GPUs are the host's."""

    name: EnvironmentName
    state: State
    max_millicpus: int
    document: str
    tags: Tags = ()
    created_at: datetime


class ShareWeight(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a policy's shareDistribution. AWS: an `identifier` may end in `*`; the lower the more it gets."""

    identifier: str
    weight: float = 1.0


class SchedulingPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fair-share policy: `decay` is how long use is held against a share, zero AWS's least window.

    `reservation`, 0 to 99, is AWS's computeReservation: the percentage kept for shares that are not active yet.
    """

    name: PolicyName
    shares: tuple[ShareWeight, ...] = ()
    decay: timedelta = timedelta()
    reservation: int = 0
    document: str
    tags: Tags = ()
    created_at: datetime

    def weight(self, share: str) -> float:
        """AWS: 1.0 for a share that no entry names. No two entries name the same."""
        return next((it.weight for it in self.shares if _names(it.identifier, share)), 1.0)


def _names(identifier: str, share: str) -> bool:
    return share.startswith(identifier[:-1]) if identifier.endswith("*") else share == identifier


class ResourceKind(StrEnum):
    """Whether a job's units come back when it ends, or are used up."""

    REPLENISHABLE = "REPLENISHABLE"
    NON_REPLENISHABLE = "NON_REPLENISHABLE"


class ConsumableResource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`total` as set by its owner; of a NON_REPLENISHABLE one what jobs have used up comes off it."""

    name: ConsumableName
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
    """An UpdateConsumableResource that was made: by `token`, its clientToken, it is known when it comes again."""

    token: str
    operation: Operation
    quantity: int
    at: datetime


class TimeLimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of jobStateTimeLimitActions: a RUNNABLE job blocked for `reason` (as `CAPACITY:...`) so long is cancelled."""

    reason: str
    most: timedelta


class JobQueue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where jobs wait. Higher priority first; environments are tried in the order given.

    With a `policy` its shares take turns; without, it is first in, first out.
    """

    name: QueueName
    state: State
    priority: int
    environments: tuple[EnvironmentName, ...]
    policy: PolicyName | None = None
    time_limits: tuple[TimeLimit, ...] = ()
    document: str
    tags: Tags = ()
    created_at: datetime


class JobDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision. It never changes but for its status and tags, and is kept for ever. `owner` registered it."""

    ref: DefinitionRef
    status: DefinitionStatus
    container: ContainerSpec
    task: Task | None = None
    nodes: Nodes | None = None
    needs: tuple[Need, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy
    timeout: timedelta | None = None
    scheduling_priority: int | None = None
    propagate_tags: bool = False
    document: str
    tags: Tags = ()
    created_at: datetime
    owner: Owner = NOBODY
