"""CancelTrainingJob, PauseTrainingJob and ResumeTrainingJob."""

import re
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web
from msgspec import Struct

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.http import InvalidMember, Reason, RequestBody, reply, while_connected
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.api.training.rest.context import JOB, find_job, impossible, read_job, state_conflict
from batchq.api.training.rest.figures import CostSummary, FinalMetrics, cost_summary, final_metrics
from batchq.api.training.rest.job_answers import (
    FINAL,
    CancellationDetails,
    TrainingStatus,
    cancellation_details,
    status_of,
)
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, StopKind
from batchq.domain.job import Job
from batchq.domain.stop_request import StopRequest
from batchq.domain.training_jobs import TrainingJobView, TrainingPhase
from batchq.errors import Invalid, NotFound, Throttled, Unavailable

CANCELLABLE = "queued, initializing, running, pausing, paused or cancelling"
PAUSABLE = "queued, initializing, running, pausing or paused"
RESUMABLE = "pausing or paused"
MAX_WAIT = 60  # seconds

_NOT_PAUSABLE = FINAL | {TrainingStatus.CANCELLING}
_WAIT = re.compile(r"wait=([0-9]{1,9})", re.ASCII)


class CancelTrainingJobRequest(RequestBody):
    """How a job is cancelled."""

    #: Absent: `Cancelled by USER`.
    reason: Reason | None = None
    #: Whether the checkpoints that the job has written until now are kept.
    preserve_checkpoints: bool = True
    #: Whether the job is requested to write a checkpoint first; without effect on a job that does not run.
    create_final_checkpoint: bool = False
    #: Whether the containers are killed at once, also of a job that is being cancelled. Data may be lost.
    force: bool = False


class CancelResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job that was ordered to stop."""

    job_id: str
    #: `cancelling`, or `cancelled` if it has ended.
    status: TrainingStatus
    cancellation_details: CancellationDetails
    #: `finalLoss` and others, as of now, with `trainingDuration`; null if they cannot be read at present.
    final_metrics: FinalMetrics | None
    #: As of now. Null for a job that was submitted without prices, and if it cannot be computed at present.
    cost_summary: CostSummary | None


class PauseTrainingJobRequest(RequestBody):
    """Why a job is paused."""

    #: Absent: `Paused by USER`.
    reason: Reason | None = None


class PauseResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The job after the request."""

    job_id: str
    status: TrainingStatus


operations = OperationTable()


@operations.add(
    "CancelTrainingJob", "POST", f"{JOB}/cancel", Permission.SELF, optional_body=True, answer=CancelResponse
)
async def cancel_training_job(parts: Parts, call: Call[CancelTrainingJobRequest]) -> web.Response:
    """Cancels a training job.

    The order is saved when the response is sent. A job without a container ends at once. A running job is first
    requested to write a final checkpoint, if the request says so; then its containers get the stop signal, and SIGKILL
    after the grace period. A repeated request changes nothing, except that `force` kills the containers at once. With
    the header `Prefer: wait=N` (1 to 60 seconds) the response is sent when the job has ended, or after N seconds.
    """
    wait, caller = preferred_wait(call.http), call.caller
    job = await find_job(parts, call)
    if not wait:
        return reply(await _cancel_answer(parts, await _cancel(parts, job, call.input, caller), caller))
    async with parts.waits.of(caller.user):
        after = parts.events.last
        job = await _cancel(parts, job, call.input, caller)
        if job.status not in FINISHED:
            end = parts.events.wait_for(job.id, FINISHED, after=after, seconds=wait, caller=caller)
            await while_connected(call.http, end)
            job = await read_job(parts, job.id, caller)
    response = reply(await _cancel_answer(parts, job, caller))
    response.headers["Preference-Applied"] = f"wait={wait}"
    return response


