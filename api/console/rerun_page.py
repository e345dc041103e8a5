"""The pages that submit finished jobs again: a preview, the order, and the new jobs. As `batchq rerun`."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import Form, FormState
from batchq.api.console.job_filters import JobFilters
from batchq.api.console.pages import Page, PageAnswer, PageTable, parse_members
from batchq.api.console.state import ConsoleState
from batchq.api.console.submission_form import Word, amounts_overrides
from batchq.api.console.submit_page import caller_document, described_definition, find_documents
from batchq.api.http.http import RequestQuery
from batchq.api.operations.job_pages import job_pages
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import BatchCalls, Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import GroupId, JobId, job_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.stopping import is_stopped_by_user
from batchq.domain.memory_shortage import memory_shortage
from batchq.errors import BatchqError, Invalid, NotFound
from batchq.ports.job_search import PageQuery
from batchq.services.client_requests import (
    JobDocument,
    LeftOut,
    Request,
    foreign_authors,
    has_one_container,
    repeat,
    select_failed,
    with_changes,
)

MAX_JOBS = 1000  # of one order
MAX_SHOWN = 100  # jobs that a page lists
MAX_SEARCHES = 20  # pages of the search for all jobs that match
AT_ONCE = 16  # requests at the same time
Ids = Annotated[list[Word], Field(max_length=MAX_JOBS)]

pages = PageTable()


class RerunSelection(RequestQuery):
    """The jobs to submit again."""

    job: Ids = Field(default_factory=list)
    #: The id of a group: its failed jobs, in place of `job`.
    group: Word = ""
    #: The filters of a list of jobs, as its query: all finished jobs that match, in place of `job`.
    matching: Annotated[str, Field(max_length=4096)] = ""
    #: Whether only failed jobs are repeated; of an array its failed children. Repeated jobs are left out.
    failed: bool = False
    #: Whether `failed` includes jobs that a user cancelled or terminated.
    also_stopped: bool = False
    #: Of `failed` only jobs that were killed for a lack of memory, and requested less than this in MiB; None: all.
    out_of_memory_below: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    #: The memory of the new jobs; empty: as in the old job.
    memory: Word = ""


class RerunForm(Form, RerunSelection):
    """An order to submit jobs again, with changes; empty: as in the old job."""

    queue: Word = ""
    vcpus: Word = ""

    def changes(self) -> Request:
        """The members of the requests that differ from those of the old jobs. Raises Invalid."""
        queue = {"jobQueue": self.queue} if self.queue else {}
        return queue | amounts_overrides(vcpus=self.vcpus, memory=self.memory)


class RerunJob(Struct, frozen=True, kw_only=True):
    """The outcome for one job."""

    old: str
    name: str
    #: The id of the new job; empty if the request was refused.
    new: str = ""
    #: Why the request was refused.
    error: str = ""


class RerunResult(Struct, frozen=True, kw_only=True):
    """The outcomes of one order."""

    jobs: tuple[RerunJob, ...]

    @property
    def submitted(self) -> int:
        return sum(bool(job.new) for job in self.jobs)


async def rerun_page(parts: Parts, visit: Call[RerunSelection], state: FormState) -> Page:
    selection, caller = visit.input, visit.caller
    jobs: Sequence[JobDocument] = ()
    left_out = LeftOut()
    try:
        jobs, left_out = await _selected(parts, selection, caller)
    except NotFound:
        raise
    except Invalid as why:
        state = replace(state, error=state.error or str(why), status=HTTPStatus.BAD_REQUEST)
    values = {
        "selection": selection,
        "jobs": jobs,
        "left_out": left_out,
        "with_stopped": _with_stopped(selection),
        "authors": await _authors(parts.batch, jobs, caller),
        "shown": jobs[:MAX_SHOWN],
        "like": jobs[0]["jobId"] if len(jobs) == 1 else "",
        "statuses": {status.value: status for status in Status},
        "queues": sorted(parts.catalog.queues_of(caller)),
        "may_change": all(has_one_container(job) for job in jobs),
        **state.values,
    }
    return Page(template="rerun.html", title="Submit jobs again", values=values, status=state.status)


@pages.order("/rerun", Permission.SELF, page=rerun_page)
async def rerun(parts: Parts, visit: Call[RerunForm]) -> str:
    form, caller = visit.input, visit.caller
    jobs, left_out = await _selected(parts, form, caller)
    if not jobs:
        raise Invalid(f"No job is submitted: {left_out}.")
    result = RerunResult(jobs=await _submit(parts.batch, jobs, form, caller))
    if not result.submitted:
        raise Invalid(result.jobs[0].error)
    if len(result.jobs) == 1:
        return job_path(result.jobs[0].new)
    parts.state(ConsoleState).recent_results.keep(caller, form.invocation, result)
    return f"/ui/rerun/results/{form.invocation}"


@pages.get("/rerun/results/{invocation}", Permission.SELF)
async def rerun_result(parts: Parts, visit: Call[None]) -> PageAnswer:
    result = parts.state(ConsoleState).recent_results.find(RerunResult, visit.caller, visit.path["invocation"])
    if result is None:
        raise NotFound("The result is not stored.")
    return Page(template="rerun_result.html", title="Jobs that were submitted again", values={"result": result})


def _with_stopped(selection: RerunSelection) -> str:
    """The query that includes stopped jobs too."""
    given = [("group", selection.group), ("failed", "true"), ("alsoStopped", "true"), ("memory", selection.memory)]
    return urlencode([*(("job", text) for text in selection.job), *(pair for pair in given if pair[1])])


async def _authors(batch: BatchCalls, jobs: Sequence[JobDocument], caller: Caller) -> list[str]:
    """Sentences that name the other users who wrote what the jobs run, where they may limit the new jobs."""
    arns = dict.fromkeys(job["jobDefinition"] for job in jobs)
    definitions = [await described_definition(batch, arn, caller) for arn in arns]
    return foreign_authors(jobs, filter(None, definitions), caller=caller_document(caller))


async def _selected(parts: Parts, selection: RerunSelection, caller: Caller) -> tuple[Sequence[JobDocument], LeftOut]:
    """The jobs to repeat, and how many are left out.

    Failed children stand in place of their arrays. Raises Invalid; NotFound for an unknown id.
    """
    ids: Sequence[str] = selection.job
    if selection.group:
        ids = await _failed_in_group(parts, selection.group, caller)
    elif selection.matching:
        ids = await _matching(parts, selection.matching, caller)
    if not ids:
        raise Invalid("No jobs are selected.")
    jobs, left_out = await find_documents(parts.batch, list(dict.fromkeys(ids)), caller), LeftOut()
    if selection.failed:
        failed = {found.id: found for job in jobs for found in await _failed(parts, job, caller)}
        below = selection.out_of_memory_below
        if below is not None:
            failed = {job_id: job for job_id, job in failed.items() if _was_killed(job, below=below)}
        reruns = await parts.search.reruns(failed.values())
        chosen, left_out = select_failed(
            failed.values(),
            is_stopped=is_stopped_by_user,
            is_repeated=lambda job: job.id in reruns,
            also_stopped=selection.also_stopped,
        )
        jobs = await find_documents(parts.batch, [job.id for job in chosen], caller)
        if not failed:
            raise Invalid(f"None of the jobs {'is FAILED' if below is None else 'was killed for a lack of memory'}.")
    for job in jobs:
        if job["status"] not in FINISHED:
            raise Invalid(
                f"{job['jobName']} {job['jobId']} is {job['status']}: only finished jobs are submitted again."
            )
    if len(jobs) > MAX_JOBS:
        raise Invalid(f"{len(jobs):,} jobs are selected: at most {MAX_JOBS:,} are submitted at once. Use batchq rerun.")
    return jobs, left_out


async def _failed_in_group(parts: Parts, group_id: str, caller: Caller) -> list[str]:
    """The failed jobs of a group that no other job has replaced, the oldest first; at most MAX_JOBS."""
    selection = JobSelection(groups=frozenset({GroupId(group_id)}), statuses=frozenset({Status.FAILED}))
    page = await parts.search.search(PageQuery(selection=selection, limit=MAX_JOBS), caller=caller)
    return [job.id for job in reversed(page.jobs)]


async def _matching(parts: Parts, filters: str, caller: Caller) -> list[str]:
    """The finished jobs that match, the oldest first. Raises Invalid, and NotFound as a search does."""
    query = parse_members(filters, JobFilters)
    if not query.narrowed_filters():
        raise Invalid("No jobs are selected: choose jobs, or give a filter.")
    selection = query.selection(parts.clock.now())
    finished = replace(selection, statuses=selection.possible_statuses & FINISHED)
    jobs, reads = list[Job](), 0
    async for page in job_pages(parts, PageQuery(selection=finished, limit=MAX_JOBS + 1), caller=caller):
        jobs += page.jobs
        reads += 1
        if len(jobs) > MAX_JOBS:
            raise Invalid(
                f"More than {MAX_JOBS:,} jobs match: at most {MAX_JOBS:,} are submitted at once. Use batchq rerun."
            )
        if reads == MAX_SEARCHES and page.next is not None:
            raise Invalid("The search needs more steps than one request may take: use narrower filters.")
    return [job.id for job in reversed(jobs)]


async def _failed(parts: Parts, job: JobDocument, caller: Caller) -> Sequence[Job]:
    """The job if it FAILED; of an array its failed children, which it has while others are unfinished."""
    job_id = JobId(job["jobId"])
    if "size" not in job.get("arrayProperties", {}):
        found = await parts.jobs.find(job_id, caller=caller)
        return [found] if found is not None and found.status is Status.FAILED else []
    failed = JobSelection(parent=job_id, statuses=frozenset({Status.FAILED}))
    query = PageQuery(selection=failed, limit=MAX_JOBS)
    children = list[Job]()
    async for page in job_pages(parts, query, caller=caller):
        children += page.jobs
        if len(children) > MAX_JOBS:
            break
    return sorted(children, key=lambda child: child.sequence)


def _was_killed(job: Job, *, below: int) -> bool:
    shortage = memory_shortage(job)
    return shortage is not None and shortage.requested < below


async def _submit(
    batch: BatchCalls, jobs: Sequence[JobDocument], form: RerunForm, caller: Caller
) -> tuple[RerunJob, ...]:
    """Submit each job again. Each request has its own invocation, so that a repeated form repeats none of them."""
    changes = form.changes()
    if "containerOverrides" in changes and not all(map(has_one_container, jobs)):
        raise Invalid("A job with several containers keeps its resources.")
    definitions = {
        arn: await described_definition(batch, arn, caller) for arn in {job["jobDefinition"] for job in jobs}
    }
    limit = asyncio.Semaphore(AT_ONCE)

    async def submit(job: JobDocument) -> RerunJob:
        request = with_changes(repeat(job, definitions[job["jobDefinition"]]), changes)
        invocation, outcome = f"{form.invocation} {job['jobId']}", RerunJob(old=job["jobId"], name=job["jobName"])
        async with limit:
            try:
                made = await batch.call("SubmitJob", request, caller=caller, invocation=invocation)
            except BatchqError as why:
                return replace(outcome, error=str(why))
        return replace(outcome, new=made["jobId"])

    return tuple(await asyncio.gather(*map(submit, jobs)))
