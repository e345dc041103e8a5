"""What a job's dependencies, and its overrides, say about it before it may run. Pure."""

from collections.abc import Mapping

from batchq.domain import events as on
from batchq.domain.container import length
from batchq.domain.job import Job, JobId, Status

Judgement = on.DependenciesMet | on.DependenciesPending | on.DependencyFailed | on.OverridesTooLong

LONGEST_OVERRIDES = 8192


def judge(job: Job, known: Mapping[JobId, Job]) -> Judgement:
    """A dependency that FAILED, or is no longer known, fails the job; all SUCCEEDED frees it; else it waits."""
    if length(job.spec.overrides) > LONGEST_OVERRIDES:
        return on.OverridesTooLong()
    statuses = {known[it.job_id].status if it.job_id in known else Status.FAILED for it in job.spec.depends_on}
    if Status.FAILED in statuses:
        return on.DependencyFailed()
    return on.DependenciesPending() if statuses - {Status.SUCCEEDED} else on.DependenciesMet()
