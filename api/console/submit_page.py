"""The page that submits a job: from a job definition, from an image, or like an existing job."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from batchq.api.console.forms import new_invocation
from batchq.api.console.pages import Page, PageAnswer, PageTable, give_order
from batchq.api.console.submission_form import SUBMIT, SubmissionForm, Word, aws_command, batchq_command, fields_of
from batchq.api.http.http import RequestQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import BatchCalls, Parts
from batchq.domain.access.accounts import Caller, Permission
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

MAX_DESCRIBED = 100  # jobs of one request

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

    async def show_again(error: str, status: HTTPStatus) -> Page:
        return await _page(parts, form, caller, error=error, status=status)

    async def order() -> str:
        request = await _request(parts.batch, form, caller)
        if "\n".join(await _authors(parts.batch, form, caller)) != "\n".join(form.authors.splitlines()):
            raise Invalid("Other users wrote what this job runs: submit it again if you want to run it.")
        if form.image:
            request["jobDefinition"] = await _registered(parts.batch, form.image, caller)
        job = await _call(parts.batch, "SubmitJob", request, caller, form.invocation)
        return job_path(job["jobId"])

    if form.action == SUBMIT:
        return await give_order(parts, caller, form, order, show_again)
    try:
        request, warning = await _checked(parts.batch, form, caller)
    except Invalid as why:
        return await show_again(str(why), HTTPStatus.BAD_REQUEST)
    return await _page(parts, form, caller, request=request, warning=warning)


async def _page(
    parts: Parts,
    form: SubmissionForm,
    caller: Caller,
    *,
    request: Request | None = None,
    warning: str = "",
    error: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Page:
    """`request`: that of a form whose check found no error; None: the form was not checked.

    `warning`: why no compute environment could hold the job; empty: one could.
    """
    like = await find_documents(parts.batch, [form.like] if form.like else [], caller)
    values = {
        "authors": await _authors(parts.batch, form, caller),
        "form": form,
        "error": error,
        "warning": warning,
        "queues": sorted(parts.catalog.queues_of(caller)),
        "one_container": all(map(has_one_container, like)),
        "checked": request is not None,
        "words": [] if request is None else request.get("containerOverrides", {}).get("command", []),
        "aws_command": "" if request is None else aws_command(request),
        "batchq_command": "" if request is None else batchq_command(form, request),
    }
    return Page(template="submit.html", title="Submit a job", values=values, status=status)


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
    query: dict[str, object] = {"jobDefinitionName": name, "status": "ACTIVE"}
    page = await batch.call("DescribeJobDefinitions", query, caller=caller)
    newest: Content = {}
    while page["jobDefinitions"]:
        newest = page["jobDefinitions"][-1]
        if "nextToken" not in page:
            break
        page = await batch.call("DescribeJobDefinitions", query | {"nextToken": page["nextToken"]}, caller=caller)
    return newest


def caller_document(caller: Caller) -> UserDocument:
    """The caller, as whoami returns it."""
    return {"user": caller.user, "account": caller.account, "role": caller.role}


async def _request(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> Request:
    """The SubmitJob request of the form. Raises Invalid."""
    base = await _base(batch, form.like, caller) if form.like else {}
    return form.to_request(base)


async def _checked(batch: BatchCalls, form: SubmissionForm, caller: Caller) -> tuple[Request, str]:
    """The request and its warning, after a check that changes nothing; the warning may be empty. Raises Invalid."""
    request, definition = await _request(batch, form, caller), None
    if form.image:
        properties = container_properties(image=form.image, volumes=(), user=None)
        request["jobDefinition"] = image_definition_name(form.image, properties)
        definition = image_definition(request["jobDefinition"], properties)
    return request, await batch.check_submission(request, definition=definition, caller=caller) or ""


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


async def _registered(batch: BatchCalls, image: str, caller: Caller) -> str:
    """The `name:revision` of the definition for an image, which is registered if it does not exist. Raises Invalid."""
    properties = container_properties(image=image, volumes=(), user=None)
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
