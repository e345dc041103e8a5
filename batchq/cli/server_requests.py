"""Requests of the commands to a server, of batchq's own read API and of AWS Batch.

`url` is the URL of the server. All functions raise the errors of `http_client.call`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from batchq.cli.http_client import Document, call, stream_responses, to_answer
from batchq.cli.quantities import now
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, Unavailable, UsageError
from batchq.ports.responses.accounts import CallerResponse
from batchq.ports.responses.batch import DescribeJobsResponse, JobDetail, RegisteredDefinition, SubmittedJob
from batchq.ports.responses.costs import CostResponse, JobCostResponse
from batchq.ports.responses.groups import GroupRow, GroupsResponse
from batchq.ports.responses.jobs import JobExplanationResponse, JobRow, SearchResponse
from batchq.ports.responses.records import GetJobLogResponse
from batchq.ports.responses.server import OverviewResponse
from batchq.ports.responses.stops import CountsLine, JobLine

LIST_JOBS = "/v1/batchq/listjobs"
LIST_GROUPS = "/v1/batchq/listgroups"
OVERVIEW = "/v1/batchq/overview"
PAGE_SIZE = 1000  # rows of one response
MAX_PAGES = 100  # of one search: a page may be empty, since the server bounds the work for each
WHO_AM_I = "/v1/batchq/whoami"
SUBMIT_JOB = "/v1/submitjob"
STRICT = "x-batchq-strict"  # the header of a SubmitJob that the server refuses instead of accepting it with a warning
DESCRIBE_JOBS = "/v1/describejobs"
REGISTER_JOB_DEFINITION = "/v1/registerjobdefinition"
DESCRIBE_JOB_DEFINITIONS = "/v1/describejobdefinitions"
MAX_DESCRIBED = 100  # jobs or definitions of one request
Answer = TypeVar("Answer")


def fetch_jobs(url: str, filters: Mapping[str, object], *, limit: int) -> SearchResponse:
    """The response of listjobs with up to `limit` rows, from as many pages as are needed.

    `next_token` is set if further jobs may match. An empty list of `jobs` matches none.
    """
    rows: list[JobRow] = []
    page = SearchResponse(jobs=(), complete=True)
    content = dict(filters)
    if filters.get("jobs") == []:  # no job is selected; the server would search all
        return page
    for _ in range(MAX_PAGES):
        content["maxResults"] = min(limit - len(rows), PAGE_SIZE)
        page = call(url, LIST_JOBS, content, answer=SearchResponse)
        rows += page.jobs
        if page.next_token is None or len(rows) >= limit:
            break
        content["nextToken"] = page.next_token
    return replace(page, jobs=tuple(rows))


def fetch_all_jobs(url: str, filters: Mapping[str, object], *, at_most: int) -> Sequence[JobRow]:
    """The rows of all jobs that match. Raises UsageError for more than `at_most`."""
    page = fetch_jobs(url, filters, limit=at_most)
    if page.next_token is not None:
        raise UsageError(f"more than {at_most} jobs match; use further filters")
    return page.jobs


def fetch_rows(url: str, ids: Sequence[str]) -> list[JobRow]:
    """The rows of jobs, children and nodes, in the order of their ids. Raises Invalid for one that does not exist."""
    jobs = {identifier: identifier.partition("#")[0] for identifier in ids}
    unread = list(dict.fromkeys(jobs.values()))
    rows: dict[str, JobRow] = {}
    for start in range(0, len(unread), PAGE_SIZE):
        chunk = unread[start : start + PAGE_SIZE]
        page = fetch_jobs(url, {"jobs": chunk}, limit=PAGE_SIZE)
        rows |= {job.job_id: job for job in page.jobs}
    for job_id in unread:
        if job_id not in rows:  # the server knows why, or it is a child that its array has not created yet
            rows[job_id] = fetch_job(url, job_id, "", answer=_JobRowResponse).job
    return [replace(rows[job_id], job_id=key) for key, job_id in jobs.items()]


def fetch_groups(url: str, **filters: object) -> tuple[GroupRow, ...]:
    """The first page of listgroups, newest first."""
    return call(url, LIST_GROUPS, filters, answer=GroupsResponse).groups


class _JobRowResponse(Struct, frozen=True, kw_only=True):
    """The response of GetJob, without what a row of a list does not have."""

    job: JobRow


def fetch_job(url: str, job_id: str, view: str, *, answer: type[Answer]) -> Answer:
    """The response of `GET /v1/batchq/jobs/{id}`, or with a view as `/history` of the resource below the job."""
    return call(url, f"{job_endpoint(job_id)}{view}", answer=answer)


def fetch_explanation(url: str, job_id: str) -> JobExplanationResponse:
    """The response of `GET /v1/batchq/jobs/{id}/why`."""
    return fetch_job(url, job_id, "/why", answer=JobExplanationResponse)


def fetch_cost(url: str, job_id: str) -> CostResponse | None:
    """What a job has cost so far, also of an array. None: it has no prices, or it was removed."""
    try:
        return fetch_job(url, job_id, "/cost", answer=JobCostResponse).cost
    except Invalid:
        return None


def fetch_log_lines(url: str, job_id: str, *, timeout: float, **parameters: object) -> GetJobLogResponse:
    """The response of `GET /v1/batchq/jobs/{id}/log`. Parameters that are None are not sent."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    return call(url, f"{job_endpoint(job_id)}/log?{query}", answer=GetJobLogResponse, timeout=timeout)


