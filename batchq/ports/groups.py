"""The port of the store for groups of jobs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Visibility
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, QueueName
from batchq.domain.job import Job

MAX_QUEUED = 1000  # jobs of a group whose queues are read: a group may have 100,000


class GroupQuery(Struct, frozen=True, kw_only=True):
    """Which groups to read, the newest first."""

    #: In any case; None: any name.
    name: str | None = None
    #: Only groups that are unfinished, or ended at this time or later; None: all.
    since: datetime | None = None
    #: Only groups whose first job has a smaller `Job.sequence`; None: from the newest.
    before: int | None = None
    #: Only groups of which one of the first MAX_QUEUED jobs is in one of these queues; empty: of all queues.
    queues: frozenset[QueueName] = frozenset()
    #: Only groups with a job whose `Job.sequence` is greater than this and smaller than `before`; None: all.
    member_after: int | None = None
    limit: int = 100
    #: Only groups of these owners; None: of all owners.
    visibility: Visibility | None = None


class GroupStore(Protocol):
    """Reads of groups. `JobStore.commit` writes them. Every method may raise StoreFailed."""

    async def groups(self, ids: Collection[GroupId]) -> Mapping[GroupId, Group]:
        """The groups with these ids; missing ids are omitted."""

    async def newest_groups(self, query: GroupQuery) -> Sequence[Group]:
        """The groups that match, by their first job, the newest first."""

    async def waiting_members(self, group: GroupId, limit: int) -> tuple[Job, ...]:
        """The first PENDING jobs of the group, by `sequence`, that are not held and whose dependencies SUCCEEDED."""
