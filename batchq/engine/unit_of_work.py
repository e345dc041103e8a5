"""A unit of work: the jobs that it reads, its changes and its effects.

All changes are saved in one transaction or not at all. Effects are carried out only after the commit.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.access.accounts import UserName
from batchq.domain.access.audit import AuditTrail
from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.groups import GroupChanges
from batchq.domain.ids import JobId, SubmissionKey, stream_name
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import Moved, count_children
from batchq.domain.lifecycle.container_rules import newly_started
from batchq.domain.lifecycle.forced_failure import fail_damaged, is_damaged
from batchq.domain.lifecycle.stopping import failed_by_order
from batchq.domain.lifecycle.transitions import step
from batchq.domain.lifecycle.views import apply_order
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.fairshare import Change, ShareKey
from batchq.engine.history_entries import feed_entry, order_entries, status_entry
from batchq.engine.staged_changes import (
    MAX_DEPENDENTS,
    BudgetChanges,
    BulkStopChanges,
    ContainerEngineChanges,
    DependentsQueue,
    MessageOutcomes,
    PlacementRequests,
)
from batchq.ports.history import FeedEntry, HistoryEntry
from batchq.ports.jobs import Changes, StatusChanged
from batchq.ports.logs import LogStream


class Committed(Struct, frozen=True, kw_only=True):
    """A unit of work whose changes are saved."""

    unit: "UnitOfWork"
    #: The changed jobs, at the versions that they have in the store. The version of a finished job is not updated.
    jobs: Sequence[Job]
    #: Each changed job as stored before the unit of work, and as changed by it.
    changes: Collection[Change]
    #: Those changes whose job was RUNNABLE before the unit of work, or is RUNNABLE after it.
    runnable: Sequence[Change] = ()
    #: The status changes in the order in which they happened.
    transitions: Sequence[StatusChanged]
    #: The history entries with their numbers.
    history: Sequence[FeedEntry]


class UnitOfWork:
    """A working copy of the active jobs. Other jobs must be loaded before an event is applied to them."""

    def __init__(self, *, now: datetime, active: Mapping[JobId, Job]) -> None:
        self.now = now
        #: The audit records, and the user whose message is being handled.
        self.audit = AuditTrail(now=now)
        self.messages = MessageOutcomes()
        self.placement = PlacementRequests()
        self.dependents = DependentsQueue(limit=MAX_DEPENDENTS)
        self.bulk_stops = BulkStopChanges()
        self.budgets = BudgetChanges()
        self.groups = GroupChanges()
        self.container_engine = ContainerEngineChanges()
        #: Each effect with the job as changed by the event; None for a container of an unknown job.
        self.effects: list[tuple[do.Effect, Job | None]] = []
        #: Whether a job with a share, or with needs of consumable resources, was inserted or changed.
        self.changes_usage = False
        #: The jobs inserted so far, by the idempotency keys of their submissions.
        self.submitted: dict[SubmissionKey, JobId] = {}
        self._dependents: dict[JobId, dict[JobId, None]] = {}
        self._active = active
        #: The jobs that were loaded, inserted or updated, as changed so far; active jobs only if they were changed.
        self._current: dict[JobId, Job] = {}
        self._changes: dict[JobId, Change] = {}
        #: A view of the jobs changed so far, in the order of their first change, each as stored and as changed.
        self.job_changes: Collection[Change] = self._changes.values()
        self._history: list[HistoryEntry] = []
        self._transitions: list[StatusChanged] = []
        self._streams: list[LogStream] = []
        self._new: list[JobId] = []
        self._changed: list[JobId] = []
        self._children_changed: dict[JobId, list[Moved]] = {}

    def load(self, jobs: Iterable[Job]) -> None:
        """Add jobs as stored. Changes that this unit of work has already made to them remain.

        A job whose record is damaged fails at once.
        """
        for job in jobs:
            if job.id not in self._active:
                self._current.setdefault(job.id, job)
            if is_damaged(job) and self.get(job.id) is job:
                self.update(job, *fail_damaged(job, self.now))

    def get(self, job_id: JobId) -> Job | None:
        """The job as changed by this unit of work so far; None if it is not loaded."""
        return self._current.get(job_id) or self._active.get(job_id)

    def has_loaded(self, job_id: JobId) -> bool:
        return job_id in self._current or job_id in self._active

    def not_loaded(self, ids: Iterable[JobId]) -> set[JobId]:
        """Those of the jobs that must be loaded before an event is applied to them."""
        return set(ids).difference(self._current).difference(self._active)

    def touched(self, job_id: JobId) -> bool:
        """Whether this unit of work has inserted or changed the job."""
        return job_id in self._changes

    def insert(self, job: Job, key: SubmissionKey | None) -> None:
        """Insert a new job. `key`: the idempotency key of its submission, None without one."""
        self._store(Change(None, job))
        self._new.append(job.id)
        self._record_transition(None, job)
        self.audit.record_job(job.id, job.spec.owner, job.status)
        if key is not None:
            self.submitted[key] = job.id

    def step(self, job_id: JobId, event: on.Event) -> None:
        """Apply an event to a job, after pending changes of its children or its array.

        Ignored if the job is not loaded.
        """
        if job_id in self._children_changed:
            self.recount(job_id)
        job = self.get(job_id)
        if job is not None and job.child is not None:
            job = self.apply_parent_order(job_id)
        if job is not None:
            self.update(job, *step(job, event, self.now))

    def recount(self, parent_id: JobId) -> Job:
        """Update the array's counts from the status changes of its children, and return the array.

        Transitions of an array depend on its counts, so they are updated before any other event is applied to it.
        """
        parent = self.get(parent_id)
        assert parent is not None, f"{parent_id} has children and is not loaded"
        with self.audit.as_server():
            moved = self._children_changed.pop(parent_id)
            return self.update(parent, count_children(parent, moved, self.now))

    def apply_parent_order(self, job_id: JobId) -> Job | None:
        """Apply a pending order of the array to its child, and return the job; None if it is not loaded.

        The order of the array comes before any other event of the child. Does nothing for other jobs.
        """
        job = self.get(job_id)
        parent = None if job is None or job.child is None else self.get(job.child.parent)
        if job is None or parent is None:
            return job
        after, effects = apply_order(job, parent, self.now)
        if after is job:
            return job
        with self.audit.as_server():  # the present caller did not give the array's order
            return self.update(job, after, effects)

    def update(self, before: Job, after: Job, effects: Iterable[do.Effect] = ()) -> Job:
        """Replace a job by its changed version, add the effects of the change, and return the changed version."""
        for effect in effects:
            self.effects.append((effect, after))
        if after is before:
            return after
        known = self._changes.get(after.id)
        self._store(Change(before if known is None else known.before, after))
        has_attempt_changed = before.attempt is not None and after.attempt is not before.attempt
        if has_attempt_changed:
            for tag in newly_started(before, after):
                name = stream_name(after.spec.definition.name, tag)
                self._streams.append(LogStream(name=name, tag=tag, created_at=self.now, owner=after.spec.owner))
        if has_attempt_changed or after.stop_orders is not before.stop_orders or after.hold is not before.hold:
            self._history += order_entries(before, after, self.now, self.audit.caller)
        if after.status is not before.status:
            self._record_transition(before, after)
        elif after.status is Status.RUNNABLE and is_queued_for_placement(before) != is_queued_for_placement(after):
            self.placement.record_queue_change(after)
        if before.array_state is None and after.array_state is not None:
            self._changed.append(after.id)
        if self.audit.caller is not None:
            self.audit.record_job(after.id, after.spec.owner, after.status)
        return after

    def record(self, entry: HistoryEntry) -> None:
        """Add a history entry that follows from the changes of several jobs."""
        self._history.append(entry)

    def add_effect(self, effect: do.Effect, job: Job | None = None) -> None:
        """Add an effect. `job`: None for a container of an unknown job."""
        self.effects.append((effect, job))

    @property
    def ordered_effects(self) -> Sequence[tuple[do.Effect, Job | None]]:
        """The effects, clean-ups last: the next jobs start in the room of ended ones before these are removed."""
        return sorted(self.effects, key=lambda requested: isinstance(requested[0], do.CleanUpContainer))

    def keep_effects(self, is_kept: Callable[[do.Effect], bool]) -> None:
        """Drop the other effects."""
        self.effects = [(effect, job) for effect, job in self.effects if is_kept(effect)]

    def active(self) -> dict[JobId, Job]:
        """The STARTING and RUNNING jobs as changed by this unit of work."""
        kept = {job_id: job for job_id, job in self._active.items() if job_id not in self._changes}
        return kept | {job.id: job for _, job in self.job_changes if job.status in ACTIVE}

    def dependents_of(self, ids: Iterable[JobId]) -> list[JobId]:
        """The jobs changed by this unit of work that depend on one of `ids`."""
        return [dependent_id for job_id in ids for dependent_id in self._dependents.get(job_id, ())]

    def _store(self, change: Change) -> None:
        """Store the present version of an inserted or updated job.

        The job is indexed by its dependencies, so that finding dependents does not scan all changed jobs.
        """
        job = change.after
        self._current[job.id] = job
        self._changes[job.id] = change
        self.groups.has_members = self.groups.has_members or job.spec.group is not None
        self.changes_usage = self.changes_usage or job.spec.share_identifier is not None or bool(job.spec.needs)
        if job.spec.depends_on and waits(job):
            for on_id in waits_for(job):
                self._dependents.setdefault(on_id, {})[job.id] = None

    @property
    def must_propagate(self) -> bool:
        """Whether changes must still be propagated to dependents or parents, within the limit of the unit."""
        return bool(
            self._children_changed
            or self._new
            or self._changed
            or (self.dependents.entries and self.dependents.limit > 0)
        )

    def take_new(self) -> list[JobId]:
        """The jobs inserted since the last call."""
        new, self._new = self._new, []
        return new

    def take_changed(self) -> list[JobId]:
        """The jobs that finished, and the arrays that began to spawn children, since the last call."""
        changed, self._changed = self._changed, []
        return changed

    @property
    def children_changed(self) -> list[JobId]:
        """The arrays with status changes of children that have not been counted yet."""
        return list(self._children_changed)

    def new_shares(self) -> Iterator[tuple[ShareKey, UserName]]:
        """The fair-share keys of the jobs inserted by this unit of work, and the users of these jobs."""
        for before, job in self.job_changes:
            if before is None and job.spec.share_identifier is not None:
                yield ShareKey(job.spec.queue, job.spec.share_identifier), job.spec.owner.user

    def changes(self, *, forget_before: datetime | None) -> Changes:
        """The changes to be saved. Submissions older than `forget_before` are deleted if there are new ones.

        None: no submission is deleted.
        """
        inserted: list[Job] = []
        updated: list[Job] = []
        for before, job in self.job_changes:
            (inserted if before is None else updated).append(job)
        changes = Changes(
            inserted=tuple(inserted),
            updated=tuple(updated),
            history=tuple(self._history),
            streams=tuple(self._streams),
            restoration=self.container_engine.restoration,
            engine_id=self.container_engine.engine_id,
            survey=self.container_engine.survey,
            spending=self.budgets.spending,
            budgets=tuple(self.budgets.budgets.items()),
            groups=tuple(self.groups.changed.values()),
            audit_records=tuple(self.audit.records),
        )
        if self.submitted:
            submissions = tuple([(key, job_id, self.now) for key, job_id in self.submitted.items()])
            changes = replace(changes, submissions=submissions, delete_submissions_before=forget_before)
        if self.bulk_stops.begun or self.bulk_stops.pages:
            changes = self.bulk_stops.added_to(changes)
        return changes

    def committed(self, first_number: int | None) -> Committed:
        """The saved unit of work. Call it after the commit and before any state in memory changes.

        `first_number`: the number of the first history entry that was saved; None if none was.
        """
        jobs: list[Job] = []
        runnable: list[Change] = []
        for change in self.job_changes:
            before, job = change
            has_same_version = before is None or job.status in FINISHED
            jobs.append(job if has_same_version else replace(job, version=job.version + 1))
            if job.status is Status.RUNNABLE or (before is not None and before.status is Status.RUNNABLE):
                runnable.append(change)
        history: list[FeedEntry] = []
        if first_number is not None:
            for number, entry in enumerate(self._history, first_number):
                history.append(feed_entry(number, entry, self._current[entry.job_id].spec))
        return Committed(
            unit=self,
            jobs=jobs,
            changes=self.job_changes,
            runnable=runnable,
            transitions=self._transitions,
            history=history,
        )

    def _record_transition(self, before: Job | None, after: Job) -> None:
        self._history.append(status_entry(before, after, self.now))
        self._transitions.append(StatusChanged(before.status if before else None, after))
        if after.status in FINISHED:
            self._changed.append(after.id)
        if after.child is not None:
            moved = Moved(
                index=after.child.index,
                before=before.status if before else None,
                after=after.status,
                stopped=failed_by_order(after),
            )
            self._children_changed.setdefault(after.child.parent, []).append(moved)
        if before is not None and before.status in ACTIVE:
            if after.status not in ACTIVE:
                self.placement.request_pass()
        elif Status.RUNNABLE in (after.status, before and before.status):
            self.placement.record_queue_change(after)
