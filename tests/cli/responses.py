"""Responses of scripted servers: complete JSON of each type, and the check that a response has its type.

The API makes its responses of these types, so that a scripted server cannot answer what the API never does.
"""

import re

from msgspec import Struct, convert
from msgspec.structs import fields

from batchq.ports.responses import (
    accounts,
    activity,
    batch,
    checkpoints,
    costs,
    definitions,
    groups,
    jobs,
    machines,
    records,
    server,
    stops,
    webhooks,
)
from batchq.ports.responses.job_details import JobResponse

AT = 1_795_000_000_000  # milliseconds
COST = {"currency": "EUR", "total": 3.42, "gpu": 3.1, "compute": 0.3, "storage": 0.02, "estimatedSavings": None}
JOB = r"/v1/batchq/jobs/[^/]+"
#: The type of each response, by its path.
TYPES = {
    "/v1/batchq/listjobs": jobs.SearchResponse,
    "/v1/batchq/listgroups": groups.GroupsResponse,
    "/v1/batchq/overview": server.OverviewResponse,
    "/v1/batchq/activity": activity.ActivityResponse,
    "/v1/batchq/definitionuse": definitions.DefinitionUseResponse,
    "/v1/batchq/listmachines": machines.MachinesResponse,
    "/v1/batchq/whoami": accounts.CallerResponse,
    "/v1/batchq/events": records.ListEventsResponse,
    "/v1/batchq/consolelogin": server.CreateConsoleLoginResponse,
    "/v1/batchq/costreport": costs.CostReportResponse,
    "/v1/batchq/listbudgets": costs.ListBudgetsResponse,
    "/v1/batchq/listwebhooks": webhooks.ListWebhooksResponse,
    "/v1/batchq/(create|update|redeliver)webhook": webhooks.WebhookSecretResponse,
    "/v1/batchq/testwebhook": webhooks.TestWebhookResponse,
    "/v1/batchq/deletewebhook": server.EmptyResponse,
    "/v1/batchq/setbudget": costs.BudgetResponse,
    "/v1/batchq/removebudget": server.EmptyResponse,
    JOB: JobResponse,
    f"{JOB}/hold": jobs.HeldJobResponse,
    f"{JOB}/why": jobs.JobExplanationResponse,
    f"{JOB}/history": jobs.JobHistoryResponse,
    f"{JOB}/log": records.GetJobLogResponse,
    f"{JOB}/cost": costs.JobCostResponse,
    f"{JOB}/checkpoints": checkpoints.CheckpointsResponse,
    "/v1/describejobs": batch.DescribeJobsResponse,
    "/v1/submitjob": batch.SubmittedJob,
    "/v1/registerjobdefinition": batch.RegisteredDefinition,
    "/v1/describejobqueues": batch.DescribeJobQueuesResponse,
    "/v1/describecomputeenvironments": batch.DescribeComputeEnvironmentsResponse,
    "/v1/describejobdefinitions": batch.DescribeJobDefinitionsResponse,
    "/v1/listconsumableresources": batch.ListConsumableResourcesResponse,
    # Commands print these, or read only whether they are errors.
    "/v1/(describeconsumableresource|updatejobqueue|terminatejob|(create|update)computeenvironment|tags/.+)": dict,
}


def mistakes_of(path, document):
    """What the API would not answer at this path: missing, mistyped and unknown members."""
    answer = next((answer for pattern, answer in TYPES.items() if re.fullmatch(pattern, path)), None)
    if answer is None:
        return [f"{path} has no type in tests.cli.responses"]
    return mistakes_in(document, answer)


def mistakes_in(document, answer):
    try:
        value = convert(document, answer)
    except ValueError as mistake:
        return [f"{answer.__name__}: {mistake}"]
    return [f"{answer.__name__}: unknown member {name}" for name in unknown_members(document, value)]


def unknown_members(document, value):
    """The members of the JSON that the type of its value does not have. Types of AWS's responses have only some."""
    if isinstance(value, Struct) and type(value).__module__ != batch.__name__:
        known = {field.encode_name: field.name for field in fields(value)}
        for name, item in document.items():
            yield from unknown_members(item, getattr(value, known[name])) if name in known else [name]
    elif isinstance(value, tuple):
        for item, made in zip(document, value, strict=True):
            yield from unknown_members(item, made)


def line_type(line):
    return stops.CountsLine if "counts" in line else stops.JobLine


def explanation(sentence, code="NEXT", **more):
    return {"code": code, "sentence": sentence, "facts": {}} | more


def stop_order(kind="TERMINATE", **more):
    return {"kind": kind, "at": AT, "reason": "too hot"} | more


def hold(**more):
    return {"reason": "not yet", "heldAt": 0} | more


def details(row, **more):
    """A row with what GetJob adds."""
    return {
        **row,
        "image": "python:3.12",
        "command": ["python", "train.py"],
        "environment": [],
        "gpus": 0,
        "stopGraceSeconds": 30.0,
        "retryStrategy": {"attempts": 1, "evaluateOnExit": []},
        "attempts": [],
    } | more


def attempt(number=1, **more):
    return {"number": number, "computeEnvironment": "local"} | more


POLICY = {
    "privileged": False,
    "devices": [],
    "volumes": [],
    "hostNetwork": False,
    "engineSocket": False,
    "execAllowed": True,
    "root": True,
    "logDrivers": [],
    "registries": None,
    "vcpus": None,
    "memoryMib": None,
}


def caller(user="ada", **more):
    """The response of WhoAmI."""
    members = {"account": "lab", "role": "USER", "key": None, "coordinates": [], "queues": None}
    return {"user": user} | members | {"allowance": POLICY, "limits": []} | more


def queue(name, state="ENABLED", **more):
    """A queue of the overview."""
    return {"jobQueue": name, "state": state, "priority": 1, "counts": {}, "arrays": 0} | more


def environment(name="local", *, vcpus=(8.0, 6.5), memory=(1024, 512), gpus=(0, 0)):
    """A compute environment of the overview, with the limit and the requested amount of each resource."""
    return {"computeEnvironment": name, "state": "ENABLED"} | _uses(vcpus, memory, gpus)


def _uses(vcpus, memory, gpus):
    amounts = {"vcpus": vcpus, "memoryMiB": memory, "gpus": gpus}
    return {member: {"limit": limit, "requested": requested} for member, (limit, requested) in amounts.items()}


def machine(name, state="READY", *, jobs=(), job_count=None, **more):
    """A machine of listmachines. `jobs`: rows of jobs."""
    uses = _uses((8.0, 6.5), (24_576, 20_480), (2, 1))
    shown = {"jobs": list(jobs), "jobCount": len(jobs) if job_count is None else job_count}
    return {"machine": name, "state": state} | uses | shown | more


def machine_list(*rows, counts=None, **more):
    """A response of listmachines. `counts`: by state, if there are further pages."""
    states = [row["state"] for row in rows]
    engine = {"state": "OK", "sentence": "Docker answers."}
    return {
        "machines": list(rows),
        "counts": counts or {state: states.count(state) for state in states},
        "engine": engine,
    } | more


def overview(*, at=1, queues=(), capacity=(), failed=None):
    return {
        "at": at,
        "user": "ada",
        "account": "lab",
        "role": "ADMIN",
        "engine": {"state": "OK", "sentence": "Docker answers."},
        "queues": list(queues),
        "capacity": list(capacity),
        "longestRunning": [],
        "failed": failed or {"count": 0, "more": False, "groups": []},
    }
