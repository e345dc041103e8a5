"""The pages that hold, release, pause and resume a job. Each describes first what the order does to the job now."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import Form, FormState
from batchq.api.console.pages import Page, PageTable
from batchq.api.console.stop_page import MAX_REASON, checked_reason
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, QUEUED, StopKind
from batchq.domain.ids import JobId, job_path, short_id
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import stop_state
from batchq.domain.stop_request import StopRequest
from batchq.errors import NotFound

HELD = "The job keeps its place in the queue, holds up no other job, and does not start until it is released."
PAUSED = (
    "The attempt is stopped: a final checkpoint is requested if the job has a checkpoint directory, then it gets the "
    "stop signal, and SIGKILL after its grace period. The job then waits in its queue, its resources are free, and the "
    "attempt does not count against the retries."
)
FROM_START = "The job has no checkpoint directory: its next attempt does not continue from this one."
PAUSED_CHILDREN = (
    "The attempts of children that run are stopped, with a final checkpoint if the job has a checkpoint directory, and "
    "do not count against the retries. The children are held, and start again when the array is resumed."
)
CHILDREN = "This holds for all its children, also for those that are not created yet."
RELEASED = "The job may start again, at its old place in the queue."

pages = PageTable()


class HoldForm(Form):
    """An order to hold, release, pause or resume a job."""

    #: The `stop_state` that the page described.
    state: Annotated[str, Field(max_length=200)]
    #: Empty: the user's name is the reason.
    reason: Annotated[str, Field(max_length=4 * MAX_REASON)] = ""


class HoldAction(Struct, frozen=True, kw_only=True):
    """One of the four orders."""

    #: As in the path of its page.
    name: str
    #: The name of the operation of the API, as audit records have it.
    operation: str
    #: What the order does to a job in its present state.
    effect: Callable[[Job], str]
    #: The default reason without the user's name; empty: the order has no reason.
    default_reason: str = ""


def _held(job: Job) -> str:
    if job.status not in QUEUED:
        return ""
    return f"{HELD} {CHILDREN}" if is_parent(job) else HELD


def _paused(job: Job) -> str:
    if is_parent(job):
        return f"{PAUSED_CHILDREN} {CHILDREN}"
    if job.status in QUEUED:
        return HELD
    return PAUSED if job.spec.checkpoints is not None else f"{PAUSED} {FROM_START}"


def _released(job: Job) -> str:
    return RELEASED if job.hold is not None else ""


HOLD = HoldAction(name="hold", operation="HoldJob", effect=_held, default_reason="Held by")
RELEASE = HoldAction(name="release", operation="ReleaseJob", effect=_released)
PAUSE = HoldAction(name="pause", operation="PauseJob", effect=_paused, default_reason="Paused by")
RESUME = HoldAction(name="resume", operation="ResumeJob", effect=_released)


def _add_order(action: HoldAction) -> None:
    async def page(parts: Parts, visit: Call[None], state: FormState) -> Page:
        job = await _job(parts, visit)
        values = {
            "job": job,
            "action": action,
            "effect": "" if job.status in FINISHED else action.effect(job),
            "state": stop_state(job),
            **state.values,
        }
        title = f"{action.name.capitalize()} {job.spec.name} {short_id(job.id)}"
        return Page(template="hold.html", title=title, values=values, status=state.status)

    @pages.order(f"/jobs/{{id}}/{action.name}", Permission.SELF, page=page)
    async def order(parts: Parts, visit: Call[HoldForm]) -> str:
        job, form = await _job(parts, visit), visit.input
        reason = checked_reason(form.reason.strip())
        caller = replace(visit.caller, operation=action.operation)
        await _call(action, parts, job.id, reason, expected=form.state, caller=caller)
        return job_path(job.id)


for _action in (HOLD, RELEASE, PAUSE, RESUME):
    _add_order(_action)


def _call(
    action: HoldAction, parts: Parts, job_id: JobId, reason: str, *, expected: str, caller: Caller
) -> Awaitable[object]:
    reason = reason or f"{action.default_reason} {caller.user or 'a request'}"
    match action.name:
        case "hold":
            return parts.jobs.hold(job_id, reason, caller=caller, expected=expected)
        case "pause":
            request = StopRequest(kind=StopKind.PAUSE, reason=reason)
            return parts.jobs.stop(job_id, request, caller=caller, expected=expected)
        case "release":
            return parts.jobs.release(job_id, caller=caller)
        case _:
            return parts.jobs.resume_job(job_id, caller=caller)


async def _job(parts: Parts, visit: Call[Any]) -> Job:
    job_id = JobId(visit.path["id"])
    found = await parts.jobs.find(job_id, caller=visit.caller)
    if found is None:
        raise NotFound(f"Job {job_id} not found.")
    return found
