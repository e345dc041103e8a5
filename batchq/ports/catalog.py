"""The port of the store for the catalog, and its values.

The catalog: compute environments, job queues, job definitions, scheduling policies and consumable resources.

The scheduler's read view of the catalog: the current queues, environments, policies and consumable resources.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from msgspec import Struct

from batchq.domain.access.accounts import Caller, Owner, Visibility
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    EnvironmentName,
    JobDefinition,
    JobQueue,
    PolicyName,
    SchedulingPolicy,
)
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName


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


class NeedQuery(Struct, frozen=True, kw_only=True):
    """A query for the jobs that require a consumable resource, newest first. Finished jobs are included."""

    resource: ConsumableName
    #: None: every status.
    status: Status | None = None
    #: A job name in any case; a trailing `*` matches any rest; None: every name.
    name: str | None = None
    limit: int
    #: Only jobs with a `sequence` below this; None: from the newest.
    before: int | None = None
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None = None
    #: `sequence` values of arrays that an order has ended: while they are PENDING they count as FAILED. Decision 0027.
    ended_arrays: frozenset[int] = frozenset()


class Snapshot(Struct, frozen=True, kw_only=True):
    """The reply to GetJobQueueSnapshot: the front of a queue and the resources that its jobs hold."""

    #: The next jobs in dispatch order, each with the time since which it has had its position.
    jobs: tuple[tuple[JobId, datetime], ...]
    updated_at: datetime
    #: Thousandths of a vCPU that the jobs of the queue hold.
    millicpus: int
    #: The shares that hold most, with their thousandths of a vCPU, most first; empty without a scheduling policy.
    shares: tuple[tuple[str, int], ...] = ()
    #: The number of active shares; 0 without a scheduling policy.
    active_shares: int = 0


#: The kinds of resources that have one row each, in memory and in the store.
CatalogResource = ComputeEnvironment | JobQueue | SchedulingPolicy | ConsumableResource
R = TypeVar("R", ComputeEnvironment, JobQueue, SchedulingPolicy, ConsumableResource)


class CatalogStore(Protocol):
    """Durable storage of the catalog. Each write is one transaction.

    A write for a `caller` inserts the audit record in the same transaction; None: the server itself writes.
    """

    async def resources(self, kind: type[R]) -> tuple[R, ...]:
        """All resources of a kind, by name. Raises StoreRefused for an unreadable one."""

    async def put_resource(self, resource: CatalogResource, *, caller: Caller | None) -> None:
        """Insert the resource, or replace the resource of this kind and name."""

    async def drop_resource(self, kind: type[CatalogResource], name: str, *, caller: Caller | None) -> None:
        """Delete the resource, and the stored updates of a ConsumableResource."""

    async def update_consumable(
        self,
        resource: ConsumableResource,
        update: ConsumableUpdate,
        *,
        forget_before: datetime | None,
        caller: Caller | None,
    ) -> None:
        """Replace the resource and store the update that changed it, in one transaction.

        Updates older than `forget_before` may be deleted; None: no update.
        """

    async def consumable_update(self, name: ConsumableName, token: str) -> ConsumableUpdate | None:
        """The update with this client token; None if there was none, or it has been deleted."""

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        """Store the definition as the next revision of its name, and return it as stored.

        Its own `ref.revision` is ignored. The revisions of a name count from 1 without gaps, even if several callers
        add revisions concurrently.
        """

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        """Replace the revision `definition.ref`."""

    async def definition(self, ref: DefinitionRef) -> JobDefinition | None:
        """The revision `ref`; None if there is none."""

    async def newest_active(self, name: str) -> JobDefinition | None:
        """The highest ACTIVE revision of a name; None if there is none."""

    async def definition_owner(self, name: str) -> Owner | None:
        """The owner of a definition name: the owner of its first revision. None for an unregistered name."""

    async def definitions(
        self,
        *,
        name: str | None,
        status: str | None,
        limit: int,
        after: DefinitionRef | None,
        visibility: Visibility | None = None,
    ) -> tuple[JobDefinition, ...]:
        """The first `limit` revisions after `after`: by name, those of a name newest first. None: no filter."""

    async def flag(self, name: str) -> bool:
        """Whether the flag has been set."""

    async def set_flag(self, name: str) -> None:
        """Set the flag permanently. A flag marks something that happens once in the lifetime of the data directory."""
