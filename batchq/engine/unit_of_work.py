"""What one unit reads, changes and wants. Saved at once or not at all; until then nothing has happened outside."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import DONE, AuditRecord, act
from batchq.domain.bulk_stop import BulkStop, Candidates, JobOutcome, Progress
from batchq.domain.ids import JobId, QueueName, Tag, child_id, parent_of, stream_name
from batchq.domain.job import ACTIVE, FINISHED, QUEUED, Job, Status
from batchq.domain.lifecycle.array_view import apply_order
from batchq.domain.lifecycle.arrays import Moved, at_work, count, is_parent, size
from batchq.domain.lifecycle.containers import came_to_run
from batchq.domain.lifecycle.damage import fail, is_damaged
from batchq.domain.lifecycle.status import Outcome
from batchq.domain.lifecycle.transitions import step
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.fairshare import Change, ShareKey
from batchq.engine.messages import BulkStopRequest, Message
from batchq.ports.jobs import Changes, Moment, Restoration, StatusChanged, SubmissionKey
from batchq.ports.logs import LogStream

MAX_DEPENDENTS = 500  # stored dependents of ended jobs that one unit of work judges
MAX_ENDED = 50  # ended jobs whose dependents are read at once: as many of each as a page has are put in order


class PendingDependents(Struct, frozen=True, kw_only=True):
    """Jobs that have ended, or arrays that have children now, and whose stored dependents are still to be judged."""

    ended: tuple[JobId, ...]
    #: The order of the last dependent that was judged.
    after: int = -1


def pending_dependents(ended: Sequence[JobId]) -> Iterator[PendingDependents]:
    for first in range(0, len(ended), MAX_ENDED):
        yield PendingDependents(ended=tuple(ended[first : first + MAX_ENDED]))


class Committed(Struct, frozen=True, kw_only=True):
    """A unit of work whose changes are saved."""

    unit: "UnitOfWork"
    #: The changed jobs, at the versions that they have in the store. The version of a finished job is not updated.
    jobs: Sequence[Job]
    #: Each changed job as it was stored before the unit of work, and as the unit of work leaves it.
    changes: Sequence[Change]
    #: The changes of a status, in their order.
    transitions: Sequence[StatusChanged]


class StagedState(Protocol):
    """Memory beside the store. What a unit of work decides changes it only when the unit of work is saved."""

    def on_committed(self, committed: Committed) -> None:
        """Apply what the saved unit has changed. Called once for each saved unit, before its effects."""


class UnitOfWork:
    """A working copy over the active jobs. Jobs that are not active must be loaded before an event is applied."""

    def __init__(self, *, now: datetime, active: Mapping[JobId, Job]) -> None:
        self.now = now
        #: Each with the job as the event left it; None for a container of an unknown job.
        self.effects: list[tuple[do.Effect, Job | None]] = []
        #: Whether more resources may be free; whether more jobs are searched; whether placement stopped at a limit.
        self.place = self.search = self.more = False
        #: By queue, the first `Job.order` of the jobs that began or ceased to wait in it.
        self.changed_queues: dict[QueueName, int] = {}
        #: Messages that the next unit of work handles again.
        self.deferred: list[Message] = []
        self.submitted: dict[SubmissionKey, JobId] = {}
        self.restoration: Restoration | None = None
        self.engine_id: str | None = None
        #: The containers without a job that a survey of restored data found; None: no such survey was handled.
        self.unknown: frozenset[Tag] | None = None
        #: Dependents that are yet to be examined, of earlier units of work and of this one, the oldest first.
        self.unresolved: deque[PendingDependents] = deque()
        #: How many stored dependents this unit of work may still examine.
        self.dependents_left = MAX_DEPENDENTS
        self.sweeps: list[tuple[BulkStop, BulkStopRequest]] = []
        self.progress: list[Progress] = []
        #: By bulk stop, what became of its jobs.
        self.outcomes: dict[int, tuple[JobOutcome, ...]] = {}
        #: The user whose message is being handled; None between messages, and for a message of the server's own.
        self.caller: Caller | None = None
        self.acts: list[AuditRecord] = []
        self._waiting: dict[JobId, dict[JobId, None]] = {}
        self._active = active
        self._read: dict[JobId, Job] = {}
        self._inserted: dict[JobId, Job] = {}
        self._updated: dict[JobId, Job] = {}
        self._history: list[Moment] = []
        self._transitions: list[StatusChanged] = []
        self._streams: list[LogStream] = []
        self._new: list[JobId] = []
        self._changed: list[JobId] = []
        self._children_changed: dict[JobId, list[Moved]] = {}
        self._pairs: list[Change] | None = None

    def load(self, jobs: Iterable[Job]) -> None:
        """Jobs as stored; what this unit already did to them stands. One whose record was damaged fails at once."""
        for job in jobs:
            self._read.setdefault(job.id, job)
            if is_damaged(job) and self.get(job.id) is job:
                self._follow(job, fail(job, self.now))

    def get(self, asked: JobId) -> Job | None:
        return self._inserted.get(asked) or self._updated.get(asked) or self._active.get(asked) or self._read.get(asked)

    def knows(self, job_id: JobId) -> bool:
        return self.get(job_id) is not None

    def touched(self, job_id: JobId) -> bool:
        return job_id in self._inserted or job_id in self._updated

    def insert(self, job: Job, key: SubmissionKey | None) -> None:
        self._inserted[job.id], self._pairs = job, None
        self._index(job)
        self._new.append(job.id)
        self._record_transition(None, job)
        self.audit_job(job)
        if key is not None:
            self.submitted[key] = job.id

    def step(self, job_id: JobId, event: on.Event) -> None:
        """Apply an event. One about a job that nobody knows is pointless, not wrong."""
        job = self.recount(job_id) if job_id in self._children_changed else self.apply_parent_order(job_id)
        if job is not None:
            self._follow(job, step(job, event, self.now))

    def recount(self, parent_id: JobId) -> Job:
        """The array; its children that have moved are counted then, for what is decided of it hangs on that."""
        parent = self.get(parent_id)
        assert parent is not None, f"{parent_id} has children and is not known"
        caller, self.caller = self.caller, None
        counted = self._follow(parent, (count(parent, self._children_changed.pop(parent_id), self.now), ()))
        self.caller = caller
        return counted

    def apply_parent_order(self, job_id: JobId) -> Job | None:
        """The job; a child has heard then what its array was told, for that comes before anything else."""
        job = self.get(job_id)
        parent = None if job is None or job.child is None else self.get(job.child.parent)
        if job is None or parent is None:
            return job
        caller, self.caller = self.caller, None  # who asks something of it has not ordered this
        heard = self._follow(job, apply_order(job, parent, self.now))
        self.caller = caller
        return heard

    def _follow(self, job: Job, outcome: Outcome) -> Job:
        after, effects = outcome
        self.update(job, after)
        for effect in effects:
            self.effects.append((effect, after))
        return after

    def update(self, before: Job, after: Job) -> None:
        if after is before:
            return
        self._pairs = None
        self._index(after)
        (self._inserted if after.id in self._inserted else self._updated)[after.id] = after
        for tag in came_to_run(before, after):
            name = stream_name(after.spec.definition.name, tag)
            self._streams.append(LogStream(name=name, tag=tag, created_at=self.now, owner=after.spec.owner))
        if after.status is not before.status:
            self._record_transition(before, after)
        if before.family is None and after.family is not None:
            self._changed.append(after.id)
        self.audit_job(after)

    def audit(self, about: str, outcome: str = DONE) -> None:
        """The act of whoever asked for what is being read, if anybody did."""
        if self.caller is not None:
            self.acts.append(act(self.caller, at=self.now, about=about, outcome=outcome))

    def audit_job(self, job: Job, job_id: JobId | None = None) -> None:
        """The same about a job; or about a child of it that is not spawned yet."""
        if self.caller is not None:
            asked = act(self.caller, at=self.now, about="")
            self.acts.append(asked.about_job(job_id or job.id, job.spec.owner, job.status))

    def active(self) -> dict[JobId, Job]:
        """The jobs that hold room, as this unit of work leaves them."""
        changed = self._updated | self._inserted
        kept = {job_id: job for job_id, job in self._active.items() if job_id not in changed}
        return kept | {job_id: job for job_id, job in changed.items() if job.status in ACTIVE}

    def pairs(self) -> Sequence[Change]:
        """The jobs that this unit of work has changed so far, as they are stored and as it leaves them."""
        if self._pairs is None:
            self._pairs = [Change(None, job) for job in self._inserted.values()]
            for job_id, job in self._updated.items():
                self._pairs.append(Change(self._active.get(job_id) or self._read[job_id], job))
        return self._pairs

    def waiting_for(self, ids: Iterable[JobId]) -> list[JobId]:
        """Jobs that this unit of work has changed, and that depend on one of these."""
        return [it for job_id in ids for it in self._waiting.get(job_id, ())]

    def _index(self, job: Job) -> None:
        """By what it waits for: never all that a unit has changed is looked through for the dependents of one."""
        if job.spec.depends_on and waits(job):
            for on_id in waits_for(job):
                self._waiting.setdefault(on_id, {})[job.id] = None

    @property
    def unsettled(self) -> bool:
        """Whether something has happened that others hang on, and this unit of work may look at them."""
        left = self.unresolved and self.dependents_left > 0
        return bool(self._children_changed or self._new or self._changed or left)

    def take_new(self) -> list[JobId]:
        """The jobs that are new since this was last asked."""
        new, self._new = self._new, []
        return new

    def take_changed(self) -> list[JobId]:
        """The jobs that, since this was last asked, came to their end or (arrays) to have children."""
        changed, self._changed = self._changed, []
        return changed

    @property
    def children_changed(self) -> list[JobId]:
        """The arrays of which children have moved since they were counted."""
        return list(self._children_changed)

    def parents(self) -> list[Job]:
        """The array parents that this unit of work has changed."""
        return [job for job in (*self._inserted.values(), *self._updated.values()) if is_parent(job)]

    def opened(self) -> Iterator[ShareKey]:
        """The shares of the jobs that are new in this unit of work."""
        for job in self._inserted.values():
            if job.spec.share_identifier is not None:
                yield ShareKey(job.spec.queue, job.spec.share_identifier)

    def changes(self, *, forget_before: datetime) -> Changes:
        return Changes(
            inserted=tuple(self._inserted.values()),
            updated=tuple(self._updated.values()),
            history=tuple(self._history),
            submissions=tuple([(key, job_id, self.now) for key, job_id in self.submitted.items()]),
            streams=tuple(self._streams),
            restoration=self.restoration,
            engine_id=self.engine_id,
            sweeps=tuple([(sweep, message.selection) for sweep, message in self.sweeps]),
            candidates=self._candidates(),
            progress=tuple(self.progress),
            acts=tuple(self.acts),
            forget_before=forget_before if self.submitted else None,
        )

    def _candidates(self) -> tuple[tuple[int, Candidates], ...]:
        """With each the jobs that changed since they were read, in the units of work before and in this one."""
        own = {job.order for jobs in (self._inserted, self._updated) for job in jobs.values()} if self.sweeps else ()
        return tuple(
            (sweep.number, replace(message.candidates, changed=frozenset(message.candidates.changed).union(own)))
            for sweep, message in self.sweeps
            if message.candidates is not None
        )

    def committed(self) -> Committed:
        """Call it when the unit of work is saved, and before any StagedState changes."""
        updated = [
            job if job.status in FINISHED else replace(job, version=job.version + 1) for job in self._updated.values()
        ]
        return Committed(
            unit=self,
            jobs=(*self._inserted.values(), *updated),
            changes=self.pairs(),
            transitions=self._transitions,
        )

    def _record_transition(self, before: Job | None, after: Job) -> None:
        attempt = after.attempt.number if after.attempt else None
        at = _came(before, after) or self.now
        self._history.append(
            Moment(job_id=after.id, at=at, status=after.status, reason=after.status_reason, attempt=attempt)
        )
        self._transitions.append(StatusChanged(before=before.status if before else None, job=after))
        if after.status in FINISHED:
            self._changed.append(after.id)
        if after.child is not None:
            moved = Moved(index=after.child.index, before=before.status if before else None, after=after.status)
            self._children_changed.setdefault(after.child.parent, []).append(moved)
        if before is not None and before.status in ACTIVE:
            self.place = self.place or after.status not in ACTIVE
        elif Status.RUNNABLE in (after.status, before and before.status):
            queue, order = after.spec.queue, after.order
            self.changed_queues[queue] = min(order, self.changed_queues.get(queue, order))


def _came(before: Job | None, after: Job) -> datetime | None:
    """When one that waited came to its end: that may have been decided before it is written. None of all others."""
    waited = before is not None and before.status in QUEUED
    return after.stopped_at if waited and after.status in FINISHED else None


def comes(unit: UnitOfWork, job_id: JobId) -> bool:
    """Whether it is a child that its array is spawning."""
    parent = array_to_spawn(unit, job_id)
    return parent is not None and at_work(parent)


def array_to_spawn(unit: UnitOfWork, job_id: JobId) -> Job | None:
    """The array that has this child and has not spawned it yet."""
    child = parent_of(job_id)
    parent = None if child is None else unit.get(child[0])
    if child is None or parent is None or unit.knows(job_id) or not is_parent(parent) or parent.status in FINISHED:
        return None
    return parent if child[1] < size(parent) and job_id == child_id(*child) else None
