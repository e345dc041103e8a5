"""CancelTrainingJob: `POST /v2/training/jobs/{jobId}/cancel`."""

import re

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from batchq.api.authorization import authorize
from batchq.api.http import InvalidMember, parse, read_body, reply
from batchq.api.openapi import OperationDoc
from batchq.api.training.context import Reason, TrainingContext, find_job, read_job
from batchq.api.training.figures import CostSummary, FinalMetrics, cost_summary, final_metrics
from batchq.api.training.job_answers import CancellationDetails, cancellation, cancellation_details, running_time
from batchq.api.training.job_status import FINAL, TrainingStatus, status_of
from batchq.api.training.refusals import impossible, state_conflict, time_limit_reached
from batchq.domain.access.accounts import Caller, Permission, UserName
from batchq.domain.job import FINISHED, Job
from batchq.domain.stop_orders import StopKind
from batchq.errors import Invalid, NotFound, Throttled, Unavailable
from batchq.throttling import ConcurrencyLimit

NAME = "CancelTrainingJob"
CANCELLABLE = "queued, initializing, running, pausing, paused or cancelling"
MAX_WAIT = 60  # seconds
MAX_WAITING = 16  # requests of one user that wait for the end of a job at the same time

_WAIT = re.compile(r"wait=([0-9]{1,9})", re.ASCII)


class CancelTrainingJobRequest(BaseModel):
    """How a job is cancelled."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    #: Absent: `Cancelled by USER`.
    reason: Reason | None = None
    #: Whether the checkpoints that the job has written until now are kept.
    preserve_checkpoints: bool = True
    #: Whether the job is requested to write a checkpoint first; without effect on a job that does not run.
    create_final_checkpoint: bool = False
    #: Whether the containers are killed at once, also of a job that is being cancelled. Data may be lost.
    force: bool = False


class CancelAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job that was ordered to stop."""

    job_id: str
    #: `cancelling`, or `cancelled` if it has ended.
    status: TrainingStatus
    cancellation_details: CancellationDetails
    #: `finalLoss` and others, as of now, with `trainingDuration`; null if they cannot be read at present.
    final_metrics: FinalMetrics | None
    #: As of now. Null for a job that was submitted without prices, and if it cannot be computed at present.
    cost_summary: CostSummary | None


DOC = OperationDoc(
    name=NAME,
    summary="Cancels a training job.",
    description=(
        "The order is saved when the response is sent. A job without a container ends at once. A running job is first "
        "requested to write a final checkpoint, if the request says so; then its containers get the stop signal, and "
        "SIGKILL after the grace period. A repeated request changes nothing, except that `force` kills the containers "
        "at once. With the header `Prefer: wait=N` (1 to 60 seconds) the response is sent when the job has ended, or "
        "after N seconds."
    ),
    body=CancelTrainingJobRequest,
    optional_body=True,
    answer=CancelAnswer,
)


class JobCanceller:
    """Cancels jobs, and waits for their end if the request prefers that."""

    def __init__(self, context: TrainingContext) -> None:
        self._context = context
        self._waiting = ConcurrencyLimit[UserName](at_once=MAX_WAITING, waiting=0)

    async def handle(self, request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, NAME)
        body = parse(CancelTrainingJobRequest, await read_body(request) or b"{}")
        wait = preferred_wait(request)
        job = await find_job(self._context, request, caller)
        if not wait:
            return reply(await self._answer(await self._cancel(job, body, caller), caller))
        async with self._waiting.of(caller.user):
            after = self._context.events.last
            job = await self._cancel(job, body, caller)
            if job.status not in FINISHED:
                await self._context.events.wait_for(job.id, FINISHED, after=after, seconds=wait, caller=caller)
                job = await read_job(self._context, job.id, caller)
        response = reply(await self._answer(job, caller))
        response.headers["Preference-Applied"] = f"wait={wait}"
        return response

    async def _cancel(self, job: Job, body: CancelTrainingJobRequest, caller: Caller) -> Job:
        """Order the job to stop. Returns the job afterwards; raises HttpRefusal for a job that has ended."""
        if body.force and body.create_final_checkpoint:
            raise impossible("'force' and 'createFinalCheckpoint' exclude each other: killed jobs write nothing.")
        _refuse_finished(job)
        can_write = job.spec.checkpoints is not None or status_of(job) is TrainingStatus.RUNNING
        try:
            await self._context.jobs.terminate(
                job.id,
                body.reason or f"Cancelled by {caller.user}",
                checkpoint=body.create_final_checkpoint and can_write,
                keep_checkpoints=body.preserve_checkpoints,
                force=body.force,
                caller=caller,
            )
        except Invalid as why:
            raise impossible(str(why)) from None
        job = await read_job(self._context, job.id, caller)
        if cancellation(job) is None:
            _refuse_finished(job)
        return job

    async def _answer(self, job: Job, caller: Caller) -> CancelAnswer:
        order, status = cancellation(job), status_of(job)
        if order is None:
            raise state_conflict(job.id, status, required=CANCELLABLE)
        metrics, cost = await self._figures(job, caller)
        return CancelAnswer(
            job_id=job.id,
            status=status,
            cancellation_details=cancellation_details(job, order),
            final_metrics=metrics,
            cost_summary=cost,
        )

    async def _figures(self, job: Job, caller: Caller) -> tuple[FinalMetrics | None, CostSummary | None]:
        """The metrics and the cost as of now; None if they cannot be read: the job is cancelled nevertheless."""
        try:
            metrics = await self._context.costs.metrics.current(job, caller=caller)
            cost = await self._context.costs.of_job(job.id, caller=caller)
        except (Throttled, Unavailable, NotFound):
            return None, None
        duration = running_time(job, self._context.clock.now())
        return final_metrics(metrics, duration), None if cost is None else cost_summary(cost)


def preferred_wait(request: web.Request) -> int:
    """The seconds of the header `Prefer: wait=N` (RFC 7240); 0 without it. Raises InvalidMember for an invalid N."""
    for preference in ",".join(request.headers.getall("Prefer", ())).split(","):
        found = _WAIT.fullmatch(preference.strip().lower())
        if found is not None:
            seconds = int(found[1])
            if not 1 <= seconds <= MAX_WAIT:
                raise InvalidMember(f"The wait of the header Prefer must be 1 to {MAX_WAIT} seconds.", member="Prefer")
            return seconds
    return 0


def _refuse_finished(job: Job) -> None:
    status = status_of(job)
    if status in FINAL:
        raise state_conflict(job.id, status, required=CANCELLABLE)
    if job.stop is not None and job.stop.kind is StopKind.TIMEOUT:
        raise time_limit_reached(job.id, status, required=CANCELLABLE)
