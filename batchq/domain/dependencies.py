"""What a job's dependencies say about it. Pure."""

from collections.abc import Mapping

from batchq.domain import events as on
from batchq.domain.job import Job, JobId, Status

Judgement = on.DependenciesMet | on.DependenciesPending | on.DependencyFailed


def judge(job: Job, known: Mapping[JobId, Job]) -> Judgement:
    """A dependency that FAILED, or is no longer known, fails the job; all SUCCEEDED frees it; else it waits."""
    statuses = {known[it.job_id].status if it.job_id in known else Status.FAILED for it in job.spec.depends_on}
    if Status.FAILED in statuses:
        return on.DependencyFailed()
    return on.DependenciesPending() if statuses - {Status.SUCCEEDED} else on.DependenciesMet()
