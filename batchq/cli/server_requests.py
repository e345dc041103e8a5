"""Requests of the commands to a server, of batchq's own read API and of AWS Batch.

`url` is the URL of the server. All functions raise the errors of `http_client.call`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from batchq.cli.http_client import call
from batchq.cli.quantities import now
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, Unavailable

LIST_JOBS = "/v1/batchq/listjobs"
OVERVIEW = "/v1/batchq/overview"
PAGE_SIZE = 1000  # rows of one response
MAX_PAGES = 100  # of one search: a page may be empty, since the server bounds the work for each
WHO_AM_I = "/v1/batchq/whoami"
Row = Mapping[str, Any]
Page = dict[str, Any]
SUBMIT_JOB = "/v1/submitjob"
STRICT = "x-batchq-strict"  # the header of a SubmitJob that the server refuses instead of accepting it with a warning
DESCRIBE_JOBS = "/v1/describejobs"
REGISTER_JOB_DEFINITION = "/v1/registerjobdefinition"
DESCRIBE_JOB_DEFINITIONS = "/v1/describejobdefinitions"
MAX_DESCRIBED = 100  # jobs or definitions of one request
#: The statuses of AWS Batch.
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
ACTIVE = ("STARTING", "RUNNING")
UNFINISHED = (*WAITING, *ACTIVE)
FINISHED = ("SUCCEEDED", "FAILED")
#: The JSON of a request or a response.
Content = dict[str, Any]


def fetch_jobs(url: str, filters: Mapping[str, object], *, limit: int) -> Page:
    """The response of listjobs with up to `limit` rows, from as many pages as are needed.

    `nextToken` is present if further jobs may match. An empty list of `jobs` matches none.
    """
    if filters.get("jobs") == []:  # no job is selected; the server would search all
        return {"jobs": []}
    rows: list[Row] = []
    page: Page = {}
    content = dict(filters)
    for _ in range(MAX_PAGES):
        page = dict(call(url, LIST_JOBS, content | {"maxResults": min(limit - len(rows), PAGE_SIZE)}))
        rows += page["jobs"]
        token = page.get("nextToken")
        if token is None or len(rows) >= limit:
            break
        content["nextToken"] = token
    return page | {"jobs": rows}


def fetch_rows(url: str, ids: Sequence[str]) -> list[Row]:
    """The rows of jobs, children and nodes, in the order of their ids. Raises Invalid for one that does not exist."""
    jobs = {identifier: identifier.partition("#")[0] for identifier in ids}
    wanted = list(dict.fromkeys(jobs.values()))
    found: dict[str, Row] = {}
    for start in range(0, len(wanted), PAGE_SIZE):
        chunk = wanted[start : start + PAGE_SIZE]
        page = fetch_jobs(url, {"jobs": chunk}, limit=PAGE_SIZE)
        found |= {str(job["jobId"]): job for job in page["jobs"]}
    for job in wanted:
        if job not in found:  # the server knows why, or it is a child that its array has not created yet
            found[job] = fetch_job_detail(url, job)["job"]
    return [{**found[job], "jobId": key} for key, job in jobs.items()]


def fetch_job_detail(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}`."""
    return dict(call(url, job_endpoint(job_id)))


def fetch_explanation(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/why`."""
    return dict(call(url, f"{job_endpoint(job_id)}/why"))


def fetch_history(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/history`."""
    return dict(call(url, f"{job_endpoint(job_id)}/history"))


def fetch_log_lines(url: str, job_id: str, *, timeout: float, **parameters: object) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/log`. Parameters that are None are not sent."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return dict(call(url, f"{job_endpoint(job_id)}/log?{urlencode(given)}", timeout=timeout))


def fetch_overview(url: str) -> Page:
    """The response of `POST /v1/batchq/overview`."""
    return dict(call(url, OVERVIEW, {}))


def fetch_caller(url: str) -> Page:
    """The caller on the server: `user`, `account` and `role`. Raises Unavailable if the response has no user name."""
    caller = dict(call(url, WHO_AM_I, {}))
    if not isinstance(caller.get("user"), str) or not caller["user"]:
        raise Unavailable(f"the response of {url} does not contain your user name")
    return caller


def fetch_server_time(url: str) -> int:
    """The time of the server, in milliseconds since the epoch; that of this machine from a server without overview."""
    try:
        at = fetch_overview(url).get("at")
    except Invalid:
        at = None
    return at if isinstance(at, int) else milliseconds(now())


def job_endpoint(job_id: str) -> str:
    """The path of a job, a child or a node in batchq's own API."""
    return f"/v1/batchq/jobs/{quote(job_id, safe='')}"


def fetch_pages(url: str, path: str, content: Mapping[str, object]) -> Iterator[Page]:
    """The responses of a POST, from the first page to the last one, which has no `nextToken`."""
    token: Mapping[str, object] = {}
    while True:
        page = dict(call(url, path, {**content, **token}))
        yield page
        if "nextToken" not in page:
            return
        token = {"nextToken": page["nextToken"]}


class Submitted(NamedTuple):
    """A job that the server has accepted."""

    job_id: str
    #: Why no compute environment of its queue could hold the job; empty: one could.
    warning: str


def send_submission(url: str, request: Mapping[str, object], *, invocation: str, strict: bool = False) -> Submitted:
    """Submit a job. A repetition with the same `invocation` within 15 minutes returns the same id.

    `strict`: the server refuses a job that no compute environment of its queue could hold; Invalid.
    """
    headers = {STRICT: "true"} if strict else {}
    made: Any = call(url, SUBMIT_JOB, request, invocation=invocation, headers=headers)
    return Submitted(str(made["jobId"]), str(made.get("batchq", {}).get("warning", "")))


def fetch_job_documents(url: str, ids: Sequence[str]) -> list[Content]:
    """The jobs that exist and that the caller may see, in the order of `ids`."""
    found: dict[str, Content] = {}
    for start in range(0, len(ids), MAX_DESCRIBED):
        page: Any = call(url, DESCRIBE_JOBS, {"jobs": list(ids[start : start + MAX_DESCRIBED])})
        found |= {job["jobId"]: job for job in page["jobs"]}
    return [found[identifier] for identifier in ids if identifier in found]


def send_definition(url: str, definition: Mapping[str, object]) -> str:
    """Register a revision and return `name:revision`."""
    made = call(url, REGISTER_JOB_DEFINITION, definition)
    return f"{made['jobDefinitionName']}:{made['revision']}"


def fetch_active_revisions(url: str, name: str) -> Iterable[Content]:
    """The active revisions of a job definition, in the server's order."""
    for page in fetch_pages(url, DESCRIBE_JOB_DEFINITIONS, {"jobDefinitionName": name, "status": "ACTIVE"}):
        yield from page["jobDefinitions"]


def fetch_definitions(url: str, arns: Sequence[str]) -> list[Content]:
    """The revisions with these ARNs that are stored and that the caller may see, active or not."""
    found: list[Content] = []
    for start in range(0, len(arns), MAX_DESCRIBED):
        page: Any = call(url, DESCRIBE_JOB_DEFINITIONS, {"jobDefinitions": list(arns[start : start + MAX_DESCRIBED])})
        found += page["jobDefinitions"]
    return found
