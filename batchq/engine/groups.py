"""The part of a unit of work that counts the jobs of groups and enforces the limits of groups. Decision 0094.

A commit that changes a job also saves the counts of its group. With `max_running`, jobs whose dependencies are met stay
PENDING until their group has a free place, so the scheduler never reads them. With `max_failed`, the unit of work that
counts the last permitted failure also saves a bulk stop of the group.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from operator import attrgetter

from batchq.domain import events as on
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.group_terms import GroupTerms, check_terms
from batchq.domain.groups import Group, group_after, is_gated, new_group
from batchq.domain.ids import GroupId
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.scheduling.fairshare import Change
from batchq.domain.stop_request import StopRequest
from batchq.engine.bulk_stops import discard_outcomes
from batchq.engine.group_replacements import is_member, replaced_jobs
from batchq.engine.mailbox import BulkStopRequest
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Invalid
from batchq.ports.groups import GroupQuery
from batchq.ports.history import GroupEnd, HistoryEntry
from batchq.ports.jobs import JobStore

MAX_LOADED = 10_000  # unfinished groups that a start reads
MAX_RELEASED = 250  # jobs of a group that one unit of work lets become RUNNABLE


class Groups:
    """The unfinished groups in memory, as last saved."""

    def __init__(self, store: JobStore, begin_bulk_stop: Callable[[UnitOfWork, BulkStopRequest], None]) -> None:
        self._store = store
        self._begin_bulk_stop = begin_bulk_stop
        #: Unfinished groups that were read or changed.
        self._known: dict[GroupId, Group] = {}
        #: Groups with free places that the last unit of work did not fill.
        self.due: set[GroupId] = set()

    async def load(self, now: datetime) -> None:
        """Read the unfinished groups. The next unit of work fills the free places of those with a limit."""
        groups = await self._store.newest_groups(GroupQuery(since=now + timedelta(days=1), limit=MAX_LOADED))
        self._known = {group.terms.id: group for group in groups if group.ended_at is None}
        self.due = {group.terms.id for group in self._known.values() if group.terms.max_running is not None}

    async def prepare(self, ids: AbstractSet[GroupId]) -> None:
        """Read the groups of new jobs. One without unfinished jobs is read again: retention may have deleted it."""
        for group_id in ids & self._known.keys():
            if not self._known[group_id].unfinished:
                del self._known[group_id]
        await self._read(ids)

    def admit(self, unit: UnitOfWork, requested: GroupTerms, *, is_rerun: bool) -> GroupTerms:
        """The limits of the group of a new job, which the first job of the group decided. `requested`: the job's.

        Raises Invalid if the job gives another limit, or if too many jobs of the group failed. `is_rerun`: the job
        repeats another one, and is admitted.
        """
        group = self._known.get(requested.id)
        terms = unit.groups.create(requested) if group is None else group.terms
        if not is_rerun:
            check_terms(terms, requested)
            if group is not None and group.is_failing:
                raise Invalid(f"{group.cancel_reason}: the group takes no new jobs.")
        return terms

    async def release(self, unit: UnitOfWork) -> bool:
        """Let jobs become RUNNABLE that wait for a place in their group, in the order of submission.

        Returns False if no group has such jobs.
        """
        changed = _changed_members(unit)
        gated = {group_id for group_id, changes in changed.items() if any(is_gated(change.after) for change in changes)}
        due = gated | unit.groups.due | self.due
        if not due:
            return False
        await self._read(due)
        unit.groups.begin_release()
        for group_id in sorted(due):
            await self._release(unit, group_id, changed.get(group_id, ()))
        unit.groups.end_release()
        return True

    async def stage(self, unit: UnitOfWork) -> None:
        """Count the changed jobs of groups. Begin to cancel the jobs of a group of which too many failed."""
        changed = _changed_members(unit)
        await self._read(changed.keys())
        replaced = await replaced_jobs(self._store, unit, changed)
        for group_id, changes in changed.items():
            before = self._group(group_id, changes)
            after = group_after(before, changes, unit.now, replaced=replaced.get(group_id, ()))
            unit.groups.put(after)
            if (after.free_places or 0) > unit.groups.unfilled.get(group_id, 0):  # a damaged job ended in the placement
                unit.groups.request_release(group_id)
            if after.ended_at is not None and before.ended_at is None:
                _record_end(unit, after, changes)
            if after.is_failing and not before.is_failing:
                self._begin_bulk_stop(unit, _cancellation(after))

    def on_committed(self, committed: Committed) -> None:
        self.due = committed.unit.groups.due
        for group_id, group in committed.unit.groups.changed.items():
            if group.ended_at is None:
                self._known[group_id] = group
            else:
                self._known.pop(group_id, None)

    async def _read(self, ids: Iterable[GroupId]) -> None:
        unknown = [group_id for group_id in ids if group_id not in self._known]
        if unknown:
            self._known |= await self._store.groups(unknown)

    def _group(self, group_id: GroupId, changes: Iterable[Change]) -> Group:
        """The group as last saved, or as its first job creates it."""
        if group_id in self._known:
            return self._known[group_id]
        return new_group(min((change.after for change in changes), key=attrgetter("sequence")))

    async def _release(self, unit: UnitOfWork, group_id: GroupId, changes: Sequence[Change]) -> None:
        if group_id not in self._known and not changes:
            return
        before = self._group(group_id, changes)
        after = group_after(before, changes, unit.now)
        free = after.free_places
        unit.groups.record_unfilled(group_id, free or 0)
        if not free or (after.is_failing and not before.is_failing):
            return
        most = min(free, MAX_RELEASED)
        own = {job.id: job for _, job in changes if _waits_for_place(job)}
        limit = most + len(changes) + 1  # one more shows whether further members wait
        stored = await self._store.waiting_members(group_id, limit)
        unit.load(stored)
        ready = unit.groups.gated | {job_id for job_id, job in own.items() if not job.spec.depends_on}
        known = {*(job.id for job in stored), *ready}
        # An order of its array comes before the release of a child.
        current = [job for job_id in sorted(known) if (job := unit.apply_parent_order(job_id)) is not None]
        waiting = [job for job in current if is_member(job, group_id) and _waits_for_place(job)]
        for job in sorted(waiting, key=attrgetter("sequence"))[:most]:
            unit.step(job.id, on.DependenciesMet())
        unit.groups.record_unfilled(group_id, free - min(most, len(waiting)))
        # Orders of an array may have ended or held all jobs that were read, and other jobs may wait behind these.
        are_more_behind = len(waiting) < free and len(waiting) < len(current) and len(stored) == limit
        if not own.keys() <= ready or (len(waiting) > most and free > most) or are_more_behind:
            unit.groups.request_release(group_id)


def _changed_members(unit: UnitOfWork) -> dict[GroupId, list[Change]]:
    """The changes of the unit of work so far, by group."""
    found: dict[GroupId, list[Change]] = {}
    for change in unit.job_changes:
        if change.after.spec.group is not None:
            found.setdefault(change.after.spec.group.id, []).append(change)
    return found


def _waits_for_place(job: Job) -> bool:
    """Whether the job waits for a place in its group, and perhaps for dependencies."""
    return job.status is Status.PENDING and is_gated(job) and not job.held


def _record_end(unit: UnitOfWork, group: Group, changes: Iterable[Change]) -> None:
    """Add the entry about the end of the group to the history of the job that ended last."""
    ended_jobs = (job for _, job in changes if job.status in FINISHED)
    last = max(ended_jobs, key=attrgetter("sequence"))
    ended = GroupEnd(
        group_id=group.terms.id,
        name=group.terms.name,
        succeeded=group.succeeded,
        failed=group.failed,
        stopped=group.stopped,
    )
    unit.record(
        HistoryEntry(
            job_id=last.id,
            at=unit.now,
            status=last.status,
            reason=last.status_reason,
            attempt=None,
            group_end=ended,
        )
    )


def _cancellation(group: Group) -> BulkStopRequest:
    return BulkStopRequest(
        request=StopRequest(kind=StopKind.CANCEL, reason=group.cancel_reason),
        selection=JobSelection(groups=frozenset({group.terms.id})),
        as_of=0,
        report=discard_outcomes,
        caller=None,
        answer=None,
    )
