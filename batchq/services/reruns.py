"""Which jobs repeat the jobs of a list: those that name the job or, without one, the array of a child."""

from collections.abc import Iterable, Mapping, Sequence

from batchq.domain.enums import FINISHED
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Job


def repeatable(jobs: Iterable[Job]) -> dict[JobId, tuple[JobId, ...]]:
    """The jobs that other jobs may repeat, with the ids that those name: of the job, and of the array of a child."""
    return {
        job.id: (node_of(job.id)[0], *(() if job.child is None else (job.child.parent,)))
        for job in jobs
        if job.status in FINISHED
    }


def repeated_ids(whole: Mapping[JobId, Sequence[JobId]]) -> list[JobId]:
    """All ids that a job may name as the repeated one."""
    return sorted({identifier for ids in whole.values() for identifier in ids})


def newest_reruns(whole: Mapping[JobId, Sequence[JobId]], found: Mapping[JobId, JobId]) -> dict[JobId, JobId]:
    """The newest job that repeats each job. `found`: the newest one that names each id."""
    newest = {
        job_id: next((found[identifier] for identifier in ids if identifier in found), None)
        for job_id, ids in whole.items()
    }
    return {job_id: rerun for job_id, rerun in newest.items() if rerun is not None}
