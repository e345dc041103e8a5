"""Many jobs stopped by one request: by ids and filters, as people of HPC sites know it.

`POST /v1/batchq/canceljobs` is CancelJob, and `/v1/batchq/terminatejobs` TerminateJob, of all jobs that meet ALL the
filters given; the values within one filter are alternatives. At least one filter must be there. Which jobs are meant
is decided once, in one transaction; what does not exist for the caller, or is over, does not hinder the others.

    {"jobs": ["<id>", "<array>:3", "<gang>#1", "<array or gang>.3"],   jobs, children of arrays, nodes of gangs
     "jobNames": ["sim*"],              any case; a trailing * is any rest
     "users": ["ann"], "accounts": ["physics"],    an account with those below it
     "jobQueues": ["night"],            names or ARNs
     "states": ["pending"],             any case: PENDING is SUBMITTED, PENDING and RUNNABLE; RUNNING is STARTING and
                                        RUNNING; ALL; SUBMITTED, RUNNABLE, STARTING
     "computeEnvironments": ["node1"],  where they run now
     "reason": "...", "dryRun": true,
     "signal": "SIGINT", "graceSeconds": 5}        of terminatejobs: in place of SIGTERM, and of the job's own grace

The answer is 200, also where nothing matches. It is one JSON object, sent as the jobs are dealt with, so it may be
long and take seconds; cut off it is no JSON, and the order goes on without whoever asked:

    {"jobs": [{"jobId": "...", "jobName": "...", "status": "RUNNABLE", "outcome": "CANCELLED"},
              {"jobId": "...", "outcome": "NOT_FOUND", "message": "..."}, ...],
     "counts": {"CANCELLED": 1, "NOT_FOUND": 1}, "dryRun": false}

`status` is that before the request; `message` is there where nothing was done, and says why. Outcomes:
CANCELLED, TERMINATED: it had not started, and is FAILED. STOPPING: it is over when its containers, or its children,
are. NOT_RETRIED (of a cancel): it runs on, and has no other attempt. And where nothing was done, only of what `jobs`
names: ALREADY_FINISHED, NOT_MATCHED (by another filter), NOT_FOUND, FORBIDDEN. A dry run tells the same of what would
be done. What is malformed (an id, a state, a signal) is refused with 400, and nothing is changed.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

CANCEL_JOBS = "/v1/batchq/canceljobs"
TERMINATE_JOBS = "/v1/batchq/terminatejobs"

Word = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)]
Words = Annotated[list[Word], Field(min_length=1, max_length=1000)]


class CancelJobsRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    jobs: Annotated[list[Word], Field(min_length=1, max_length=10_000)] | None = None
    job_names: Words | None = None
    users: Words | None = None
    accounts: Words | None = None
    job_queues: Words | None = None
    states: Words | None = None
    compute_environments: Words | None = None
    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)] | None = None
    dry_run: bool = False


class TerminateJobsRequest(CancelJobsRequest):
    signal: Annotated[str, Field(max_length=16)] | None = None
    grace_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
