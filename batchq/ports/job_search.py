"""The port of the store for the job search: all jobs that match a query, newest first, a page at a time.

The work for a page is bounded. A page that reaches the bound has the jobs that were found by then, and the position
where the next page continues, so a caller always learns how far the search has come.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from batchq.domain.groups import Group
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.ports.groups import GroupQuery


class SearchOrder(StrEnum):
    """The order of the found jobs. Both are descending."""

    #: By submission (`Job.sequence`), the last submitted job first.
    CREATED = "CREATED"
    #: By end, the last ended job first. Only finished jobs match.
    ENDED = "ENDED"


class SearchPosition(NamedTuple):
    """The sort key of a job in a search. A later page has only jobs with smaller keys."""

    #: When the job ended, in microseconds since the epoch; 0 in a search by submission.
    at: int
    #: `Job.sequence`.
    sequence: int


class PageQuery(Struct, frozen=True, kw_only=True):
    """A query for one page of the jobs of a selection."""

    selection: JobSelection = JobSelection()
    order_by: SearchOrder = SearchOrder.CREATED
    #: The most jobs on the page, at least 1.
    limit: int
    #: Only jobs with a smaller sort key; None: from the newest.
    before: SearchPosition | None = None
    #: By `Job.sequence`, when each array ended that an order has ended: a PENDING one counts as FAILED. Decision 0027.
    ended_arrays: Mapping[int, datetime] = field(default_factory=dict)
    #: `Job.sequence` of each array with a pending order: its queued children count as FAILED. Decision 0027.
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


class JobCount(Struct, frozen=True, kw_only=True):
    """How many jobs match a query, as far as they were counted."""

    jobs: int
    #: False: more jobs may match.
    is_exact: bool


class ListFactsQuery(Struct, frozen=True, kw_only=True):
    """What a list of jobs shows beside the jobs of its page."""

    #: Queries whose jobs are counted.
    counts: Sequence[PageQuery] = ()
    #: None: no groups.
    groups: GroupQuery | None = None
    #: Jobs that other jobs may repeat.
    repeated: Sequence[JobId] = ()


class ListFacts(Struct, frozen=True, kw_only=True):
    """The facts that a ListFactsQuery asks for."""

    #: In the order of the queries.
    counts: Sequence[JobCount]
    groups: Sequence[Group]
    #: As of `JobStore.reruns`.
    reruns: Mapping[JobId, JobId]


class JobSearch(Protocol):
    """The search for jobs."""

    async def search(self, query: PageQuery) -> JobPage:
        """The next page. Raises StoreFailed; Unavailable if the query needs more steps than one page may take."""

    async def counts(self, queries: Sequence[PageQuery]) -> tuple[JobCount, ...]:
        """How many jobs match each query, up to its limit. Reads fewer rows than a page for each. Raises as `search`.

        All queries are counted in one transaction.
        """

    async def list_facts(self, query: ListFactsQuery) -> ListFacts:
        """The facts, read in one transaction: a transaction costs more than most of them. Raises as `search`."""

    async def list(self, query: PageQuery) -> JobPage:
        """As `search`, for a query with few rows to read: without a limit of steps, and searches do not delay it."""
