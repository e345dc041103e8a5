"""Groups: jobs that were submitted together, counted by status, with limits for all of them. Pure. Decision 0094.

A job names its group by the tag `batchq:group`; the first job of a group creates it. The children of an array are jobs
of its group, the array itself is not. An array that ends before it has created its children counts as that many FAILED
jobs. A job that repeats a finished job of its group replaces it, and with an array its children.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.ids import GroupId, JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, unspawned
from batchq.domain.lifecycle.stopping import failed_by_order
from batchq.domain.scheduling.fairshare import Change
from batchq.domain.status_counts import StatusCounts, counts_after

_OCCUPYING = ACTIVE | {Status.RUNNABLE}


class Group(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a group, updated by each unit of work that changes one of its jobs."""

    #: As the first job of the group requests them.
    terms: GroupTerms
    #: Of the first job.
    owner: Owner
    #: `Job.sequence` of the first job.
    sequence: int
    created_at: datetime
    #: How many jobs have each status. An array counts as its children that exist, and once it has ended as all of them.
    counts: StatusCounts = ()
    #: How many of the FAILED jobs were cancelled or terminated.
    stopped: int = 0
    #: The children that arrays of the group have still to create.
    uncreated: int = 0
    #: The sum of the run times of the jobs that succeeded.
    run_time: timedelta = timedelta()
    #: How many jobs have ended whose last attempt's CPU time was measured, and the sum of these CPU times.
    measured: int = 0
    cpu_seconds: float = 0.0
    #: The highest peak memory of a job's last attempt, in bytes. Replaced jobs count too. None: not measured.
    peak_memory: int | None = None
    #: When the last job of the group ended; None: some are unfinished.
    ended_at: datetime | None = None

    @property
    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return self.uncreated + sum(count for status, count in self.counts if status not in FINISHED)

    @property
    def submitted(self) -> int:
        """How many jobs the group has."""
        return self.uncreated + sum(count for _, count in self.counts)

    @property
    def size(self) -> int:
        """How many jobs the group has or will have."""
        return max(self.terms.size or 0, self.submitted)

    @property
    def failed(self) -> int:
        """How many jobs failed by themselves."""
        return dict(self.counts).get(Status.FAILED, 0) - self.stopped

    @property
    def waiting(self) -> int:
        """How many jobs have not started."""
        return self.uncreated + sum(count for status, count in self.counts if status in QUEUED)

    @property
    def active(self) -> int:
        """How many jobs are STARTING or RUNNING."""
        return sum(count for status, count in self.counts if status in ACTIVE)

    @property
    def succeeded(self) -> int:
        """How many jobs SUCCEEDED."""
        return dict(self.counts).get(Status.SUCCEEDED, 0)

    @property
    def free_places(self) -> int | None:
        """How many more jobs may become RUNNABLE; None: without limit."""
        if self.terms.max_running is None:
            return None
        return max(0, self.terms.max_running - sum(count for status, count in self.counts if status in _OCCUPYING))

    @property
    def is_failing(self) -> bool:
        """Whether so many jobs failed that the others are cancelled."""
        return self.terms.max_failed is not None and self.failed >= self.terms.max_failed

    @property
    def cancel_reason(self) -> str:
        """The reason of the cancellation by `max_failed`."""
        most = self.terms.max_failed
        return f"{most} {'job' if most == 1 else 'jobs'} of group {self.terms.name} failed, its limit of failed jobs"


class GroupChanges(Struct, kw_only=True):
    """What a unit of work decides about groups."""

    #: Whether a job of a group was inserted or changed.
    has_members: bool = False
    #: The terms of the groups that new jobs create.
    created: dict[GroupId, GroupTerms] = field(default_factory=dict)
    #: The groups whose jobs changed, as they will be saved.
    changed: dict[GroupId, Group] = field(default_factory=dict)
    #: Groups with jobs that may take a free place.
    due: set[GroupId] = field(default_factory=set)
    #: How many places of each group with a limit were free after the unit of work had filled them.
    unfilled: dict[GroupId, int] = field(default_factory=dict)
    #: Jobs whose dependencies are met, and that wait for a place in their group.
    gated: set[JobId] = field(default_factory=set)

    def create(self, terms: GroupTerms) -> GroupTerms:
        """The limits of a new group: those of its first job in the unit of work."""
        return self.created.setdefault(terms.id, terms)

    def put(self, group: Group) -> None:
        self.changed[group.terms.id] = group

    def gate(self, job_id: JobId, group_id: GroupId) -> None:
        """Let a job whose dependencies are met wait for a free place in its group."""
        self.due.add(group_id)
        self.gated.add(job_id)

    def record_unfilled(self, group_id: GroupId, places: int) -> None:
        """Record how many places of a group with a limit are left free."""
        self.unfilled[group_id] = places

    def request_release(self, group_id: GroupId) -> None:
        """Let the next unit of work fill the free places of the group."""
        self.due.add(group_id)

    def begin_release(self) -> None:
        self.due.clear()

    def end_release(self) -> None:
        self.gated.clear()


