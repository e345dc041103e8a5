"""Random groups of jobs with limits, and reruns of jobs, and what must hold of them."""

from collections.abc import Iterable, Mapping
from random import Random

from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG, SIZE_TAG
from batchq.domain.groups import Group, is_gated
from batchq.domain.ids import GroupId, JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.ports.jobs import Changes
from batchq.services.client_requests import RERUN_OF
from tests.simulation.row_checks import group_sums
from tests.simulation.run_log import Checks, RunLog

OCCUPYING = ACTIVE | {Status.RUNNABLE}
#: The tags of each group.
GROUPS = (
    {GROUP_TAG: "one", MAX_RUNNING_TAG: "1"},
    {GROUP_TAG: "three", MAX_RUNNING_TAG: "3", MAX_FAILED_TAG: "4"},
    {GROUP_TAG: "sized", SIZE_TAG: "6", MAX_FAILED_TAG: "2"},
)


def tags(rng: Random, rate: float, known: Iterable[JobId]) -> tuple[tuple[str, str], ...]:
    """The tags of a submission that name its group, and sometimes the job that it repeats."""
    if rng.random() >= rate:
        return ()
    found = dict(rng.choice(GROUPS))
    ids = list(known)[-8:]
    if ids and rng.random() < 0.3:
        found[RERUN_OF] = rng.choice(ids)
    return tuple(found.items())


class GroupChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self.groups: dict[GroupId, Group] = {}
        #: Whether jobs are deleted, or data is restored. Then groups have counted jobs that are not known, or that run
        #: beyond the limit.
        self.is_inexact = False
        #: The finished jobs that others of their groups replaced.
        self._replaced: set[JobId] = set()
        #: By job of a line of repetitions, the first one; and by the first one, the newest.
        self._first: dict[JobId, JobId] = {}
        self._newest: dict[JobId, JobId] = {}

    def written(self, changes: Changes) -> None:
        """Called after `jobs` has the changes."""
        before, self.groups = self.groups, self.groups | {group.terms.id: group for group in changes.groups}
        for job in sorted(changes.inserted, key=lambda each: each.sequence):
            if job.spec.rerun_of is not None and job.child is None:
                self._repeat(job, job.spec.rerun_of)
        if not self.is_inexact:
            for job in changes.inserted:
                self._check_admitted(job, before.get(_group_id(job)))
            for group in changes.groups:
                self._check(group)
                self._check_end(changes, before.get(group.terms.id), group)

    def _repeat(self, job: Job, repeated: JobId) -> None:
        first = self._first[job.id] = self._first.get(repeated, repeated)
        earlier = self.jobs.get(self._newest.get(first, first))
        self._newest[first] = job.id
        if earlier is None or earlier.status not in FINISHED or _group_id(earlier) != _group_id(job):
            return
        parent = None if earlier.child is None else earlier.child.parent
        if parent is None or self._newest.get(self._first.get(parent, parent), parent) == parent:
            self._replaced.add(earlier.id)
            self.run_log.counts["jobs replaced in a group"] += 1

    def _check(self, group: Group) -> None:
        members = [job for job in self.jobs.values() if _group_id(job) == group.terms.id and not self._is_replaced(job)]
        true, stopped, uncreated = group_sums(members)
        if (dict(group.counts), group.stopped, group.uncreated) != (true, stopped, uncreated):
            self.run_log.fail("I1 the counts of a group are true", f"{group}, and it is {true} {stopped} {uncreated}")
        most, occupied = group.terms.max_running, sum(true.get(status, 0) for status in OCCUPYING)
        if most is not None and occupied > most:
            self.run_log.fail("no more jobs of a group run than its limit permits", f"{group} {true}")
        self.run_log.counts["groups at their limit"] += occupied == most
        self.run_log.counts["groups that failed"] += group.is_failing

    def _is_replaced(self, job: Job) -> bool:
        return job.id in self._replaced or (job.child is not None and job.child.parent in self._replaced)

    def _check_admitted(self, job: Job, group: Group | None) -> None:
        if group is not None and group.is_failing and job.spec.rerun_of is None and job.child is None:
            self.fail("a group of which too many jobs failed takes no new jobs", job)

    def _check_end(self, changes: Changes, before: Group | None, group: Group) -> None:
        """A group has ended with its last job, and one entry of the history says so."""
        members = [job for job in self.jobs.values() if _group_id(job) == group.terms.id]
        is_over = all(job.status in FINISHED for job in members) and group.submitted >= (group.terms.size or 0)
        if is_over is not (group.ended_at is not None):
            self.run_log.fail("a group ends with its last job", f"{group}")
        ends = [entry for entry in changes.history if entry.group_end and entry.group_end.group_id == group.terms.id]
        has_ended = group.ended_at is not None and (before is None or before.ended_at is None)
        if len(ends) != has_ended:
            self.run_log.fail("the end of a group is recorded once", f"{group} {ends}")
        self.run_log.counts["groups ended"] += has_ended

    def is_gated(self, job: Job) -> bool:
        """Whether the job waits until its group has a place."""
        return job.status is Status.PENDING and is_gated(job)

    def occupants(self, job: Job) -> list[Job]:
        """The jobs that have the places of the group of a job."""
        members = (other for other in self.jobs.values() if _group_id(other) == _group_id(job))
        return [other for other in members if other.status in OCCUPYING and not is_parent(other)]


def _group_id(job: Job) -> GroupId | None:
    return None if job.spec.group is None else job.spec.group.id
