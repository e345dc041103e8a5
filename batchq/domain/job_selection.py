"""Which jobs a request selects: one value for searches, lists, previews and bulk stops. Pure. Decision 0087."""

from msgspec import Struct

from batchq.domain.access.accounts import Visibility
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status
from batchq.domain.ids import GroupId, JobId, node_of, parent_of

UNFINISHED = frozenset(Status) - FINISHED
MAX_PATTERNS = 100  # names, definitions or exit codes: each is compared with every row of a search


class JobSelection(Struct, frozen=True, kw_only=True):
    """The jobs that match every member that is not None. The values of one member are alternatives.

    An array is one job. Its children match for themselves if `children` is true, or the selection names them.
    """

    #: Ids of jobs and of children. An order to stop jobs also accepts `JOB#PART`: a node, or a container by its index.
    ids: tuple[JobId, ...] | None = None
    #: The first characters of a job's id.
    id_prefix: str | None = None
    #: The array whose children are selected; its own row does not match.
    parent: JobId | None = None
    #: Groups of jobs. A finished job that another job of its group repeats does not match.
    groups: frozenset[GroupId] | None = None
    #: Whether only jobs of no group match.
    ungrouped: bool = False
    #: Job names in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    names: frozenset[str] | None = None
    #: Job definitions: `name` (all revisions), `prefix*` or `name:revision`.
    definitions: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    statuses: frozenset[Status] | None = None
    #: Names of the users that own the jobs.
    users: frozenset[str] | None = None
    #: Accounts that own the jobs, with all accounts below them.
    accounts: frozenset[str] | None = None
    #: Share identifiers, in their case.
    shares: frozenset[str] | None = None
    #: Names of the compute environments on which the jobs run now: only STARTING and RUNNING jobs match.
    environments: frozenset[str] | None = None
    #: Exit codes of the latest attempt.
    exit_codes: frozenset[int] | None = None
    #: Milliseconds since 1970, exclusive, as are the other times.
    created_after: int | None = None
    created_before: int | None = None
    #: With a time of the end only finished jobs match.
    ended_after: int | None = None
    ended_before: int | None = None
    #: Whether only queued jobs that are held or paused match.
    held: bool = False
    #: True: only FAILED jobs match that were cancelled or terminated; False: only other FAILED jobs; None: any job.
    stopped: bool | None = None
    #: Whether the children of arrays match for themselves.
    children: bool = False
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None = None

    @property
    def possible_statuses(self) -> frozenset[Status]:
        """The statuses that can match all members."""
        possible = frozenset(Status) if self.statuses is None else self.statuses
        if self.held:
            possible &= QUEUED
        if self.environments is not None:
            possible &= ACTIVE
        if self.stopped is not None:
            possible &= {Status.FAILED}
        return possible if self.ended_after is None and self.ended_before is None else possible & FINISHED

    @property
    def includes_children(self) -> bool:
        """Whether children of arrays can be rows of a search."""
        return self.children or self.parent is not None or self.ids is not None or ":" in (self.id_prefix or "")

    @property
    def compares_children(self) -> bool:
        """Whether an order to stop jobs compares each child of an array with the selection, and not the array.

        With a condition that a child may meet without its array: `children`, statuses that exclude some unfinished
        ones, and exit codes.
        """
        return self.children or self.exit_codes is not None or not self.possible_statuses >= UNFINISHED

    @property
    def separates_children(self) -> bool:
        """Whether an order to stop jobs may select some children of an array without the others."""
        names_children = any(parent_of(node_of(job_id)[0]) is not None for job_id in self.ids or ())
        return self.compares_children or names_children or (self.includes_children and self.ids is None)