def fetch_overview(url: str) -> OverviewResponse:
    """The response of `POST /v1/batchq/overview`."""
    return call(url, OVERVIEW, {}, answer=OverviewResponse)


def fetch_caller(url: str) -> CallerResponse:
    """The caller on the server. Raises Unavailable if the response has no user name."""
    caller = call(url, WHO_AM_I, {}, answer=CallerResponse)
    if not caller.user:
        raise Unavailable(f"the response of {url} does not contain your user name")
    return caller


def fetch_server_time(url: str) -> int:
    """The time of the server, in milliseconds since the epoch; that of this machine from a server without overview."""
    try:
        return fetch_overview(url).at
    except Invalid:
        return milliseconds(now())


def job_endpoint(job_id: str) -> str:
    """The path of a job, a child or a node in batchq's own API."""
    return f"/v1/batchq/jobs/{quote(job_id, safe='')}"


def fetch_pages(url: str, path: str, content: Mapping[str, object]) -> Iterator[Document]:
    """The responses of a POST to AWS Batch, from the first page to the last one, which has no `nextToken`."""
    token: Mapping[str, object] = {}
    while True:
        page = call(url, path, {**content, **token}, answer=Document)
        yield page
        if "nextToken" not in page:
            return
        token = {"nextToken": page["nextToken"]}


def send_submission(
    url: str, request: Mapping[str, object], *, invocation: str, strict: bool = False
) -> tuple[str, str]:
    """Submit a job. Returns its id, and why no compute environment of its queue could hold it; empty: one could.

    A repetition with the same `invocation` within 15 minutes returns the same id.
    `strict`: the server refuses a job that no compute environment of its queue could hold; Invalid.
    """
    headers = {STRICT: "true"} if strict else {}
    made = call(url, SUBMIT_JOB, request, answer=SubmittedJob, invocation=invocation, headers=headers)
    return made.job_id, made.batchq.warning if made.batchq else ""


def fetch_job_documents(url: str, ids: Sequence[str]) -> list[Document]:
    """The jobs as DescribeJobs returns them, in the order of `ids`, without those that the caller may not see."""
    documents: dict[str, Document] = {}
    for start in range(0, len(ids), MAX_DESCRIBED):
        page = call(url, DESCRIBE_JOBS, {"jobs": list(ids[start : start + MAX_DESCRIBED])}, answer=Document)
        documents |= {job["jobId"]: job for job in page["jobs"]}
    return [documents[identifier] for identifier in ids if identifier in documents]


def fetch_described(url: str, ids: Sequence[str]) -> list[JobDetail]:
    """As `fetch_job_documents`, without what only a new request needs."""
    return list(to_answer({"jobs": fetch_job_documents(url, ids)}, DescribeJobsResponse, url=url).jobs)


def send_definition(url: str, definition: Mapping[str, object]) -> str:
    """Register a revision and return `name:revision`."""
    made = call(url, REGISTER_JOB_DEFINITION, definition, answer=RegisteredDefinition)
    return f"{made.job_definition_name}:{made.revision}"


def fetch_active_revisions(url: str, name: str) -> Iterable[Document]:
    """The active revisions of a job definition, newest first."""
    for page in fetch_pages(url, DESCRIBE_JOB_DEFINITIONS, {"jobDefinitionName": name, "status": "ACTIVE"}):
        yield from page["jobDefinitions"]


def fetch_definitions(url: str, arns: Sequence[str]) -> list[Document]:
    """The revisions with these ARNs that are stored and that the caller may see, active or not."""
    documents: list[Document] = []
    for start in range(0, len(arns), MAX_DESCRIBED):
        request = {"jobDefinitions": list(arns[start : start + MAX_DESCRIBED])}
        documents += call(url, DESCRIBE_JOB_DEFINITIONS, request, answer=Document)["jobDefinitions"]
    return documents


@contextmanager
def stream_stops(
    url: str, path: str, content: Mapping[str, object], *, timeout: float
) -> Iterator[Iterator[JobLine | CountsLine]]:
    """The lines of the response to a bulk stop, each as soon as it arrives. `timeout`: as of `stream_responses`."""
    with stream_responses(url, path, content, timeout=timeout) as documents:
        yield (
            to_answer(document, CountsLine, url=url) if "counts" in document else to_answer(document, JobLine, url=url)
            for document in documents
        )
