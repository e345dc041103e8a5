"""Checks of dependencies and of arrays with their children, at each commit."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from batchq.domain.enums import FINISHED, DependencyType, Status
from batchq.domain.groups import is_gated
from batchq.domain.ids import JobId, child_id, parent_of
from batchq.domain.job import Job
from batchq.ports.jobs import Changes
from tests.simulation.run_log import Checks, RunLog


class DependencyChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._children: dict[JobId, list[JobId]] = defaultdict(list)

    def born(self, job: Job) -> None:
        if job.child is None:
            return
        parent = self.jobs[job.child.parent]
        self._children[parent.id].append(job.id)
        if parent.array_state is None or job.id != child_id(parent.id, job.child.index) or job.spec != parent.spec:
            self.fail("I2 a child is its array's", job)
        if (
            job.child.index >= parent.spec.array_size
            or not parent.sequence < job.sequence <= parent.sequence + 1 + job.child.index
        ):
            self.fail("I2 a child has a place in its array", job)

    def children(self, job_id: JobId) -> list[Job]:
        return [self.jobs[child] for child in self._children.get(job_id, ())]

    def begins(self, job: Job) -> None:
        """I11: an attempt, or an array, begins only when all that it waits for has succeeded."""
        if any(self._status(wait) is not Status.SUCCEEDED for wait in waits(job)):
            self.fail("I11 dependents start after all have SUCCEEDED", job)
        if any(self._array_begun(counterpart) is not Status.SUCCEEDED for counterpart in counterparts(job)):
            self.fail("I11 an array begins after its counterpart", job)

    def follows(self, changes: Changes) -> None:
        """I11: the commit that ends a job also decides its dependents. I1: the counts of arrays are true."""
        touched = (*changes.inserted, *changes.updated)
        if any(job.status is Status.SUBMITTED for job in touched):
            self.fail("I11 new jobs are evaluated at once", None, [self.run_log.name_of(job.id) for job in touched])
        if any(job.status in FINISHED or job.array_state is not None for job in touched):
            for job in self.jobs.values():
                if job.status is Status.PENDING and job.array_state is None and self._is_decided(job):
                    self.fail("I11 dependents are decided at once", job)
        for parent_id in {job.child.parent if job.child else job.id for job in touched if job.child or job.array_state}:
            self._check_counts(self.jobs[parent_id])

    def _is_decided(self, job: Job) -> bool:
        """Whether its dependencies decide it; a sequential predecessor does not: its failure spreads step by step."""
        if is_gated(job):  # then its dependencies alone do not decide that it starts
            before = predecessor(job)
            return any(self._status(wait) is Status.FAILED for wait in waits(job) if wait != before)
        before = predecessor(job)
        others = {self._status(wait) for wait in waits(job) if wait != before} | {
            self._array_begun(counterpart) for counterpart in counterparts(job)
        }
        if Status.FAILED in others:
            return True
        return others <= {Status.SUCCEEDED} and (before is None or self._status(before) is Status.SUCCEEDED)

    def _check_counts(self, parent: Job) -> None:
        children = self.children(parent.id)
        true = Counter(child.status for child in children)
        if (
            parent.array_state is None
            or dict(parent.array_state.counts) != dict(true)
            or parent.array_state.spawned != len(children)
        ):
            self.fail("I1 an array's summary is true", parent, f"{parent.array_state}, and it is {dict(true)}")
        over = sum(true[status] for status in FINISHED) == parent.spec.array_size
        if over is not (parent.status in FINISHED):
            self.fail("I11 an array is over with its last child", parent, f"{parent.status} {dict(true)}")
        if parent.status is Status.SUCCEEDED and set(true) != {Status.SUCCEEDED}:
            self.fail("I6 an array succeeds if every child does", parent, dict(true))

    def _status(self, job_id: JobId) -> Status:
        """The status of a job; a child that is not created yet counts as PENDING while its array is not finished."""
        if job_id in self.jobs:
            return self.jobs[job_id].status
        parent = parent_of(job_id)
        array = None if parent is None else self.jobs.get(parent[0])
        return Status.FAILED if array is None or array.status in FINISHED else Status.PENDING

    def _array_begun(self, job_id: JobId) -> Status:
        array = self.jobs[job_id]
        if array.array_state is not None:
            return Status.SUCCEEDED
        return Status.FAILED if array.status in FINISHED else Status.PENDING


def is_over(job: Job) -> bool:
    """Whether the job has ended; also an array whose children only have to be cancelled."""
    return job.status in FINISHED or (job.array_state is not None and job.array_state.ended_at is not None)


def waits(job: Job) -> Iterator[JobId]:
    """The jobs that must succeed before it begins; a child waits for its counterpart and its predecessor."""
    for other_job in job.spec.depends_on:
        if other_job.job_id is not None and (other_job.type is DependencyType.N_TO_N) is (job.child is not None):
            yield other_job.job_id if job.child is None else child_id(other_job.job_id, job.child.index)
    if (before := predecessor(job)) is not None:
        yield before


def counterparts(job: Job) -> list[JobId]:
    """The arrays that must have children before this one has."""
    if job.child is not None:
        return []
    return [other_job.job_id for other_job in job.spec.depends_on if other_job.type is DependencyType.N_TO_N]


def predecessor(job: Job) -> JobId | None:
    if (
        job.child is None
        or job.child.index == 0
        or all(other_job.job_id is not None for other_job in job.spec.depends_on)
    ):
        return None
    return child_id(job.child.parent, job.child.index - 1)
