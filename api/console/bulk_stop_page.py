"""The pages that cancel or terminate several jobs: a preview, the order, and its outcomes.

An order is for the jobs of the preview that the user saw. Up to MAX_NAMED jobs it names them. Beyond, it selects with
the same filters the jobs that were created before the preview. If other jobs match by then, as those that have started
since under a filter of states, nothing is ordered, and a new preview is shown.
"""

from array import array
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import FormState
from batchq.api.console.job_filters import JobFilters
from batchq.api.console.pages import Page, PageAnswer, PageTable
from batchq.api.console.state import ConsoleState
from batchq.api.console.stop_page import REASONS, ReasonForm
from batchq.api.operations.job_pages import in_slices
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.bulk_stop import JobOutcome, outcome_message
from batchq.domain.enums import Outcome, StopKind
from batchq.domain.ids import GroupId, JobId, group_path
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_messages import (
    DONE,
    WIDE,
    WOULD_BE_DONE,
    consequences_of_cancel,
    consequences_of_terminate,
    outcome_text,
    with_children,
)
from batchq.domain.stop_request import StopRequest
from batchq.domain.times import milliseconds
from batchq.domain.wording import counted
from batchq.errors import Invalid, NotFound
from batchq.services.bulk_stop import Outcomes, require_stop_ids

_OPERATIONS = {StopKind.CANCEL: "CancelJobsByFilter", StopKind.TERMINATE: "TerminateJobsByFilter"}
#: The orders that many jobs can receive.
Kind = Literal[StopKind.CANCEL, StopKind.TERMINATE]
MAX_NAMED = 5000  # jobs that an order names
MAX_SHOWN = 100  # jobs that a page lists
_CHANGES = frozenset(WOULD_BE_DONE)

pages = PageTable()


class BulkStopQuery(JobFilters):
    """A preview."""

    kind: Kind = StopKind.TERMINATE


class BulkStopForm(ReasonForm, BulkStopQuery):
    """An order for the jobs of a preview, whose invocation it carries."""

    kind: Kind
    #: The number of jobs and children, as it was typed; needed for more than WIDE of them.
    count: Annotated[str, Field(max_length=20)] = ""


def outcome_name(outcome: JobOutcome) -> str:
    """The name of the outcome; another one for a job that an earlier order stops already."""
    if outcome.standing is None:
        return outcome.outcome.value
    return "ALREADY_CANCELLED" if outcome.outcome is Outcome.NOT_RETRIED else "ALREADY_STOPPING"


class OutcomeCounts(Struct, kw_only=True):
    """The outcomes of an order or of a preview: all are counted, and the first are kept."""

    kind: Kind
    counts: Counter[str] = field(default_factory=Counter)
    #: The children of arrays that the order concerns, by the outcome of their array.
    children: Counter[str] = field(default_factory=Counter)
    first: list[JobOutcome] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """The jobs that the order changes."""
        return sum(count for outcome, count in self.counts.items() if outcome in _CHANGES)

    @property
    def changed_children(self) -> int:
        """The children of the arrays that the order changes."""
        return sum(count for outcome, count in self.children.items() if outcome in _CHANGES)

    @property
    def heading(self) -> str:
        """The jobs that the order changes, with the children of arrays."""
        return f"{counted(self.changed, 'job')}{with_children(self.changed_children)}"

    def add(self, outcomes: Outcomes) -> None:
        self.counts.update(map(outcome_name, outcomes))
        for outcome in outcomes:
            self.children[outcome_name(outcome)] += outcome.children
        self.first += outcomes[: MAX_SHOWN - len(self.first)]


class StopPreview(OutcomeCounts, kw_only=True):
    """A preview that a user has seen."""

    selection: JobSelection
    #: The ids of the jobs that the order would change; None: more than MAX_NAMED.
    ids: list[JobId] | None = field(default_factory=list)
    #: The hashes of these ids, however many: 8 bytes a job.
    hashes: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, outcomes: Outcomes) -> None:
        """Count the outcomes, and keep the ids while they are few."""
        super().add(outcomes)
        changed = [outcome.job_id for outcome in outcomes if outcome_name(outcome) in _CHANGES]
        self.hashes.extend(map(hash, changed))
        if self.ids is not None:
            self.ids += changed
            self.ids = self.ids if len(self.ids) <= MAX_NAMED else None

    def target(self) -> JobSelection:
        """The jobs to stop: no others than those of the preview, or those of its filters that are as old."""
        return self.selection if self.ids is None else replace(self.selection, ids=tuple(self.ids))


async def bulk_stop_page(parts: Parts, visit: Call[BulkStopQuery], state: FormState) -> Page:
    filters, caller = visit.input, visit.caller
    kind, selection = filters.kind, _selection(filters, parts.clock.now())
    await parts.bulk_stops.check(selection, caller=caller)
    preview = StopPreview(kind=kind, selection=selection)
    request = StopRequest(kind=kind, reason="")
    await _collect(preview, await parts.bulk_stops.preview(request, selection, caller=caller))
    parts.state(ConsoleState).recent_results.keep(caller, state.invocation, preview)
    values = {
        **state.values,
        **_outcome_values(preview, WOULD_BE_DONE),
        "reasons": REASONS,
        "preview": preview,
        "filters": filters.filters(),
        "shown_filters": await _shown_filters(parts, filters, caller),
        "must_type": preview.changed + preview.changed_children > WIDE,
        "back": _path_before(filters),
        "other_kind": f"/ui/stop?{urlencode([('kind', _other(kind)), *filters.filters()])}",
    }
    return Page(template="bulk_stop.html", title=f"{kind.capitalize()} jobs", values=values, status=state.status)


