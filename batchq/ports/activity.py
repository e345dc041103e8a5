"""The port of the store for buckets of activity."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Visibility
from batchq.domain.activity import ActivityBucket, ActivityKey, ActivitySample, EndedAs
from batchq.domain.catalog import EnvironmentName
from batchq.domain.ids import QueueName


class ActivityEvents(Struct, frozen=True, kw_only=True):
    """Equal events in one bucket of the smallest width: jobs that ended, or attempts that began."""

    key: ActivityKey
    #: A time in the bucket.
    at: datetime
    #: How the jobs ended; None: attempts began.
    outcome: EndedAs | None
    #: The index of the range of WAIT_BOUNDS in which the waits of the attempts are; None: jobs ended.
    wait: int | None
    count: int


class ActivityPage(Struct, frozen=True, kw_only=True):
    """Events of a part of the history."""

    events: tuple[ActivityEvents, ...]
    #: The number of the history through which it was read.
    through: int
    #: Whether the history has later entries.
    more: bool


class ActivityQuery(Struct, frozen=True, kw_only=True):
    """Which buckets to read."""

    width: timedelta
    #: The beginnings of the first and the last bucket, both included.
    first: datetime
    last: datetime
    queues: frozenset[QueueName]
    #: The compute environments whose vCPUs are the capacity.
    environments: frozenset[EnvironmentName]
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None


class ActivityStore(Protocol):
    """Storage of buckets. Every method may raise StoreFailed."""

    async def activity_events(self, after: int | None) -> ActivityPage:
        """The events of the next entries of the history. Reads a bounded number of entries.

        `after`: the number through which the history was read; None: that of the last `record_activity`.
        """

    async def record_activity(self, sample: ActivitySample, events: Sequence[ActivityEvents], through: int) -> None:
        """Add a sample and events to their buckets, and delete buckets that are too old, in one transaction.

        `through`: as in the last page of events. The number of rows of a bucket is bounded: the jobs of further users
        are added up by queue, and only callers who see all jobs see them.
        """

    async def environment_activity(self, query: ActivityQuery) -> Mapping[EnvironmentName, tuple[ActivityBucket, ...]]:
        """The buckets of the environments of a query by time: active jobs of all owners, and the limit of vCPUs.

        Its queues and its visibility are not read. Environments without buckets are left out.
        """

    async def activity(self, query: ActivityQuery) -> tuple[ActivityBucket, ...]:
        """The buckets by time. Those in which no server ran are left out."""
