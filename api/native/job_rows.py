"""Jobs in the native API: as rows of lists, and one job with its details. Members without a value are omitted."""

from collections.abc import Mapping

from aiohttp import web
from msgspec import Struct

from batchq.api.authentication import parse_credential
from batchq.api.http import milliseconds
from batchq.api.stop_orders import stop_orders_members
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job, Status
from batchq.domain.lifecycle.arrays import is_parent

Content = dict[str, object]


class JobArns(Struct, frozen=True, kw_only=True):
    """Formats the ARNs of jobs for one caller."""

    #: The account id of the server.
    account: str
    #: The region of the caller's credential, or the server's.
    region: str

    def job(self, job_id: JobId) -> str:
        return f"arn:aws:batch:{self.region}:{self.account}:job/{job_id}"


def arns_of(request: web.Request, *, account: str, region: str) -> JobArns:
    """`region`: that of the server, for a request that names none."""
    credential = parse_credential(request.headers.get("Authorization", ""))
    return JobArns(account=account, region=credential.region or region)


def job_row(job: Job, arns: JobArns) -> Content:
    """A job as a row of a list."""
    spec, run = job.spec, latest_attempt(job)
    return without_none(
        {
            "jobId": job.id,
            "jobArn": arns.job(job.id),
            "jobName": spec.name,
            "jobQueue": spec.queue,
            "jobDefinition": str(spec.definition),
            "status": job.status.value,
            "statusReason": status_reason(job),
            "user": spec.owner.user,
            "account": spec.owner.account,
            "shareIdentifier": spec.share_identifier,
            "priority": spec.scheduling_priority,
            "createdAt": milliseconds(job.created_at),
            "runnableAt": job.runnable_at and milliseconds(job.runnable_at),
            "startedAt": job.started_at and milliseconds(job.started_at),
            "stoppedAt": job.stopped_at and milliseconds(job.stopped_at),
            "attempt": len(job.attempts) + (job.attempt is not None),
            "maxAttempts": spec.retry.attempts,
            "exitCode": None if run is None else run.exit_code,
            **_array(job),
            "nodes": None if spec.nodes is None else spec.nodes.count,
            "stopOrder": stop_orders_members(job.stop_orders).get("stopOrder"),
        }
    )


def latest_attempt(job: Job) -> Attempt | None:
    """The attempt under way, else the last one that has ended; None before the first."""
    return job.attempt or (job.attempts[-1] if job.attempts else None)


def without_none(content: Mapping[str, object]) -> Content:
    """`content` without the members that are None: responses contain no null."""
    return {member: value for member, value in content.items() if value is not None}


def _array(job: Job) -> Content:
    if job.child is not None:
        return {"arrayIndex": job.child.index, "parentId": job.child.parent}
    if not is_parent(job):
        return {}
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    return {"arraySize": job.spec.array_size, "statusSummary": {it.value: counts.get(it, 0) for it in Status}}