def new_group(job: Job) -> Group:
    """The group that its first job creates."""
    assert job.spec.group is not None, f"{job.id} is in no group"
    return Group(terms=job.spec.group, owner=job.spec.owner, sequence=job.sequence, created_at=job.created_at)


def is_gated(job: Job) -> bool:
    """Whether the job becomes RUNNABLE only if its group has a free place."""
    return job.spec.group is not None and job.spec.group.max_running is not None and not is_parent(job)


def group_after(group: Group, changes: Iterable[Change], now: datetime, *, replaced: Iterable[Job] = ()) -> Group:
    """The group after these changes of its jobs, and of arrays whose children are its jobs.

    It ends with its last job, and continues with a new one. `replaced`: the finished jobs that new jobs replace, with
    the children of arrays.
    """
    pairs = (*changes, *((job, None) for job in replaced))
    counts, stopped, uncreated, run_time = group.counts, group.stopped, group.uncreated, group.run_time
    for pair in pairs:
        before, after = map(_member, pair)
        statuses = before.status if before else None, after.status if after else None
        missing = _never_created(pair[1]) - _never_created(pair[0])
        counts = counts_after(counts, [(*statuses, 1), (None, Status.FAILED, missing)])
        stopped += _stopped(pair[1]) - _stopped(pair[0])
        uncreated += _uncreated(pair[1]) - _uncreated(pair[0])
        run_time += _run_time(after) - _run_time(before)
    changed = replace(group, counts=counts, stopped=stopped, uncreated=uncreated, run_time=run_time)
    changed = _with_use(changed, pairs)
    is_over = changed.unfinished == 0 and changed.submitted >= (group.terms.size or 0)
    return replace(changed, ended_at=(group.ended_at or now) if is_over else None)


def _with_use(group: Group, pairs: Iterable[tuple[Job | None, Job | None]]) -> Group:
    """The group with what its ended jobs used."""
    measured, cpu_seconds, peaks = group.measured, group.cpu_seconds, [group.peak_memory]
    for before, after in pairs:
        for job, sign in ((before, -1), (after, 1)):
            use = None if job is None or job.status not in FINISHED or not job.attempts else job.attempts[-1].use
            if use is not None and use.cpu_seconds is not None:
                measured, cpu_seconds = measured + sign, cpu_seconds + sign * use.cpu_seconds
            peaks.append(None if use is None else use.peak_memory)
    peak = max((peak for peak in peaks if peak is not None), default=None)
    return replace(group, measured=measured, cpu_seconds=cpu_seconds if measured else 0.0, peak_memory=peak)


def _member(job: Job | None) -> Job | None:
    """The job if it counts for itself."""
    return None if job is None or is_parent(job) else job


def _stopped(job: Job | None) -> int:
    """How many of the jobs that this one counts for were cancelled or terminated."""
    if job is None or not failed_by_order(job):
        return 0
    return _never_created(job) if is_parent(job) else 1


def _uncreated(job: Job | None) -> int:
    """The children that an unfinished array has still to create."""
    return 0 if job is None or job.status in FINISHED else _missing_children(job)


def _never_created(job: Job | None) -> int:
    """The children that an array had not created when it ended: its dependencies failed, or it was stopped before."""
    return 0 if job is None or job.status not in FINISHED else _missing_children(job)


def _missing_children(job: Job) -> int:
    """The children of an array that do not exist."""
    return unspawned(job) if is_parent(job) else 0


def _run_time(job: Job | None) -> timedelta:
    """The run time of the last attempt of a job that SUCCEEDED; otherwise 0."""
    if job is None or job.status is not Status.SUCCEEDED or job.started_at is None or job.stopped_at is None:
        return timedelta()
    return max(job.stopped_at - job.started_at, timedelta())
