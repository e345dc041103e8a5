"""The port of the store for the job search: all jobs that match a query, newest first, a page at a time.

The work for a page is bounded. A page that reaches the bound has the jobs that were found by then, and the position
where the next page continues, so a caller always learns how far the search has come.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from batchq.domain.access.accounts import Visibility
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.domain.job import Job


class SearchOrder(StrEnum):
    """The order of the found jobs. Both are descending."""

    #: By submission (`Job.order`), the last submitted job first.
    CREATED = "CREATED"
    #: By end, the last ended job first. Only finished jobs match.
    ENDED = "ENDED"


class SearchPosition(NamedTuple):
    """The sort key of a job in a search. A later page has only jobs with smaller keys."""

    #: When the job ended, in microseconds since the epoch; 0 in a search by submission.
    at: int
    #: `Job.order`.
    order: int


class JobSearchQuery(Struct, frozen=True, kw_only=True):
    """Which jobs to find: those that match every member that is not None. The values of one member are alternatives."""

    queues: frozenset[str] | None = None
    statuses: frozenset[Status] | None = None
    #: Job names in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    names: frozenset[str] | None = None
    #: Job definitions: `name` (all revisions), `prefix*` or `name:revision`.
    definitions: frozenset[str] | None = None
    #: Share identifiers, in their case.
    shares: frozenset[str] | None = None
    #: Names of the users that own the jobs.
    users: frozenset[str] | None = None
    #: Accounts that own the jobs, with all accounts below them.
    accounts: frozenset[str] | None = None
    #: Ids of jobs and of children. Children match although `children` is false.
    ids: frozenset[JobId] | None = None
    #: The first characters of a job's id.
    id_prefix: str | None = None
    #: The array whose children are searched; its own row does not match.
    parent: JobId | None = None
    #: Milliseconds since the epoch, exclusive.
    created_after: int | None = None
    #: Milliseconds since the epoch, exclusive.
    created_before: int | None = None
    #: Milliseconds since the epoch, exclusive. Unfinished jobs do not match.
    ended_after: int | None = None
    #: Milliseconds since the epoch, exclusive. Unfinished jobs do not match.
    ended_before: int | None = None
    #: Names of the compute environments on which the jobs run now: only STARTING and RUNNING jobs match.
    environments: frozenset[str] | None = None
    #: Exit codes of the latest attempt.
    exit_codes: frozenset[int] | None = None
    #: Whether only queued jobs that are held or paused match.
    held: bool = False
    #: Whether the children of arrays match for themselves; else an array is one row.
    children: bool = False
    order_by: SearchOrder = SearchOrder.CREATED
    #: The most jobs on the page, at least 1.
    limit: int
    #: Only jobs with a smaller sort key; None: from the newest.
    before: SearchPosition | None = None
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None = None
    #: When each array that an order has ended did end, by `Job.order`: a PENDING one counts as FAILED. Decision 0027.
    ended_arrays: Mapping[int, datetime] = field(default_factory=dict)
    #: `Job.order` of each array with a pending order: its queued children count as FAILED. Decision 0027.
    stopped_arrays: frozenset[int] = frozenset()


class JobPage(Struct, frozen=True, kw_only=True):
    """One page of a search."""

    #: In the order of the query.
    jobs: tuple[Job, ...]
    #: Where the next page continues; None: no further job matches.
    next: SearchPosition | None
    #: All matching jobs that were created (in a search by end: that ended) after this time are on this page or an
    #: earlier one; None: no further job matches.
    searched_back_to: datetime | None


class JobSearch(Protocol):
    """The search for jobs."""

    async def search(self, query: JobSearchQuery) -> JobPage:
        """The next page. Raises StoreFailed; Unavailable if the query needs more steps than one page may take."""
