"""The order of a list of jobs by a column of it. Only the newest MAX_SORTED jobs that match are sorted. Pure.

The next page continues behind the last job of a page, by its value and its order of submission, so that no job is
shown twice. All pages have the jobs that existed when the first one was shown, and run times are those of that moment.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from batchq.domain.enums import Status
from batchq.domain.job import Job
from batchq.domain.times import from_microseconds, microseconds

MAX_SORTED = 1000  # jobs

_STATUSES = {status: number for number, status in enumerate(Status)}
Value = str | float


class SortColumn(StrEnum):
    """A column by which jobs are sorted."""

    NAME = "name"
    STATE = "state"
    QUEUE = "queue"
    OWNER = "owner"
    TOOK = "took"
    CREATED = "created"


class JobSort(Struct, frozen=True, kw_only=True):
    """A column and a direction."""

    column: SortColumn
    descending: bool

    @classmethod
    def parse(cls, text: str) -> "JobSort":
        """As `name`, or descending as `-name`."""
        return cls(column=SortColumn(text.removeprefix("-")), descending=text.startswith("-"))

    def __str__(self) -> str:
        return f"-{self.column}" if self.descending else self.column

    def value(self, job: Job, now: datetime) -> Value:
        """What is compared."""
        match self.column:
            case SortColumn.NAME:
                return job.spec.name.casefold()
            case SortColumn.STATE:
                return _STATUSES[job.status]
            case SortColumn.QUEUE:
                return job.spec.queue
            case SortColumn.OWNER:
                return job.spec.owner.user
            case SortColumn.TOOK:
                return -1 if job.started_at is None else ((job.stopped_at or now) - job.started_at).total_seconds()
            case SortColumn.CREATED:
                return job.sequence


class SortPosition(Struct, frozen=True, kw_only=True):
    """Where a page of sorted jobs begins."""

    #: When the first page was shown.
    at: datetime
    #: The last job of the page before this one: its value and its order. None: this is the first page.
    after: tuple[Value, int] | None = None

    def text(self) -> str:
        """As it is stored in a page token."""
        return json.dumps([microseconds(self.at), self.after])

    @classmethod
    def parse(cls, text: str) -> "SortPosition":
        """The position of a `text`."""
        at, (value, order) = json.loads(text)
        return cls(at=from_microseconds(at), after=(value, order))


def sorted_page(
    jobs: Iterable[Job], sort: JobSort, begin: SortPosition, limit: int
) -> tuple[Sequence[Job], SortPosition | None]:
    """The jobs of a page, and where the next one begins; None: it is the last one."""
    keys = ((sort.value(job, begin.at), job.sequence, job) for job in jobs)
    keyed = sorted(keys, key=lambda key: key[:2], reverse=sort.descending)
    if begin.after is not None:
        last = begin.after
        keyed = [key for key in keyed if (key[:2] < last if sort.descending else key[:2] > last)]
    page = keyed[:limit]
    is_last = len(keyed) <= limit
    return [job for _, _, job in page], None if is_last else SortPosition(at=begin.at, after=page[-1][:2])
