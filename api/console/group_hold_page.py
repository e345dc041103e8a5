"""The pages that hold the waiting jobs of a group and release its held ones: a preview with the number, and the order.

The API holds one job at a time, so an order for a group is one order for each job, each with its audit record. The
order is for jobs that wait, or are held, when the order is applied, and that were submitted before the preview. Jobs
that have started since then are left alone.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import Form, FormState
from batchq.api.console.group_page import find_group
from batchq.api.console.hold_pages import HOLD, RELEASE, HoldAction
from batchq.api.console.pages import Page, PageTable
from batchq.api.console.stop_page import MAX_REASON, checked_reason
from batchq.api.operations.job_pages import job_pages
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.bulk_stop import children_count
from batchq.domain.enums import QUEUED
from batchq.domain.groups import Group
from batchq.domain.ids import group_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_messages import WIDE, with_children
from batchq.domain.times import milliseconds
from batchq.domain.wording import counted
from batchq.errors import Invalid
from batchq.ports.job_search import PageQuery

READ_AT_ONCE = 1000  # jobs
MAX_SHOWN = 100  # jobs that a page lists
_SELECTED = {
    HOLD.name: JobSelection(statuses=frozenset(QUEUED)),
    RELEASE.name: JobSelection(held=True),
}

pages = PageTable()


class GroupHoldForm(Form):
    """An order to hold or release jobs of a group."""

    #: When the preview was made, in milliseconds since the epoch: later jobs are left alone.
    before: Annotated[int, Field(ge=0, lt=2**53)]
    #: The number of jobs and children of the preview.
    jobs: Annotated[int, Field(ge=0, lt=2**31)]
    #: The same number, as it was typed; needed for more than WIDE of them.
    count: Annotated[str, Field(max_length=20)] = ""
    #: Empty: the user's name is the reason.
    reason: Annotated[str, Field(max_length=4 * MAX_REASON)] = ""


class GroupHoldPreview(Struct, kw_only=True):
    """The jobs that an order would change: all are counted, and the first are kept."""

    count: int = 0
    #: Of arrays among them.
    children: int = 0
    first: list[Job]

    @property
    def heading(self) -> str:
        return f"{counted(self.count, 'job')}{with_children(self.children)}"

    def add(self, jobs: Sequence[Job]) -> None:
        self.count += len(jobs)
        self.children += sum(map(children_count, jobs))
        self.first += jobs[: MAX_SHOWN - len(self.first)]


def _add_order(action: HoldAction) -> None:
    async def page(parts: Parts, visit: Call[None], state: FormState) -> Page:
        return await _page(action, parts, visit, state)

    @pages.order(f"/groups/{{group:g-[0-9a-f]{{20}}}}/{action.name}", Permission.SELF, page=page)
    async def order(parts: Parts, visit: Call[GroupHoldForm]) -> str:
        group, form = await find_group(parts, visit.path["group"], visit.caller), visit.input
        reason = checked_reason(form.reason.strip()) or f"{action.default_reason} {visit.caller.user or 'a request'}"
        if form.jobs > WIDE and form.count.strip().replace(",", "") != str(form.jobs):
            raise Invalid(f"Type the number of jobs, {form.jobs:,}, to confirm the order.")
        caller = replace(visit.caller, operation=action.operation)
        async for jobs in _jobs(action, parts, group, form.before, caller):
            await asyncio.gather(*(_order(action, parts, job, reason, caller) for job in jobs))
        return group_path(group.terms.id)


for _action in (HOLD, RELEASE):
    _add_order(_action)


async def _order(action: HoldAction, parts: Parts, job: Job, reason: str, caller: Caller) -> None:
    """Hold or release one job. A job that has started or ended since it was read is left alone."""
    with suppress(Invalid):
        if action is HOLD:
            await parts.jobs.hold(job.id, reason, caller=caller)
        else:
            await parts.jobs.release(job.id, caller=caller)


async def _jobs(
    action: HoldAction, parts: Parts, group: Group, before: int, caller: Caller
) -> AsyncIterator[Sequence[Job]]:
    """The jobs that an order changes, an array as one job, the newest first, READ_AT_ONCE at a time."""
    groups = frozenset({group.terms.id})
    selection = replace(_SELECTED[action.name], groups=groups, created_before=before)
    async for page in job_pages(parts, PageQuery(selection=selection, limit=READ_AT_ONCE), caller=caller):
        yield [job for job in page.jobs if action is RELEASE or job.hold is None]


async def _page(action: HoldAction, parts: Parts, visit: Call[None], state: FormState) -> Page:
    group, before = await find_group(parts, visit.path["group"], visit.caller), milliseconds(parts.clock.now()) + 1
    preview = GroupHoldPreview(first=[])
    async for jobs in _jobs(action, parts, group, before, visit.caller):
        preview.add(jobs)
    values = {
        "group": group,
        "path": group_path(group.terms.id),
        "action": action,
        "preview": preview,
        "total": preview.count + preview.children,
        "must_type": preview.count + preview.children > WIDE,
        "before": before,
        **state.values,
    }
    title = f"{action.name.capitalize()} group {group.terms.name}"
    return Page(template="group_hold.html", title=title, values=values, status=state.status)
