"""The requests that the command line and the web console make: a job definition for an image, and the rerun of a job.

The functions work on the JSON of AWS Batch. This module imports nothing of the server, because the command line loads
it.

There is one definition for each image, its volumes and its user, named `cli-IMAGE-HASH`. What changes from job to job
is in the overrides of SubmitJob, so definitions stay few. A name belongs to the user who registered it first, so a
definition of this name may be of another user: it is used only if its content is exactly the one that would be
registered, and if its author does not limit the job.

The SubmitJob request of a rerun is made from the JSON of DescribeJobs and of the revision of the job's definition.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from json import dumps
from typing import Any, NamedTuple, TypeVar

DEFAULT_VCPUS, DEFAULT_MEMORY = "1", "1024"  # MEMORY in MiB
MAX_NAME = 100  # characters of the image in a definition's name
# Members of DescribeJobDefinitions for a definition with nothing but an image, its volumes and its user.
_EXPECTED_MEMBERS = {
    "jobDefinitionName",
    "jobDefinitionArn",
    "revision",
    "status",
    "type",
    "parameters",
    "tags",
    "containerOrchestrationType",
    "platformCapabilities",
    "containerProperties",
    "batchq",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
#: The JSON of a request or a response.
Content = dict[str, Any]
#: A volume: host path, container path, whether it is read-only.
Volume = tuple[str, str, bool]
RERUN_OF = "batchq:rerun-of"  # the tag of a job that repeats another: the id of that job
LIKE = "batchq:like"  # the tag of a job whose request was made from another job: the id of that job
ORIGIN_TAGS = frozenset({RERUN_OF, LIKE})
ARRAY_INDEX = "AWS_BATCH_JOB_ARRAY_INDEX"
#: AWS's older members of containerProperties, by the type of the resource that replaces each.
OLDER_MEMBERS = {"VCPU": "vcpus", "MEMORY": "memory"}
_COPIED = ("parameters", "timeout", "propagateTags", "shareIdentifier")
#: The JSON of a SubmitJob request.
Request = dict[str, Any]
#: The JSON of a job, as DescribeJobs returns it.
JobDocument = Mapping[str, Any]
Container = Mapping[str, Any]
T = TypeVar("T")
#: A user with `user` and `account`; for a caller, as whoami returns it, with `role` too.
UserDocument = Mapping[str, Any]


def container_properties(*, image: str, volumes: Sequence[Volume], user: str | None) -> Content:
    """The containerProperties of the definition."""
    named = [(f"volume-{number}", *volume) for number, volume in enumerate(volumes, start=1)]
    return {
        "image": image,
        "resourceRequirements": [{"type": "VCPU", "value": DEFAULT_VCPUS}, {"type": "MEMORY", "value": DEFAULT_MEMORY}],
        **({"user": user} if user else {}),
        **({"volumes": [{"name": name, "host": {"sourcePath": host}} for name, host, _, _ in named]} if named else {}),
        **({"mountPoints": [_mount_point(name, path, ro=ro) for name, _, path, ro in named]} if named else {}),
    }


def image_definition_name(image: str, properties: Content, *, owner: str = "") -> str:
    """`cli-IMAGE-HASH`; the hash is that of the content and, if it is given, of the owner's name."""
    digest = sha256(dumps([properties, owner], sort_keys=True).encode()).hexdigest()[:12]
    return f"cli-{short_name(image)[:MAX_NAME]}-{digest}"


def short_name(image: str) -> str:
    """The image's name without registry, tag and digest, with the characters that AWS allows in names."""
    repository = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return _NOT_IN_NAMES.sub("-", repository).strip("-_") or "job"


def equal_revision(revisions: Iterable[Content], name: str, properties: Content, *, caller: UserDocument) -> str | None:
    """`name:revision` of the newest of these revisions with exactly this content; None without one.

    Revisions whose author may limit a job of the caller are left out.
    """
    own = (revision for revision in revisions if not may_limit(revision["batchq"]["author"], caller))
    equal = [document["revision"] for document in own if _content(document) == properties]
    return f"{name}:{max(equal)}" if equal else None


def image_definition(name: str, properties: Content) -> Content:
    """The RegisterJobDefinition request."""
    return {"jobDefinitionName": name, "type": "container", "containerProperties": properties}


def _mount_point(name: str, path: str, *, ro: bool) -> Content:
    return {"sourceVolume": name, "containerPath": path, **({"readOnly": True} if ro else {})}


def _content(definition: Content) -> Content:
    """The containerProperties as they were registered, without the empty lists that the server adds.

    Empty if the definition sets anything else, as a time limit: it would change the job.
    """
    if definition.get("parameters") or not definition.keys() <= _EXPECTED_MEMBERS:
        return {}
    return {member: value for member, value in definition.get("containerProperties", {}).items() if value != []}


def may_limit(author: UserDocument, caller: UserDocument) -> bool:
    """Whether a job of the caller may have fewer rights because `author` wrote what it runs."""
    crosses = author["account"] != caller["account"] or caller["role"] == "ADMIN"
    return bool(author["user"] != caller["user"] and crosses)


