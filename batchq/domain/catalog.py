"""The catalog: job definitions, job queues, compute environments, policies and consumable resources. Pure.

`document` is the JSON that the caller registered, as text. It is stored and returned, and the domain does not read it.
The functions check a change of the catalog: each raises Invalid or NotFound, with AWS's text where it is known.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NewType

from msgspec import Struct

from batchq.domain.access.accounts import NO_OWNER, Owner
from batchq.domain.container import merge_pairs
from batchq.domain.enums import State
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG, ConsumableName, ContainerEngineName, DefinitionRef, QueueName
from batchq.domain.job import ConsumableRequirement, RetryStrategy
from batchq.domain.task import Nodes
from batchq.errors import Invalid, NotFound

EnvironmentName = NewType("EnvironmentName", str)
PolicyName = NewType("PolicyName", str)

#: Keys and values.
Tags = tuple[tuple[str, str], ...]
MAX_TAGS = 50  # AWS: of one resource
MAX_UNITS = 2**63 - 1  # AWS: a long


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
    mode = dict(tags).get(NETWORK_TAG)
    return next((network for network in Network if network == mode), None)


RUNTIME_TAG = "batchq:container-runtime"  # a tag of compute environments: the OCI runtime of their jobs
_RUNTIME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def oci_runtime_of(tags: Tags) -> str | None:
    """The OCI runtime that the tags name; None without the tag, or with an invalid name."""
    name = dict(tags).get(RUNTIME_TAG, "")
    return name if _RUNTIME_NAME.fullmatch(name) else None


_ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,252}")
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def engine_of(tags: Tags) -> ContainerEngineName | None:
    """The container engine that the tags name; None: the first one of the server."""
    name = dict(tags).get(ENGINE_TAG)
    return None if name is None else ContainerEngineName(name)


def machine_labels_of(tags: Tags) -> Tags:
    """The labels of machines that the tags require, sorted."""
    return tuple(sorted((key.removeprefix(LABEL_TAG), value) for key, value in tags if key.startswith(LABEL_TAG)))


class ComputeEnvironment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Capacity on machines of one container engine, which its tags select.

    Memory and GPUs are limited by the machines only.
    """

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
        return next((weight.weight for weight in self.shares if _names(weight.identifier, share)), 1.0)


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


class QuantityOperation(StrEnum):
    """What UpdateConsumableResource does with its quantity."""

    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"


class ConsumableUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An UpdateConsumableResource that was applied, so that a repetition of it is not applied again."""

    #: The request's clientToken.
    token: str
    operation: QuantityOperation
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


class RangeTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the overrides of the nodes of one range depend on, beside the task of the nodes."""

    #: AWS's targetNodes, as registered.
    target: str
    #: Whether the nodes have ecsProperties; else they have one container.
    has_task: bool = False
    #: As in OverrideTerms.
    older_members: tuple[str, ...] = ()
    #: The consumable resources of each node.
    needs: tuple[ConsumableRequirement, ...] = ()


class OverrideTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What SubmitJob's overrides of a job definition depend on, beside its containers."""

    #: Whether the resources of a job must be a size of Fargate.
    fargate: bool = False
    #: The attributes of Resources that AWS's older members `vcpus` and `memory` set. Those of a request override no
    #: others.
    older_members: tuple[str, ...] = ()
    #: Of a multi-node definition: the consumable resources that do not depend on the number of nodes.
    needs: tuple[ConsumableRequirement, ...] = ()
    #: The ranges of a multi-node definition, in the order of its nodes; empty: closed ranges with one container each.
    ranges: tuple[RangeTerms, ...] = ()


class JobDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision of a job definition. Only its status and tags change; it is never deleted."""

    ref: DefinitionRef
    status: DefinitionStatus
    #: As in `JobSpec`, like the members below, before SubmitJob's overrides.
    nodes: Nodes
    needs: tuple[ConsumableRequirement, ...] = ()
    #: Default values for `Ref::name`.
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy
    timeout: timedelta | None = None
    scheduling_priority: int | None = None
    propagate_tags: bool = False
    terms: OverrideTerms = OverrideTerms()
    #: The registered JSON, as text.
    document: str
    tags: Tags = ()
    created_at: datetime
    #: The user and account that first registered a revision of this name.
    owner: Owner = NO_OWNER
    #: The user and account that registered this revision; None: the owner.
    registered_by: Owner | None = None

    @property
    def author(self) -> Owner:
        """The user who wrote what jobs of this revision run, and that user's account."""
        return self.registered_by or self.owner


def require_free_name(name: str, taken: Collection[str]) -> None:
    """Raises Invalid if the name is taken."""
    if name in taken:
        raise Invalid("Object already exists")


def require_unique(values: Iterable[object], what: str) -> None:
    """Raises Invalid if a value appears twice. `what` describes the values, for the error text."""
    listed = list(values)
    if len(set(listed)) != len(listed):
        raise Invalid(f"{what} must not be named more than once.")


