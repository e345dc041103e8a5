"""The store of environments, queues, definitions, policies and consumable resources: its port and its values."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Caller, Owner, Visibility
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    JobDefinition,
    JobQueue,
    PolicyName,
    SchedulingPolicy,
)
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId
from batchq.domain.job import Status


class NeedQuery(Struct, frozen=True, kw_only=True):
    """Jobs that need a consumable resource, newest first, finished ones too. None is any; a name as in JOB_NAME.

    `over` as in JobQuery.
    """

    resource: ConsumableName
    status: Status | None = None
    name: str | None = None
    limit: int
    before: int | None = None
    reach: Visibility | None = None
    over: frozenset[int] = frozenset()


class Snapshot(Struct, frozen=True, kw_only=True):
    """GetJobQueueSnapshot: who is next in a queue, in dispatch order and since when, and what its jobs hold.

    `shares` are those that hold most, with their thousandths of a vCPU, most first. Both they and `active_shares` are
    of a queue with a policy.
    """

    jobs: tuple[tuple[JobId, datetime], ...]
    updated_at: datetime
    millicpus: int
    shares: tuple[tuple[str, int], ...] = ()
    active_shares: int = 0


class CatalogStore(Protocol):
    """Compute environments, queues, job definitions and the like, durable. Each write is a transaction of its own.

    A write for a `caller` saves the caller's audit record in the same transaction; None: the server itself writes.
    """

    async def policies(self) -> tuple[SchedulingPolicy, ...]: ...

    async def put_policy(self, policy: SchedulingPolicy, *, caller: Caller | None) -> None:
        """Insert it, or replace the one of its name."""

    async def drop_policy(self, name: PolicyName, *, caller: Caller | None) -> None: ...

    async def consumables(self) -> tuple[ConsumableResource, ...]: ...

    async def put_consumable(self, resource: ConsumableResource, *, caller: Caller | None) -> None: ...

    async def update_consumable(
        self, resource: ConsumableResource, update: ConsumableUpdate, *, forget_before: datetime, caller: Caller | None
    ) -> None:
        """Replace it, and remember what update did so, in one. Updates older than `forget_before` may be forgotten."""

    async def consumable_update(self, name: ConsumableName, token: str) -> ConsumableUpdate | None:
        """The update of this token, if it is remembered."""

    async def drop_consumable(self, name: ConsumableName, *, caller: Caller | None) -> None:
        """With it go the updates that are remembered of it."""

    async def environments(self) -> tuple[ComputeEnvironment, ...]: ...

    async def queues(self) -> tuple[JobQueue, ...]: ...

    async def put_environment(self, environment: ComputeEnvironment, *, caller: Caller | None) -> None:
        """Insert it, or replace the one of its name."""

    async def put_queue(self, queue: JobQueue, *, caller: Caller | None) -> None: ...

    async def drop_environment(self, name: str, *, caller: Caller | None) -> None: ...

    async def drop_queue(self, name: str, *, caller: Caller | None) -> None: ...

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        """Save it as the next revision of its name (its own `ref.revision` is ignored), and answer it as saved.

        Revisions of a name count from 1 without gaps, also when many are added at once.
        """

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        """Replace the revision of this ref."""

    async def definition(self, ref: DefinitionRef) -> JobDefinition | None: ...

    async def newest_active(self, name: str) -> JobDefinition | None: ...

    async def definition_owner(self, name: str) -> Owner | None:
        """Whose the name is: that of its first revision. None for a name that nobody has registered."""

    async def definitions(
        self,
        *,
        name: str | None,
        status: str | None,
        limit: int,
        after: DefinitionRef | None,
        reach: Visibility | None = None,
    ) -> tuple[JobDefinition, ...]:
        """By name ascending, then revision ascending, from the first beyond `after`."""

    async def flag(self, name: str) -> bool:
        """Whether this was ever set."""

    async def set_flag(self, name: str) -> None:
        """Set it for ever: something that happens once in the life of the data has happened."""
