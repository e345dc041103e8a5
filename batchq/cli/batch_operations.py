"""Operations of AWS Batch that commands call, on the server at `url`. They raise the errors of `http_client.call`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from batchq.cli.http_client import call

SUBMIT_JOB = "/v1/submitjob"
DESCRIBE_JOBS = "/v1/describejobs"
LIST_JOBS = "/v1/listjobs"
REGISTER_JOB_DEFINITION = "/v1/registerjobdefinition"
DESCRIBE_JOB_DEFINITIONS = "/v1/describejobdefinitions"
MAX_DESCRIBED = 100  # jobs or definitions of one request

#: The JSON of a request or a response.
Content = dict[str, Any]


def submit_job(url: str, request: Mapping[str, object], *, invocation: str) -> str:
    """Submit a job and return its id. A repetition with the same `invocation` within 15 minutes returns the same id."""
    return str(call(url, SUBMIT_JOB, request, invocation=invocation)["jobId"])


def describe_jobs(url: str, ids: Sequence[str]) -> list[Content]:
    """The jobs that exist and that the caller may see, in the order of `ids`."""
    found: dict[str, Content] = {}
    for start in range(0, len(ids), MAX_DESCRIBED):
        page: Any = call(url, DESCRIBE_JOBS, {"jobs": list(ids[start : start + MAX_DESCRIBED])})
        found |= {it["jobId"]: it for it in page["jobs"]}
    return [found[it] for it in ids if it in found]


def failed_children(url: str, array_id: str) -> list[str]:
    """The ids of the FAILED children of an array."""
    content: dict[str, object] = {"arrayJobId": array_id, "jobStatus": "FAILED"}
    ids: list[str] = []
    while True:
        page: Any = call(url, LIST_JOBS, content)
        ids += [it["jobId"] for it in page["jobSummaryList"]]
        if "nextToken" not in page:
            return ids
        content["nextToken"] = page["nextToken"]


def register_job_definition(url: str, definition: Mapping[str, object]) -> str:
    """Register a revision and return `name:revision`."""
    made = call(url, REGISTER_JOB_DEFINITION, definition)
    return f"{made['jobDefinitionName']}:{made['revision']}"


def active_revisions(url: str, name: str) -> Iterable[Content]:
    """The active revisions of a job definition, in the server's order."""
    token: dict[str, object] = {}
    while True:
        page: Any = call(url, DESCRIBE_JOB_DEFINITIONS, {"jobDefinitionName": name, "status": "ACTIVE", **token})
        yield from page["jobDefinitions"]
        if "nextToken" not in page:
            return
        token = {"nextToken": page["nextToken"]}


def describe_definitions(url: str, arns: Sequence[str]) -> list[Content]:
    """The revisions with these ARNs that are stored and that the caller may see, active or not."""
    found: list[Content] = []
    for start in range(0, len(arns), MAX_DESCRIBED):
        page: Any = call(url, DESCRIBE_JOB_DEFINITIONS, {"jobDefinitions": list(arns[start : start + MAX_DESCRIBED])})
        found += page["jobDefinitions"]
    return found