def require_existing(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises NotFound for the first name that is not known."""
    for name in names:
        if name not in known:
            raise NotFound(f"{kind} {name} not found.")


def require_disabled(kind: str, name: str, state: State) -> None:
    """Raises Invalid for a resource that is to be deleted and is ENABLED."""
    if state is State.ENABLED:
        raise Invalid(f"Cannot delete, {kind} {name} is ENABLED: disable it first")


def require_unused(name: str, users: Iterable[Collection[str]]) -> None:
    """Raises Invalid for a resource that is to be deleted and that a queue uses. `users`: the names each queue uses."""
    if any(name in used for used in users):
        raise Invalid("Cannot delete, found existing JobQueue relationship")


def require_empty(queue: str, unfinished: int) -> None:
    """Raises Invalid for a queue with unfinished jobs. AWS terminates them; batchq ends no job with its queue."""
    if unfinished:
        raise Invalid(f"Cannot delete, JobQueue {queue} holds {unfinished} unfinished jobs: cancel or terminate them")


def require_room(kind: str, known: int, most: int) -> None:
    """Raises Invalid if there are `most` resources of this kind already."""
    if known >= most:
        raise Invalid(f"There can be at most {most} resources of the kind {kind}.")


def require_same_kind(before: JobQueue, after: JobQueue) -> None:
    """AWS: the scheduling policy of a queue can be replaced. It cannot be removed, or added to a queue without one."""
    if before.policy is None and after.policy is not None:
        raise Invalid(f"JobQueue {before.name} was created without a scheduling policy, and none can be added.")
    if before.policy is not None and after.policy is None:
        raise Invalid(f"The scheduling policy of JobQueue {before.name} can be replaced, and cannot be removed.")


def require_disjoint_shares(shares: Sequence[ShareWeight]) -> None:
    """AWS: no two entries of a shareDistribution may match the same share: `a*` excludes both `a1` and `a`."""
    # Sorted by the part before `*`, what an entry covers follows it directly.
    listed = sorted(
        (weight.identifier for weight in shares), key=lambda share: (share.removesuffix("*"), not share.endswith("*"))
    )
    for first, second in pairwise(listed):
        covered = second.startswith(first[:-1]) if first.endswith("*") else second == first
        if covered:
            raise Invalid(f"The share identifiers {first} and {second} of a fair-share policy overlap.")


def valid_quantity(units: int) -> int:
    """The units, if a consumable resource can have as many. Raises Invalid otherwise."""
    if not 0 <= units <= MAX_UNITS:
        raise Invalid(f"The quantity of a consumable resource must be between 0 and {MAX_UNITS}.")
    return units


def updated_total(total: int, operation: QuantityOperation, units: int) -> int:
    """The total of a consumable resource after an update. Raises Invalid below 0 or above MAX_UNITS."""
    match operation:
        case QuantityOperation.SET:
            return units
        case QuantityOperation.ADD if total + units <= MAX_UNITS:
            return total + units
        case QuantityOperation.REMOVE if units <= total:
            return total - units
    raise Invalid(f"The total quantity is {total}: it would not stay between 0 and {MAX_UNITS}.")


def tagged(before: Tags, laid_over: Tags) -> Tags:
    """The tags with those of `laid_over` added or replaced. Raises Invalid for more than MAX_TAGS."""
    tags = merge_pairs(before, laid_over)
    if len(tags) > MAX_TAGS:
        raise Invalid(f"A resource can have at most {MAX_TAGS} tags.")
    return tags


def environment_tagged(before: Tags, laid_over: Tags) -> Tags:
    """As `tagged`, for a compute environment. Raises Invalid for an invalid value of a tag that batchq reads."""
    tags = tagged(before, laid_over)
    if NETWORK_TAG in dict(tags) and network_of(tags) is None:
        raise Invalid(f"The tag {NETWORK_TAG} must be one of {', '.join(Network)}.")
    if RUNTIME_TAG in dict(tags) and oci_runtime_of(tags) is None:
        raise Invalid(
            f"The tag {RUNTIME_TAG} must be the name of an OCI runtime of the container engine, such as crun."
        )
    if (engine := engine_of(tags)) is not None and _ENGINE_NAME.fullmatch(engine) is None:
        raise Invalid(f"The tag {ENGINE_TAG} must be the name of a container engine, such as docker or kubernetes.")
    for key, value in machine_labels_of(tags):
        if _LABEL_KEY.fullmatch(key) is None or _LABEL_VALUE.fullmatch(value) is None:
            raise Invalid(f"The tag {LABEL_TAG}{key} must be the key and the value of a label, as Kubernetes allows.")
    return tags


def untagged(before: Tags, keys: Collection[str]) -> Tags:
    """The tags, without those that have one of these keys."""
    return tuple((key, value) for key, value in before if key not in keys)
