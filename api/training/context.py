"""What the handlers of the training dialect use, and how a path names a job."""

import re
from typing import Annotated

from msgspec import Struct, field
from pydantic import Field

from batchq.api.operation_table import Call, Input
from batchq.api.page_tokens import PageTokens
from batchq.api.training.errors import impossible, training_resource_not_found
from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.ports.clock import Clock
from batchq.services.checkpoints import CheckpointService
from batchq.services.costs import CostService
from batchq.services.direct_submission import DirectSubmissionService
from batchq.services.events import EventService
from batchq.services.job_log import JobLogService
from batchq.services.job_search import JobSearchService
from batchq.services.jobs import JobService
from batchq.throttling import ConcurrencyLimit

JOBS = "/v2/training/jobs"
JOB = JOBS + "/{jobId}"
MAX_WAITS = 16  # requests of one user that wait for the end of a job at the same time

Reason = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[0-9]{1,5})?", re.ASCII)


class TrainingContext(Struct, frozen=True, kw_only=True):
    """The services that the handlers use."""

    jobs: JobService
    direct: DirectSubmissionService
    search: JobSearchService
    job_log: JobLogService
    events: EventService
    costs: CostService
    checkpoints: CheckpointService
    tokens: PageTokens
    clock: Clock
    #: The least `maxDuration` of a job, in seconds.
    min_timeout: int
    #: Of the requests of one user that wait for the end of a job.
    waits: ConcurrencyLimit[UserName] = field(default_factory=lambda: ConcurrencyLimit(at_once=MAX_WAITS, waiting=0))


async def find_job(context: TrainingContext, call: Call[Input]) -> Job:
    """The job that the path names. Raises HttpRefusal for an unknown job, and for an array."""
    text = call.path["jobId"]
    if _ID.fullmatch(text) is None:
        raise training_resource_not_found("job", text)
    return await read_job(context, JobId(text), call.caller)


async def read_job(context: TrainingContext, job_id: JobId, caller: Caller) -> Job:
    """The job as it is now. Raises HttpRefusal for an unknown job, and for an array."""
    found = await context.jobs.describe([job_id], caller=caller)
    if not found:
        raise training_resource_not_found("job", job_id)
    job = found[0][0]
    if is_parent(job):
        raise impossible(f"Job {job_id} is an array: name one of its children, {job_id}:0 to {job_id}:{size(job) - 1}.")
    return job
