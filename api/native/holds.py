"""HoldJob, ReleaseJob, PauseJob and ResumeJob: requests that keep one job from starting, or let it start again.

All are repeatable: a request that changes nothing succeeds.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.api.authorization import authorize
from batchq.api.holds import HoldAnswer, hold_answer
from batchq.api.http import Dialect, HttpRefusal, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.api.stop_orders import StopOrderAnswer, stop_order_answer
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.errors import NotFound
from batchq.services.jobs import JobService

_JOB = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}"

Reason = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]


class HoldJobRequest(BaseModel):
    """Why the job is held or paused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    reason: Reason | None = None


class ReleaseJobRequest(BaseModel):
    """An empty object."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class HeldJobAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The job after the request."""

    job_id: str
    job_name: str
    status: Status
    status_reason: str | None = None
    #: Why it is held; absent if it is not.
    hold: HoldAnswer | None = None
    #: The latest order to cancel or stop the job. Its kind is PAUSE while a running job is being paused.
    stop_order: StopOrderAnswer | None = None


_HOLD = OperationDoc(
    name="HoldJob",
    summary="Keeps a queued job from starting until it is released.",
    description=(
        "The job keeps its position in line, and holds up no other job. A job that is STARTING or RUNNING is refused: "
        "pause it. Of an array all children are held, those that run after their attempt. A job that is held already "
        "is not changed."
    ),
    body=HoldJobRequest,
    answer=HeldJobAnswer,
)
_RELEASE = OperationDoc(
    name="ReleaseJob",
    summary="Lets a held or paused job start again.",
    description="It returns to its old position in line. A job that is not held is not changed.",
    body=ReleaseJobRequest,
    answer=HeldJobAnswer,
)
_PAUSE = OperationDoc(
    name="PauseJob",
    summary="Stops a running job with a final checkpoint, and holds it until it is resumed.",
    description=(
        "A job that is STARTING or RUNNING is stopped as by TerminateJob with a final checkpoint; then it is RUNNABLE "
        "and held, its resources are free, and the attempt does not count as one of its attempts. Its checkpoints are "
        "kept. If it exits with code 0 it is SUCCEEDED. A queued job is held, and a held one is not changed."
    ),
    body=HoldJobRequest,
    answer=HeldJobAnswer,
)
_RESUME = OperationDoc(
    name="ResumeJob",
    summary="Lets a paused or held job start again, from its newest checkpoint.",
    description="It returns to its old position in line. A job that is not held is not changed.",
    body=ReleaseJobRequest,
    answer=HeldJobAnswer,
)

#: Requests the change of a job, with the reason that the request gives, or None.
Change = Callable[[JobId, str | None, Caller], Awaitable[None]]


def dialect(jobs: JobService) -> Dialect:
    def mount(app: web.Application) -> None:
        for path, doc, change in (
            ("hold", _HOLD, lambda job, why, by: jobs.hold(job, why or f"Held by {by.user}", caller=by)),
            ("release", _RELEASE, lambda job, _, by: jobs.release(job, caller=by)),
            ("pause", _PAUSE, lambda job, why, by: jobs.pause(job, why or f"Paused by {by.user}", caller=by)),
            ("resume", _RESUME, lambda job, _, by: jobs.resume_job(job, caller=by)),
        ):
            document(app, app.router.add_post(f"{_JOB}/{path}", _endpoint(jobs, doc, change)), doc)

    return mount


def _endpoint(
    jobs: JobService, doc: OperationDoc, change: Change
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def changed(request: web.Request) -> web.StreamResponse:
        caller, job_id = authorize(request, Permission.SELF, doc.name), JobId(request.match_info["job"])
        assert doc.body is not None, f"{doc.name} has no body"
        given = parse(doc.body, await read_body(request))
        reason = given.reason if isinstance(given, HoldJobRequest) else None
        try:
            await change(job_id, reason, caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        found = await jobs.describe([job_id], caller=caller)
        if not found:
            raise HttpRefusal(f"Job {job_id} not found.", status=HTTPStatus.NOT_FOUND)
        return reply(held_job_answer(found[0][0]))

    changed.__name__ = doc.name
    return changed


def held_job_answer(job: Job) -> HeldJobAnswer:
    return HeldJobAnswer(
        job_id=job.id,
        job_name=job.spec.name,
        status=job.status,
        status_reason=status_reason(job),
        hold=hold_answer(job.hold),
        stop_order=stop_order_answer(job.stop_orders[-1]) if job.stop_orders else None,
    )
