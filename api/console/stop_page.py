"""The pages that cancel, terminate or force-fail one job.

The form carries the state of the job that its sentences describe. An order for a job in another state is refused in the
unit of work that would apply it, and the page is shown again with the sentences of the new state.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import Form, FormState
from batchq.api.console.pages import Page, PageTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain import wording
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.bulk_stop import children_count
from batchq.domain.enums import FINISHED, Outcome, StopKind
from batchq.domain.explanation.started_reasons import NotExitingReason
from batchq.domain.ids import JobId, job_path, node_of, parent_of, short_id
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import stop_state
from batchq.domain.stop_forecast import StopForecast, forecast_stop
from batchq.domain.stop_messages import WIDE
from batchq.domain.stop_request import StopRequest, parse_signal
from batchq.errors import Invalid, NotFound

MAX_REASON = 1024
MAX_GRACE = 86_400  # seconds
MAX_DEPENDENTS = 100  # that are read
#: The reasons to choose from.
REASONS = (
    "no longer needed",
    "wrong input",
    "uses too many resources",
    "other jobs need the resources",
    "was only a test",
)
NOT_HANGING = (
    "Only a job whose container has not exited a minute after SIGKILL can be force-failed. Stop the job first."
)
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL")
STOPS = {StopKind.CANCEL: "CancelJob", StopKind.TERMINATE: "TerminateJob"}

pages = PageTable()


class ReasonForm(Form):
    """A reason: chosen, written, or both."""

    preset: Annotated[str, Field(max_length=100)] = ""
    reason: Annotated[str, Field(max_length=4 * MAX_REASON)] = ""

    def whole_reason(self) -> str:
        """Join the chosen and the written reason. Raises Invalid if both are empty or the result is too long."""
        parts = [text for text in (self.preset.strip(), self.reason.strip()) if text]
        text = ": ".join(parts)
        if not text:
            raise Invalid("Give a reason: choose one or write one.")
        return checked_reason(text)


def checked_reason(text: str) -> str:
    """Return `text`. Raises Invalid if it has more than MAX_REASON characters or a NUL character."""
    if len(text) > MAX_REASON:
        raise Invalid(f"The reason has {len(text)} characters: {MAX_REASON} are allowed.")
    if "\0" in text:
        raise Invalid("The reason must not contain a NUL character.")
    return text


class StopForm(ReasonForm):
    """An order for one job."""

    #: The `stop_state` that the page described.
    state: Annotated[str, Field(max_length=200)]
    #: CANCEL or TERMINATE; empty if none was chosen.
    order: Annotated[str, Field(max_length=20)] = ""
    signal: Annotated[str, Field(max_length=16)] = ""
    grace: Annotated[str, Field(max_length=16)] = ""
    checkpoint: bool = False
    force: bool = False
    #: The unfinished children of an array that the page described.
    children: Annotated[int, Field(ge=0, lt=2**31)] = 0
    #: The number of children, as it was typed; needed for more than WIDE of them.
    count: Annotated[str, Field(max_length=20)] = ""

    def to_request(self) -> StopRequest:
        """The request. Raises Invalid, with one sentence about what is wrong."""
        if self.order not in STOPS:
            raise Invalid("Choose cancel or terminate.")
        reason, kind = self.whole_reason(), StopKind(self.order)
        if kind is StopKind.CANCEL:
            return StopRequest(kind=kind, reason=reason)
        return StopRequest(
            kind=kind,
            reason=reason,
            grace=_grace(self.grace),
            signal=parse_signal(self.signal) if self.signal else None,
            checkpoint=self.checkpoint,
            force=self.force,
        )


class ForceFailForm(ReasonForm):
    """An order to give up the container of a job."""

    state: Annotated[str, Field(max_length=200)]


class StopSubject(Struct, frozen=True, kw_only=True):
    """The job or node that a page stops."""

    #: As the caller sees it.
    job: Job
    #: The whole job; `job` if it is no node.
    whole: Job
    #: The index of the node; None: the whole job.
    node: int | None


async def stop_page(parts: Parts, visit: Call[None], state: FormState) -> Page:
    subject, caller = await _subject(parts, visit), visit.caller
    choices = _choices(subject)
    values: dict[str, object] = {
        "job": subject.job,
        "state": stop_state(subject.whole),
        "choices": choices,
        "unfinished_children": children_count(subject.job),
        "must_type": children_count(subject.job) > WIDE,
        "can_be_stopped": any(forecast.has_effect for forecast in choices.values()),
        "dependents": await _dependents(parts, subject, caller, choices),
        "signals": SIGNALS,
        "has_checkpoints": subject.whole.spec.checkpoints is not None and subject.job.status not in FINISHED,
        "grace_seconds": round(subject.whole.spec.stop_grace.total_seconds()),
        "may_force_fail": caller.has(Permission.MAINTENANCE) and await _hangs(parts, subject, caller),
        "chosen": _chosen(state.form, choices),
        "reasons": REASONS,
    }
    title = f"Stop {subject.job.spec.name} {short_id(subject.job.id)}"
    return Page(template="stop.html", title=title, values=values | state.values, status=state.status)


@pages.order("/jobs/{id}/stop", Permission.SELF, page=stop_page)
@pages.order("/jobs/{id}/nodes/{node}/stop", Permission.SELF, page=stop_page)
async def stop(parts: Parts, visit: Call[StopForm]) -> str:
    subject, form = await _subject(parts, visit), visit.input
    request = form.to_request()
    _check_children(form, children_count(subject.job))
    caller = replace(visit.caller, operation=STOPS[request.kind])
    await parts.jobs.stop(subject.job.id, request, caller=caller, expected=form.state)
    return job_path(subject.job.id)


async def force_fail_page(parts: Parts, visit: Call[None], state: FormState) -> Page:
    subject = await _subject(parts, visit)
    values = {
        "job": subject.job,
        "state": stop_state(subject.whole),
        "hangs": await _hangs(parts, subject, visit.caller),
        "not_hanging": NOT_HANGING,
        "reasons": REASONS,
    }
    title = f"Force-fail {subject.job.spec.name} {short_id(subject.job.id)}"
    return Page(template="force_fail.html", title=title, values=values | state.values, status=state.status)


@pages.order("/jobs/{id}/force-fail", Permission.MAINTENANCE, page=force_fail_page)
async def force_failure(parts: Parts, visit: Call[ForceFailForm]) -> str:
    subject, form = await _subject(parts, visit), visit.input
    if not await _hangs(parts, subject, visit.caller):
        raise Invalid(NOT_HANGING)
    caller = replace(visit.caller, operation="ForceFail")
    await parts.jobs.force_fail(subject.job.id, form.whole_reason(), caller=caller, expected=form.state)
    return job_path(subject.job.id)


async def _subject(parts: Parts, visit: Call[Any]) -> StopSubject:
    """The job that the path names. Raises NotFound."""
    path, caller = visit.path, visit.caller
    job_id = JobId(f"{path['id']}#{path['node']}" if "node" in path else path["id"])
    whole_id, node = node_of(job_id)
    whole = await parts.jobs.find(whole_id, caller=caller)
    job = await parts.jobs.find(job_id, caller=caller)
    if job is None or whole is None:
        raise NotFound(f"Job {job_id} not found.")
    return StopSubject(job=job, whole=whole, node=node)


def _check_children(form: StopForm, children: int) -> None:
    """Raise Invalid unless the number of children was typed, if they are many. `children`: how many there are now."""
    shown = form.children or children
    if children > WIDE and form.count.strip().replace(",", "") != str(shown):
        raise Invalid(f"Type the number of children, {shown:,}, to confirm the order.")


def _choices(subject: StopSubject) -> Mapping[str, StopForecast]:
    """What each order would do, by its name: cancel, terminate, and terminate with a checkpoint or by force."""
    plain = StopRequest(kind=StopKind.TERMINATE, reason="")
    orders = {
        "cancel": StopRequest(kind=StopKind.CANCEL, reason=""),
        "terminate": plain,
        "checkpoint": replace(plain, checkpoint=True),
        "force": replace(plain, force=True),
    }
    return {name: forecast_stop(order, subject.whole, subject.node) for name, order in orders.items()}


def _chosen(form: Form | None, choices: Mapping[str, StopForecast]) -> str:
    """The selected order: that of the form, else CANCEL for a job that has not started, else TERMINATE."""
    if isinstance(form, StopForm) and form.order in STOPS:
        return form.order
    return StopKind.CANCEL if choices["cancel"].outcome is Outcome.CANCELLED else StopKind.TERMINATE


async def _dependents(parts: Parts, subject: StopSubject, caller: Caller, choices: Mapping[str, StopForecast]) -> str:
    """A sentence about the jobs that depend on the job; empty without such jobs."""
    if subject.job.status in FINISHED or not choices["terminate"].fails:
        return ""
    array = parent_of(subject.whole.id)
    found = await parts.jobs.dependents(
        subject.whole.id if array is None else array[0], limit=MAX_DEPENDENTS, caller=caller
    )
    if not found:
        return ""
    count = wording.counted(len(found), "job") + (" or more" if len(found) >= MAX_DEPENDENTS else "")
    names = wording.list_words([job.spec.name for job in found])
    what = "it" if array is None else "its array"
    verb = "depends" if len(found) == 1 else "depend"
    return f"{count} that {verb} on {what} will be FAILED if the job is FAILED: {names}."


async def _hangs(parts: Parts, subject: StopSubject, caller: Caller) -> bool:
    """Whether the container of the job has not exited although it was killed."""
    why = await parts.explanations.why(subject.whole.id, caller=caller)
    return isinstance(why, NotExitingReason)


def _grace(text: str) -> timedelta | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_GRACE)) and int(text) <= MAX_GRACE):
        raise Invalid(f"The grace period must be a number of seconds up to {MAX_GRACE:,}.")
    return timedelta(seconds=int(text))
