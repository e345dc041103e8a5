"""The page that submits a job: from a job definition, from an image, or like an existing job."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from batchq.api.console.forms import FormState, new_invocation
from batchq.api.console.pages import Page, PageAnswer, PageTable, give_order
from batchq.api.console.submission_errors import field_errors, field_of
from batchq.api.console.submission_form import SUBMIT, SubmissionForm, Word, aws_command, batchq_command, fields_of
from batchq.api.console.submission_group import group_id, jobs_of, volumes_of
from batchq.api.http.http import RequestQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import BatchCalls, Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import DefinitionStatus
from batchq.domain.ids import job_path
from batchq.errors import Invalid, NotFound
from batchq.services.client_requests import (
    Content,
    JobDocument,
    Request,
    UserDocument,
    container_properties,
    equal_revision,
    foreign_authors,
    has_one_container,
    image_definition,
    image_definition_name,
    repeat,
)
from batchq.services.sweep_requests import SweepMember

MAX_DESCRIBED = 100  # jobs of one request
MAX_REVISIONS = 500  # job definitions of the list
AT_ONCE = 16  # requests at the same time

pages = PageTable()


class SubmitQuery(RequestQuery):
    """The fields that are filled in."""

    definition: Word = ""
    image: Word = ""
    like: Word = ""
    queue: Word = ""


@pages.get("/submit", Permission.SELF)
async def submit_page(parts: Parts, visit: Call[SubmitQuery]) -> PageAnswer:
    given = visit.input
    fields = given.model_dump()
    if given.like:
        fields |= fields_of(await _base(parts.batch, given.like, visit.caller))
    form = SubmissionForm.model_construct(invocation=new_invocation(), **fields)
    return await _page(parts, form, visit.caller)


@pages.post("/submit", Permission.SELF)
async def post_submit(parts: Parts, visit: Call[SubmissionForm]) -> PageAnswer:
    form, caller = visit.input, visit.caller
    if form.action == SUBMIT:
        return await give_order(parts, visit, _order, _refused_page)
    try:
        members, warning = await _checked(parts.batch, form, caller)
    except Invalid as why:
        return await _page(parts, form, caller, refusal=FormState(error=str(why), status=HTTPStatus.BAD_REQUEST))
    return await _page(parts, form, caller, members=members, warning=warning)


async def _order(parts: Parts, visit: Call[SubmissionForm]) -> str:
    form, caller = visit.input, visit.caller
    members = await _members(parts.batch, form, caller)
    if "\n".join(await _authors(parts.batch, form, caller)) != "\n".join(form.authors.splitlines()):
        raise Invalid("Other users wrote what this job runs: submit it again if you want to run it.")
    return await _submit(parts.batch, form, members, caller)


async def _refused_page(parts: Parts, visit: Call[SubmissionForm], state: FormState) -> Page:
    return await _page(parts, visit.input, visit.caller, refusal=state)


async def _page(
    parts: Parts,
    form: SubmissionForm,
    caller: Caller,
    *,
    members: Sequence[SweepMember] = (),
    warning: str = "",
    refusal: FormState | None = None,
) -> Page:
    """`members`: the jobs of a form whose check found no error; empty: the form was not checked.

    `warning`: why no compute environment could hold the job; empty: one could.
    """
    like = await find_documents(parts.batch, [form.like] if form.like else [], caller)
    request = members[0].request if members else {}
    error, status = ("", HTTPStatus.OK) if refusal is None else (refusal.error, refusal.status)
    marks = (dict(field_errors(form)) or {field_of(error): error}) if error else {}
    values = {
        "authors": await _authors(parts.batch, form, caller),
        "form": form,
        "error": "" if marks and "" not in marks else error,
        "marks": marks,
        "warning": warning,
        "definitions": await _definition_names(parts, caller),
        "queues": sorted(parts.catalog.queues_of(caller)),
        "one_container": all(map(has_one_container, like)),
        "jobs": len(members),
        "words": request.get("containerOverrides", {}).get("command", []),
        "aws_command": aws_command(request) if members else "",
        "batchq_command": batchq_command(form, await _request(parts.batch, form, caller)) if members else "",
    }
    return Page(template="submit.html", title="Submit a job", values=values, status=status)


async def _definition_names(parts: Parts, caller: Caller) -> list[str]:
    """The names of the definitions that the caller may use, of the first MAX_REVISIONS ACTIVE revisions."""
    found = await parts.catalog.definitions.page(
        name=None, status=DefinitionStatus.ACTIVE.value, limit=MAX_REVISIONS, after=None, caller=caller
    )
    return list(dict.fromkeys(definition.ref.name for definition in found))


async def _authors(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> list[str]:
    """A sentence for each other user whose container policy may limit the job, as an author of what the job runs."""
    jobs = await find_documents(batch, [form.like] if form.like else [], caller)
    found = [await _named_definition(batch, form.definition, caller)] if form.definition else []
    return foreign_authors(jobs, filter(None, found), caller=caller_document(caller))


async def _named_definition(batch: BatchCalls, name: str, caller: Caller) -> Content:
    """The revision, or the newest ACTIVE one of a name, as DescribeJobDefinitions returns it; empty if missing."""
    if ":" in name:
        try:
            return await described_definition(batch, name, caller)
        except Invalid:  # an ARN of something else
            return {}
    query = {"jobDefinitionName": name, "status": "ACTIVE", "maxResults": 1}
    found = await batch.call("DescribeJobDefinitions", query, caller=caller)
    newest: Content = next(iter(found["jobDefinitions"]), {})
    return newest


def caller_document(caller: Caller) -> UserDocument:
    """The caller, as whoami returns it."""
    return {"user": caller.user, "account": caller.account, "role": caller.role}


async def _request(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> Request:
    """The SubmitJob request of the form. Raises Invalid."""
    base = await _base(batch, form.like, caller) if form.like else {}
    return form.to_request(base)


async def _members(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> list[SweepMember]:
    """The jobs of the form. Raises Invalid; the page shows the error of each field."""
    for error in field_errors(form).values():
        raise Invalid(error)
    return jobs_of(form, await _request(batch, form, caller))


async def _checked(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> tuple[list[SweepMember], str]:
    """The jobs and the warning of the first, after a check that changes nothing. Raises Invalid."""
    members, definition = await _members(batch, form, caller), None
    if form.image:
        properties = container_properties(image=form.image, volumes=volumes_of(form), user=None)
        name = image_definition_name(form.image, properties)
        definition = image_definition(name, properties)
        members = [member.with_members_of({"jobDefinition": name}) for member in members]
    return members, await batch.check_submission(members[0].request, definition=definition, caller=caller) or ""


async def _submit(batch: BatchCalls, form: SubmissionForm, members: Sequence[SweepMember], caller: Caller) -> str:
    """Submit the jobs, and return the path of the page of the job or of the group. Raises Invalid.

    A repeated form submits the jobs that an error left out.
    """
    if form.image:
        name = await _registered(batch, form, caller)
        members = [member.with_members_of({"jobDefinition": name}) for member in members]
    first = await _call(batch, "SubmitJob", members[0].request, caller, members[0].invocation)
    limit = asyncio.Semaphore(AT_ONCE)

    async def submit(member: SweepMember) -> None:
        async with limit:
            await _call(batch, "SubmitJob", member.request, caller, member.invocation)

    outcomes = await asyncio.gather(*map(submit, members[1:]), return_exceptions=True)
    errors = [outcome for outcome in outcomes if outcome is not None]
    if errors and isinstance(errors[0], Invalid):
        raise Invalid(f"{len(members) - len(errors)} of {len(members)} jobs were submitted: {errors[0]}")
    if errors:
        raise errors[0]
    group = group_id(members[0].request, caller.owner) if len(members) > 1 else None
    return job_path(first["jobId"]) if group is None else f"/ui/groups/{group}"


async def _base(batch: BatchCalls, job_id: str, caller: Caller) -> Request:
    """The request for a job like an existing one. Raises NotFound."""
    (job,) = await find_documents(batch, [job_id], caller)
    return repeat(job, await described_definition(batch, job["jobDefinition"], caller))


async def find_documents(batch: BatchCalls, ids: Sequence[str], caller: Caller) -> list[JobDocument]:
    """The jobs as DescribeJobs returns them, in the order of `ids`. Raises NotFound for the first that is missing."""
    found: dict[str, JobDocument] = {}
    for some in range(0, len(ids), MAX_DESCRIBED):
        page = await batch.call("DescribeJobs", {"jobs": ids[some : some + MAX_DESCRIBED]}, caller=caller)
        found |= {job["jobId"]: job for job in page["jobs"]}
    for job_id in ids:
        if job_id not in found:
            raise NotFound(f"Job {job_id} not found.")
    return [found[identifier] for identifier in ids]


async def described_definition(batch: BatchCalls, arn: str, caller: Caller) -> Content:
    """The revision as DescribeJobDefinitions returns it; empty if it is not stored, or not visible to the caller."""
    found = await batch.call("DescribeJobDefinitions", {"jobDefinitions": [arn]}, caller=caller)
    return next(iter(found["jobDefinitions"]), {})


async def _registered(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> str:
    """The `name:revision` of the definition for an image, which is registered if it does not exist. Raises Invalid."""
    image, volumes = form.image, volumes_of(form)
    properties = container_properties(image=image, volumes=volumes, user=None)
    try:
        return await _find_or_register(batch, image_definition_name(image, properties), properties, caller)
    except Invalid:  # the name belongs to a user of another account, or the image is not allowed
        own = image_definition_name(image, properties, owner=caller.user)
        return await _find_or_register(batch, own, properties, caller)


async def _find_or_register(batch: BatchCalls, name: str, properties: Content, caller: Caller) -> str:
    query = {"jobDefinitionName": name, "status": "ACTIVE"}
    found = await batch.call("DescribeJobDefinitions", query, caller=caller)
    known = equal_revision(found["jobDefinitions"], name, properties, caller=caller_document(caller))
    if known is not None:
        return known
    made = await batch.call("RegisterJobDefinition", image_definition(name, properties), caller=caller)
    return f"{made['jobDefinitionName']}:{made['revision']}"


async def _call(
    batch: BatchCalls, operation: str, content: Mapping[str, object], caller: Caller, invocation: str
) -> Mapping[str, Any]:
    """As `BatchCalls.call`; what a field names and does not exist is Invalid, so that the form is shown again."""
    try:
        return await batch.call(operation, content, caller=caller, invocation=invocation)
    except NotFound as why:
        raise Invalid(str(why)) from None