def foreign_authors(
    jobs: Iterable[JobDocument], definitions: Iterable[Mapping[str, Any]], *, caller: UserDocument
) -> list[str]:
    """A sentence for each job owner and definition author, other than the caller, whose policy may limit the job.

    `jobs`: those that are repeated or copied, as DescribeJobs returns them.
    """
    whose: dict[tuple[str, str], list[str]] = {}
    parts = [
        (f"job {job['jobId']}", user) for job in jobs for user in (job["batchq"], *job["batchq"].get("authors", ()))
    ]
    parts += [
        (f"job definition {definition['jobDefinitionName']}:{definition['revision']}", definition["batchq"]["author"])
        for definition in definitions
    ]
    for part, user in parts:
        if may_limit(user, caller):
            whose.setdefault((user["user"], user["account"]), []).append(part)
    return [
        f"{_first_of(found)} by {user} of account {account}: a job has only the rights that both of you have"
        for (user, account), found in whose.items()
    ]


def _first_of(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"


def repeat(job: JobDocument, definition: Mapping[str, Any]) -> Request:
    """The request for a new job like this one, without its dependencies.

    `definition`: the revision of the job's definition, as DescribeJobDefinitions returns it; empty if it is not stored.
    The overrides are the differences between the two. A child of an array becomes a job with the child's index.
    """
    request: Request = {
        "jobName": job["jobName"],
        "jobQueue": job["jobQueue"].rpartition("/")[2],
        "jobDefinition": job["jobDefinition"],
        "tags": {name: value for name, value in job.get("tags", {}).items() if name not in ORIGIN_TAGS}
        | {RERUN_OF: job["jobId"]},
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


class LeftOut(NamedTuple):
    """How many failed jobs a rerun leaves out."""

    #: A user cancelled or terminated the job.
    stopped: int = 0
    #: The job was submitted again already.
    repeated: int = 0

    def __str__(self) -> str:
        """`3 left out: 2 cancelled or terminated by a user, 1 submitted again already`; empty for none."""
        reasons = ((self.stopped, "cancelled or terminated by a user"), (self.repeated, "submitted again already"))
        parts = [f"{count} {reason}" for count, reason in reasons if count]
        return f"{sum(self)} left out: {', '.join(parts)}" if parts else ""


def select_failed(
    jobs: Iterable[T], *, is_stopped: Callable[[T], bool], is_repeated: Callable[[T], bool], also_stopped: bool
) -> tuple[list[T], LeftOut]:
    """The failed jobs that a rerun submits, and how many others there are.

    `is_stopped`, `is_repeated`: as the members of LeftOut. `also_stopped`: whether stopped jobs are submitted.
    """
    selected, left_out = list[T](), LeftOut()
    for job in jobs:
        if is_repeated(job):
            left_out = left_out._replace(repeated=left_out.repeated + 1)
        elif is_stopped(job) and not also_stopped:
            left_out = left_out._replace(stopped=left_out.stopped + 1)
        else:
            selected.append(job)
    return selected, left_out


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
    if index is not None:
        own = _merged(own, {"environment": [{"name": ARRAY_INDEX, "value": str(index)}]})
    return {"containerOverrides": own}


def _differences(effective: Container, registered: Container) -> Request:
    """The containerOverrides that make the effective container of a job from the registered one."""
    resources, known = _resources(effective), _resources(registered)
    variables = registered.get("environment", [])
    found = {
        "command": effective.get("command") if effective.get("command") != registered.get("command", []) else None,
        "environment": [item for item in effective.get("environment", []) if item not in variables],
        "resourceRequirements": [
            {"type": kind, "value": value} for kind, value in resources.items() if known.get(kind) != value
        ],
    }
    return {member: value for member, value in found.items() if value}


def _resources(container: Container) -> dict[str, str]:
    older = {kind: str(container[member]) for kind, member in OLDER_MEMBERS.items() if member in container}
    return older | {
        requirement["type"]: requirement["value"] for requirement in container.get("resourceRequirements", [])
    }


def _task_overrides(effective: Container, registered: Container) -> Request:
    known = {
        container.get("name"): container
        for task in registered.get("taskProperties", [])
        for container in task["containers"]
    }
    changed = [
        {"name": container["name"], **differences}
        for container in effective["taskProperties"][0]["containers"]
        if (differences := _differences(container, known.get(container["name"], {})))
    ]
    return {"taskProperties": [{"containers": changed}]} if changed else {}


def _node_overrides(effective: Container, registered: Container) -> Request:
    """The overrides of the ranges that differ. The number of nodes is always given."""
    known: Sequence[Container] = registered.get("nodeRangeProperties", [])
    ranges = []
    for place, member in enumerate(effective["nodeRangeProperties"]):
        before = known[place] if place < len(known) else {}
        if "ecsProperties" in member:
            differences = {
                "ecsPropertiesOverride": _task_overrides(member["ecsProperties"], before.get("ecsProperties", {}))
            }
        else:
            differences = {"containerOverrides": _differences(member["container"], before.get("container", {}))}
        if any(differences.values()):
            ranges.append({"targetNodes": member["targetNodes"], **differences})
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
    entries = {value[key]: value for value in (*first.get(member, ()), *second.get(member, ()))}
    return {member: list(entries.values())} if entries else {}
