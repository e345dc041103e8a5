"""Requests for new jobs like existing ones, for the command line and the web console.

A SubmitJob request is made from the JSON of DescribeJobs and of the revision of the job's definition. This module
imports nothing of the server, because the command line loads it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

RERUN_OF = "batchq:rerun-of"  # the tag of a job that repeats another: the id of that job
ARRAY_INDEX = "AWS_BATCH_JOB_ARRAY_INDEX"
_OLDER_MEMBERS = {"VCPU": "vcpus", "MEMORY": "memory"}
_COPIED = ("parameters", "timeout", "propagateTags", "shareIdentifier")
#: The JSON of a SubmitJob request.
Request = dict[str, Any]
#: The JSON of a job, as DescribeJobs returns it.
JobDocument = Mapping[str, Any]
Container = Mapping[str, Any]


def repeat(job: JobDocument, definition: Mapping[str, Any]) -> Request:
    """The request for a new job like this one, without its dependencies.

    `definition`: the revision of the job's definition, as DescribeJobDefinitions returns it; empty if it is not stored.
    The overrides are the differences between the two. A child of an array becomes a job with the child's index.
    """
    request: Request = {
        "jobName": job["jobName"],
        "jobQueue": job["jobQueue"].rpartition("/")[2],
        "jobDefinition": job["jobDefinition"],
        "tags": dict(job.get("tags", {})) | {RERUN_OF: job["jobId"]},
        "retryStrategy": job.get("retryStrategy"),
        "schedulingPriorityOverride": job.get("schedulingPriority"),
        "consumableResourcePropertiesOverride": job.get("consumableResourceProperties"),
        **{member: job.get(member) for member in _COPIED},
        **_overrides(job, definition),
    }
    size = job.get("arrayProperties", {}).get("size")
    if size is not None:
        request["arrayProperties"] = {"size": size}
    return {member: value for member, value in request.items() if value not in (None, {}, [])}


def with_changes(request: Request, changes: Mapping[str, Any]) -> Request:
    """The request with the members of another one, which take precedence; variables and resources by their names."""
    merged = {**request, **changes}
    if "tags" in changes:
        merged["tags"] = request["tags"] | changes["tags"]
    if "containerOverrides" in changes:
        merged["containerOverrides"] = _merged(request.get("containerOverrides", {}), changes["containerOverrides"])
    return merged


def has_one_container(job: JobDocument) -> bool:
    """Whether the flags that change a container apply: not to a multi-node job or a task of several containers."""
    return "nodeProperties" not in job and "ecsProperties" not in job


def _overrides(job: JobDocument, definition: Mapping[str, Any]) -> Request:
    if "nodeProperties" in job:
        return {"nodeOverrides": _node_overrides(job["nodeProperties"], definition.get("nodeProperties", {}))}
    if "ecsProperties" in job:
        return {"ecsPropertiesOverride": _task_overrides(job["ecsProperties"], definition.get("ecsProperties", {}))}
    own = _differences(job["container"], definition.get("containerProperties", {}))
    index = job.get("arrayProperties", {}).get("index")
    return {"containerOverrides": own if index is None else _with_index(own, index)}


def _with_index(overrides: Container, index: int) -> Request:
    return _merged(overrides, {"environment": [{"name": ARRAY_INDEX, "value": str(index)}]})


def _differences(effective: Container, registered: Container) -> Request:
    """The containerOverrides that make the effective container of a job from the registered one."""
    resources, known = _resources(effective), _resources(registered)
    variables = registered.get("environment", [])
    found = {
        "command": effective.get("command") if effective.get("command") != registered.get("command", []) else None,
        "environment": [it for it in effective.get("environment", []) if it not in variables],
        "resourceRequirements": [
            {"type": kind, "value": value} for kind, value in resources.items() if known.get(kind) != value
        ],
    }
    return {member: value for member, value in found.items() if value}


def _resources(container: Container) -> dict[str, str]:
    older = {kind: str(container[member]) for kind, member in _OLDER_MEMBERS.items() if member in container}
    return older | {it["type"]: it["value"] for it in container.get("resourceRequirements", [])}


def _task_overrides(effective: Container, registered: Container) -> Request:
    known = {it.get("name"): it for task in registered.get("taskProperties", []) for it in task["containers"]}
    changed = [
        {"name": it["name"], **differences}
        for it in effective["taskProperties"][0]["containers"]
        if (differences := _differences(it, known.get(it["name"], {})))
    ]
    return {"taskProperties": [{"containers": changed}]} if changed else {}


def _node_overrides(effective: Container, registered: Container) -> Request:
    """The overrides of the ranges that differ. The number of nodes is always given."""
    known: Sequence[Container] = registered.get("nodeRangeProperties", [])
    ranges = []
    for place, it in enumerate(effective["nodeRangeProperties"]):
        before = known[place] if place < len(known) else {}
        if "ecsProperties" in it:
            differences = {
                "ecsPropertiesOverride": _task_overrides(it["ecsProperties"], before.get("ecsProperties", {}))
            }
        else:
            differences = {"containerOverrides": _differences(it["container"], before.get("container", {}))}
        if any(differences.values()):
            ranges.append({"targetNodes": it["targetNodes"], **differences})
    return {"numNodes": effective["numNodes"], **({"nodePropertyOverrides": ranges} if ranges else {})}


def _merged(first: Container, second: Container) -> Request:
    """Overrides of a container; the second ones take precedence."""
    return {
        **first,
        **second,
        **_by_key(first, second, member="environment", key="name"),
        **_by_key(first, second, member="resourceRequirements", key="type"),
    }


def _by_key(first: Container, second: Container, *, member: str, key: str) -> Request:
    entries = {it[key]: it for it in (*first.get(member, ()), *second.get(member, ()))}
    return {member: list(entries.values())} if entries else {}
