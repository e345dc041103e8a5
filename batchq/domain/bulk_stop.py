"""One order to stop many jobs: what each of them is told, and what becomes of it. Pure.

Which jobs are meant is decided once, and they are told a few at a time; until then none of them may start.
"""

from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import Visibility
from batchq.domain.access.audit import AuditRecord
from batchq.domain.ids import JobId, parent_of
from batchq.domain.job import ACTIVE, FINISHED, QUEUED, Job, Status
from batchq.domain.lifecycle.arrays import size


class Kind(StrEnum):
    CANCEL = "CANCEL"
    TERMINATE = "TERMINATE"


class Outcome(StrEnum):
    """What becomes of a job that was named. STOPPING: over when its containers, or its children, are.

    NOT_RETRIED: a cancel does not reach what runs, but it has no other attempt. Below it, nothing is done.
    """

    CANCELLED = "CANCELLED"
    TERMINATED = "TERMINATED"
    STOPPING = "STOPPING"
    NOT_RETRIED = "NOT_RETRIED"
    ALREADY_FINISHED = "ALREADY_FINISHED"
    NOT_MATCHED = "NOT_MATCHED"
    NOT_FOUND = "NOT_FOUND"


class BulkStopOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The order that each of the selected jobs receives."""

    kind: Kind
    #: The caller's reason.
    reason: str
    #: The time between the stop signal and the kill; None: each job's own.
    grace: timedelta | None = None
    #: The stop signal; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
    #: The audit record of the request; None: the caller is not known.
    act: AuditRecord | None = None


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which of the jobs that are not over are meant: those of which everything holds that is said here. None: any.

    `members` are jobs and nodes of gangs; an array stands for its children too, where they are looked at. `names`: any
    case, a trailing `*` is any rest. `accounts` has those below it, too. `reach`: what is there for who orders it.

    An array whose children live is meant as a whole, and they are not looked at; but where a status or an environment
    is asked for they are, each for itself, and it is not.
    """

    members: tuple[tuple[JobId, int | None], ...] | None = None
    names: frozenset[str] | None = None
    users: frozenset[str] | None = None
    accounts: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    statuses: frozenset[Status] | None = None
    environments: frozenset[str] | None = None
    reach: Visibility | None = None

    @property
    def by_child(self) -> bool:
        """Whether each child of an array is looked at for itself."""
        return self.statuses is not None or self.environments is not None

    @property
    def looks_at_children(self) -> bool:
        """Whether it may mean some children of an array without the others."""
        return self.by_child or any(parent_of(job_id) is not None for job_id, _ in self.members or ())


Target = tuple[int, int]
"""The order of a job, and the number of the node of it that is meant: WHOLE for the job as a whole."""

WHOLE = -1


class Candidates(Struct, frozen=True, kw_only=True):
    """The jobs that a selection meant at an earlier read."""

    #: Ascending, each once.
    places: tuple[Target, ...]
    #: The orders of all jobs that were inserted or updated since that read began, and perhaps of others.
    changed: AbstractSet[int]


class BulkStop(Struct, frozen=True, kw_only=True):
    """An order that is being carried out."""

    number: int
    order: BulkStopOrder


class StopTarget(Struct, frozen=True, kw_only=True):
    """A job that an order means, or that node of it."""

    job: Job
    node: int | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far an order was carried out: down to this job, or node, the last first. `over`: none is left."""

    sweep: int
    order: int
    node: int | None
    over: bool


class Preview(Struct, frozen=True, kw_only=True):
    """A job that an order would mean, in so far as that tells what would become of it. `place`: its order, and node."""

    place: tuple[int, int | None]
    job_id: JobId
    name: str
    status: Status
    has_children: bool


class JobOutcome(Struct, frozen=True, kw_only=True):
    """A job, what it was when it was told, and what becomes of it. `status` None: there is no such job."""

    job_id: JobId
    name: str = ""
    status: Status | None = None
    outcome: Outcome
    #: What becomes of the children of an array, or since when the job is stopping already; else empty.
    note: str = ""


def request(order: BulkStopOrder, node: int | None) -> on.CancelRequested | on.TerminateRequested:
    """What one job is told; `node` where only that one of a gang is meant."""
    match order.kind:
        case Kind.CANCEL:
            return on.CancelRequested(reason=order.reason, node=node)
        case Kind.TERMINATE:
            return on.TerminateRequested(reason=order.reason, grace=order.grace, node=node, signal=order.signal)


def has_children(job: Job) -> bool:
    """Whether it is an array whose children live: they are told, and it is over when they are."""
    return job.family is not None and job.status is Status.PENDING


def note(kind: Kind, job: Job) -> str:
    """What the outcome of an order to this job does not say."""
    since = job.stop.ordered_at if job.stop is not None else job.family and job.family.ordered_at
    if job.status not in FINISHED and since is not None and (job.stop is not None or kind is Kind.CANCEL):
        return f"already stopping since {since:%Y-%m-%dT%H:%M:%SZ}"
    if job.family is None or not has_children(job):
        return ""
    counts = dict(job.family.counts)
    active = sum(counts.get(status, 0) for status in ACTIVE)
    waiting = size(job) - active - sum(counts.get(status, 0) for status in FINISHED)
    if kind is Kind.CANCEL:
        return f"of its children {waiting} cancelled, {active} running on, not retried"
    return f"of its children {waiting} terminated, {active} stopping"


def outcome(kind: Kind, status: Status, *, has_children: bool) -> Outcome:
    """What becomes of a job that is told in this status."""
    if status in FINISHED:
        return Outcome.ALREADY_FINISHED
    if has_children:
        return Outcome.STOPPING
    match kind:
        case Kind.CANCEL:
            return Outcome.CANCELLED if status in QUEUED else Outcome.NOT_RETRIED
        case Kind.TERMINATE:
            return Outcome.TERMINATED if status in QUEUED else Outcome.STOPPING