@pages.order("/stop", Permission.SELF, page=bulk_stop_page)
async def bulk_stop(parts: Parts, visit: Call[BulkStopForm]) -> str:
    form, recent = visit.input, parts.state(ConsoleState).recent_results
    preview = recent.find(StopPreview, visit.caller, form.invocation)
    if preview is None or preview.kind is not form.kind:
        raise Invalid("The preview is no longer stored: nothing was ordered. This is a new one.")
    _check_count(form.count, preview.changed + preview.changed_children)
    request = StopRequest(kind=form.kind, reason=form.whole_reason())
    if preview.ids is None:
        await _require_no_others(parts, request, preview, visit.caller)
    result = OutcomeCounts(kind=form.kind)
    caller = replace(visit.caller, operation=_OPERATIONS[form.kind])
    await _collect(result, await parts.bulk_stops.stop(request, preview.target(), caller=caller))
    recent.keep(visit.caller, form.invocation, result)
    return f"/ui/stop/results/{form.invocation}"


async def _require_no_others(parts: Parts, request: StopRequest, preview: StopPreview, caller: Caller) -> None:
    """Raise Invalid if the order would change jobs that the preview did not have."""
    now, known = StopPreview(kind=preview.kind, selection=preview.selection), set[int]()
    await _collect(now, await parts.bulk_stops.preview(request, preview.selection, caller=caller))
    async for each in in_slices(preview.hashes):
        known.add(each)
    others = [each async for each in in_slices(now.hashes) if each not in known]
    if others:
        text = f"{counted(len(others), 'job')} that {'was' if len(others) == 1 else 'were'} not in the preview"
        raise Invalid(f"The filters now select {text}: nothing was ordered. This is a new one.")


@pages.get("/stop/results/{invocation}", Permission.SELF)
async def bulk_stop_result(parts: Parts, visit: Call[None]) -> PageAnswer:
    result = parts.state(ConsoleState).recent_results.find(OutcomeCounts, visit.caller, visit.path["invocation"])
    if result is None:
        raise NotFound("The result is not stored.")
    values = {"result": result} | _outcome_values(result, DONE)
    return Page(template="bulk_stop_result.html", title="Outcome of the order", values=values)


async def _shown_filters(parts: Parts, filters: JobFilters, caller: Caller) -> list[tuple[str, str]]:
    """The filters as a reader knows them: groups by their names. Chosen jobs are left out, since they are listed."""
    groups = await parts.search.groups(list(map(GroupId, filters.group)), caller=caller) if filters.group else {}
    names = {str(group_id): group.terms.name for group_id, group in groups.items()}
    return [
        (name, names.get(value, value) if name == "group" else value)
        for name, value in filters.filters()
        if name != "job"
    ]


def _path_before(filters: JobFilters) -> str:
    """The path of the page that leads to the preview: of the group whose jobs are selected, else the list of jobs."""
    match filters.filters():
        case [("group", group_id)]:
            return group_path(group_id)
        case _:
            return "/ui/jobs"


def _outcome_values(of: OutcomeCounts, texts: Mapping[str, str]) -> dict[str, object]:
    """The variables of the templates of outcomes. `texts`: DONE or WOULD_BE_DONE."""
    return {"lines": _lines(of, texts), "texts": texts, "text": _text, "message": outcome_message}


def _text(outcome: JobOutcome, texts: Mapping[str, str]) -> str:
    return outcome_text(outcome_name(outcome), texts)


async def _collect(into: OutcomeCounts, outcomes: AsyncIterator[Outcomes]) -> None:
    async for each in outcomes:
        into.add(each)


def _lines(of: OutcomeCounts, texts: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """For each outcome the number of jobs, its text, and what follows for the jobs."""
    if of.kind is StopKind.CANCEL:
        consequences = consequences_of_cancel()
    else:
        consequences = consequences_of_terminate(signal=None, grace=None, checkpoint=False, force=False)
    return [
        (count, f"{outcome_text(value, texts)}{with_children(of.children[value])}", consequences.get(value, ""))
        for value, count in sorted(of.counts.items())
    ]


def _check_count(typed: str, count: int) -> None:
    """Raise Invalid unless the number of jobs was typed, if they are many, or if there are none."""
    if not count:
        raise Invalid("The order would change nothing.")
    if count > WIDE and typed.strip().replace(",", "") != str(count):
        raise Invalid(f"Type the number of jobs, {count:,}, to confirm the order.")


def _other(kind: Kind) -> Kind:
    return StopKind.CANCEL if kind is StopKind.TERMINATE else StopKind.TERMINATE


def _selection(filters: JobFilters, now: datetime) -> JobSelection:
    """The jobs that exist now. Raises Invalid without a filter, and for a text that is not an id."""
    if not filters.narrowed_filters():
        raise Invalid("No jobs are selected: choose jobs, or give a filter.")
    require_stop_ids(filters.job)
    selection = filters.selection(now)
    # A job that was created in the millisecond of the preview is in the preview.
    before = milliseconds(now) + 1
    return replace(selection, created_before=min(before, selection.created_before or before))
