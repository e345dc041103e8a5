"""Jobs as rows of lists in the native API. Members without a value are omitted."""

from typing import Any

from aiohttp import web
from msgspec import Struct

from batchq.api.authentication import parse_credential
from batchq.api.http import milliseconds, optional_milliseconds
from batchq.api.native.explanations import ExplanationAnswer, explanation_answer
from batchq.api.stop_orders import HoldAnswer, StopOrderAnswer, hold_answer, stop_order_answer
from batchq.domain.created_paths import status_reason
from batchq.domain.explanation.codes import Explanation
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job, Status
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stop_order import latest_order


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


class JobRow(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job as a row of a list. Times are in milliseconds since 1970."""

    job_id: str
    job_arn: str
    job_name: str
    #: The name of the job queue.
    job_queue: str
    #: `NAME:REVISION`.
    job_definition: str
    status: Status
    status_reason: str | None = None
    #: The owner.
    user: str
    #: The account of the owner.
    account: str
    share_identifier: str | None = None
    #: AWS's schedulingPriority.
    priority: int | None = None
    created_at: int
    #: When it last became RUNNABLE.
    runnable_at: int | None = None
    #: When its latest attempt began to run.
    started_at: int | None = None
    #: When it ended.
    stopped_at: int | None = None
    #: How many attempts have begun.
    attempt: int
    max_attempts: int
    #: The exit code of the latest attempt.
    exit_code: int | None = None
    #: Of an array: the number of its children.
    array_size: int | None = None
    #: Of a child of an array.
    array_index: int | None = None
    #: The array of a child.
    parent_id: str | None = None
    #: Of an array: how many of its children have each status.
    status_summary: dict[Status, int] | None = None
    #: The number of nodes of a multi-node parallel job.
    nodes: int | None = None
    #: Since when and why the job is held; absent if it is not.
    hold: HoldAnswer | None = None
    #: The latest order to cancel or stop the job.
    stop_order: StopOrderAnswer | None = None
    #: Why it waits, what it does, or why it failed; only if the request asks for explanations.
    why: ExplanationAnswer | None = None


def job_row(job: Job, arns: JobArns, why: Explanation | None = None) -> JobRow:
    return JobRow(**row_members(job, arns), why=None if why is None else explanation_answer(why))


def row_members(job: Job, arns: JobArns) -> dict[str, Any]:
    """The members of a JobRow."""
    spec, run, order = job.spec, latest_attempt(job), latest_order(job)
    return {
        "job_id": job.id,
        "job_arn": arns.job(job.id),
        "job_name": spec.name,
        "job_queue": spec.queue,
        "job_definition": str(spec.definition),
        "status": job.status,
        "status_reason": status_reason(job),
        "user": spec.owner.user,
        "account": spec.owner.account,
        "share_identifier": spec.share_identifier,
        "priority": spec.scheduling_priority,
        "created_at": milliseconds(job.created_at),
        "runnable_at": optional_milliseconds(job.runnable_at),
        "started_at": optional_milliseconds(job.started_at),
        "stopped_at": optional_milliseconds(job.stopped_at),
        "attempt": len(job.attempts) + (job.attempt is not None),
        "max_attempts": job.max_attempts,
        "exit_code": None if run is None else run.exit_code,
        "array_index": None if job.child is None else job.child.index,
        "parent_id": None if job.child is None else job.child.parent,
        **_array_members(job),
        "nodes": None if spec.nodes is None else spec.nodes.count,
        "hold": hold_answer(job.hold),
        "stop_order": None if order is None else stop_order_answer(order),
    }


def latest_attempt(job: Job) -> Attempt | None:
    """The attempt under way, else the last one that has ended; None before the first."""
    return job.attempt or (job.attempts[-1] if job.attempts else None)


def _array_members(job: Job) -> dict[str, Any]:
    if not is_parent(job):
        return {}
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    return {"array_size": job.spec.array_size, "status_summary": {it: counts.get(it, 0) for it in Status}}
