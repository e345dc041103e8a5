"""The port of the store for the history: one numbered feed of the status changes of all jobs."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Owner, UserName, Visibility
from batchq.domain.enums import EventKind, Status
from batchq.domain.ids import GroupId, JobId, QueueName, parent_of
from batchq.domain.stop_values import Hold, StopStep


class HoldChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job was held or paused, or was released or resumed."""

    #: The hold; None: the job was released.
    hold: Hold | None
    #: The user who released it; empty: the server itself.
    released_by: UserName = UserName("")


class GroupEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The group of the job ended with it."""

    group_id: GroupId
    name: str
    succeeded: int = 0
    #: Jobs that failed by themselves.
    failed: int = 0
    #: Jobs that were cancelled or terminated.
    stopped: int = 0


class HistoryEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a job's history: a status that the job entered, a step of an order to stop it, or a hold."""

    job_id: JobId
    at: datetime
    #: The status that the job entered or, with `stop` or `hold`, had at that time.
    status: Status
    #: The statusReason at that time.
    reason: str | None
    #: The number of the attempt; None without an attempt.
    attempt: int | None
    #: The step of a stop order; None: the entry is not about one.
    stop: StopStep | None = None
    #: The job was held, or released; None: the entry is not about that.
    hold: HoldChange | None = None
    #: The group ended with this job; None: the entry is not about that.
    group_end: GroupEnd | None = None

    @property
    def is_status(self) -> bool:
        """Whether the job entered `status`."""
        return self.stop is None and self.hold is None and self.group_end is None

    @property
    def kind(self) -> EventKind:
        """What the entry is about."""
        if self.group_end is not None:
            return EventKind.GROUP_ENDED
        if self.stop is not None:
            return EventKind.STOP_ORDER
        return EventKind(self.status) if self.hold is None else EventKind.HOLD


class FeedEntry(Struct, frozen=True, kw_only=True):
    """A saved history entry with its number, and what its readers must know of its job."""

    #: From 1, ascending in the order of the commits; never used twice. Numbers of deleted entries are missing.
    number: int
    entry: HistoryEntry
    #: The jobName as it was submitted.
    job_name: str
    queue: QueueName
    owner: Owner
    #: The name of the job's group; None: it is in no group.
    group: str | None = None
    #: The id of the job's group, also if another job has replaced it there; None: it is in no group.
    group_id: GroupId | None = None
    #: The webhook that the job names by the tag `batchq:notify`; None: it names none.
    notify: str | None = None


class FeedFilter(Struct, frozen=True, kw_only=True):
    """Which entries a reader wants. An empty set matches every entry."""

    #: Jobs by id; an array matches its children too.
    jobs: frozenset[JobId] = frozenset()
    queues: frozenset[QueueName] = frozenset()
    #: Only jobs of these groups.
    groups: frozenset[GroupId] = frozenset()
    #: The statuses that jobs entered; no status matches a stop order or a hold.
    statuses: frozenset[Status] = frozenset()
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None = None

    def matches(self, saved: FeedEntry) -> bool:
        """Whether the reader wants this entry and may see it."""
        return (
            (not self.statuses or (saved.entry.is_status and saved.entry.status in self.statuses))
            and (not self.queues or saved.queue in self.queues)
            and (not self.groups or saved.group_id in self.groups)
            and (self.visibility is None or self.visibility.has(saved.owner))
            and (not self.jobs or self._names(saved.entry.job_id))
        )

    def _names(self, job_id: JobId) -> bool:
        child = parent_of(job_id)
        return job_id in self.jobs or (child is not None and child[0] in self.jobs)


class FeedPage(Struct, frozen=True, kw_only=True):
    """A part of the feed."""

    #: By number, ascending.
    entries: tuple[FeedEntry, ...]
    #: The number through which the feed was read: the next page begins after it.
    next: int
    #: Whether entries between the requested number and the first one of this page may be missing.
    gap: bool


class FeedEnds(Struct, frozen=True, kw_only=True):
    """Where the stored feed begins and ends."""

    #: The highest number that was ever used; 0 before the first entry.
    last: int
    #: The highest number that was ever deleted; 0: none. Entries up to it may be missing.
    forgotten_through: int


class HistoryStore(Protocol):
    """Reads of the history. Every method raises StoreFailed if the database reports an error."""

    async def history(self, job_id: JobId) -> tuple[HistoryEntry, ...]:
        """The history of a job, oldest first."""

    async def feed(self, after: int, wanted: FeedFilter, *, limit: int, scan: int) -> FeedPage:
        """The first `limit` entries with a number above `after` that match `wanted`. At most `scan` are examined.

        A page without entries is no end: the next one begins after `FeedPage.next`. `gap` is also set for an `after`
        above the highest number, which is not one of this store: then `next` is the highest number.
        """

    async def feed_ends(self) -> FeedEnds:
        """The highest numbers of the feed that were used and deleted."""