async def _cancel(parts: Parts, job: Job, body: CancelTrainingJobRequest, caller: Caller) -> Job:
    """Order the job to stop. Returns the job afterwards; raises HttpRefusal for a job that has ended."""
    if body.force and body.create_final_checkpoint:
        raise impossible("'force' and 'createFinalCheckpoint' exclude each other: killed jobs write nothing.")
    _refuse_finished(job)
    can_write = job.spec.checkpoints is not None or status_of(TrainingJobView(job)) is TrainingStatus.RUNNING
    try:
        order = StopRequest(
            kind=StopKind.TERMINATE,
            reason=body.reason or f"Cancelled by {caller.user}",
            checkpoint=body.create_final_checkpoint and can_write,
            keep_checkpoints=body.preserve_checkpoints,
            force=body.force,
        )
        await parts.jobs.stop(job.id, order, caller=caller)
    except Invalid as why:
        raise impossible(str(why)) from None
    job = await read_job(parts, job.id, caller)
    if TrainingJobView(job).cancellation is None:
        _refuse_finished(job)
    return job


async def _cancel_answer(parts: Parts, job: Job, caller: Caller) -> CancelResponse:
    view = TrainingJobView(job)
    details = cancellation_details(view)
    if details is None:
        raise state_conflict(view, required=CANCELLABLE)
    metrics, cost = await _figures(parts, view, caller)
    return CancelResponse(
        job_id=job.id,
        status=status_of(view),
        cancellation_details=details,
        final_metrics=metrics,
        cost_summary=cost,
    )


async def _figures(
    parts: Parts, view: TrainingJobView, caller: Caller
) -> tuple[FinalMetrics | None, CostSummary | None]:
    """The metrics and the cost as of now; None if they cannot be read: the job is cancelled nevertheless."""
    try:
        metrics = await parts.costs.metrics.current(view.job, caller=caller)
        cost = await parts.costs.of_job(view.job.id, caller=caller)
    except (Throttled, Unavailable, NotFound):
        return None, None
    duration = view.run_time(parts.clock.now())
    return final_metrics(metrics, duration), None if cost is None else cost_summary(cost)


@operations.add("PauseTrainingJob", "POST", f"{JOB}/pause", Permission.SELF, optional_body=True)
async def pause_training_job(parts: Parts, call: Call[PauseTrainingJobRequest]) -> PauseResponse:
    """Pauses a training job until it is resumed.

    A running job with a checkpoint directory is first requested to write a checkpoint. Then its containers are stopped,
    and its resources are released. The stopped attempt does not count as a retry. This holds for every exit
    code. A repeated request changes nothing.
    """
    job, caller = await find_job(parts, call), call.caller
    order = StopRequest(kind=StopKind.PAUSE, reason=call.input.reason or f"Paused by {caller.user}")
    pause = partial(parts.jobs.stop, job.id, order, caller=caller)
    return await _change(parts, job, pause, refused=_NOT_PAUSABLE, required=PAUSABLE, caller=caller)


@operations.add("ResumeTrainingJob", "POST", f"{JOB}/resume", Permission.SELF, optional_body=True)
async def resume_training_job(parts: Parts, call: Call[EmptyRequest]) -> PauseResponse:
    """Resumes a paused training job.

    The job waits at its old position in its queue, and its next attempt finds the checkpoints of the others. A job that
    is not paused is unchanged.
    """
    job, caller = await find_job(parts, call), call.caller
    resume = partial(parts.jobs.resume_job, job.id, caller=caller)
    return await _change(parts, job, resume, refused=FINAL, required=RESUMABLE, caller=caller)


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
    view = TrainingJobView(job)
    if status_of(view) in FINAL:
        raise state_conflict(view, required=CANCELLABLE)
    if view.phase is TrainingPhase.TIMING_OUT:
        problem = "has reached its time limit and is being stopped"
        raise state_conflict(view, required=CANCELLABLE, problem=problem)


async def _change(
    parts: Parts,
    job: Job,
    change: Callable[[], Awaitable[object]],
    *,
    refused: frozenset[TrainingStatus],
    required: str,
    caller: Caller,
) -> PauseResponse:
    """Change a job in none of the statuses `refused`. `required`: the other statuses, as text."""
    view = TrainingJobView(job)
    if status_of(view) in refused:
        raise state_conflict(view, required=required)
    try:
        await change()
    except Invalid as why:  # the job may have ended since it was read
        view = TrainingJobView(await read_job(parts, job.id, caller))
        raise (state_conflict(view, required=required) if status_of(view) in FINAL else impossible(str(why))) from None
    return PauseResponse(job_id=job.id, status=status_of(TrainingJobView(await read_job(parts, job.id, caller))))
