"""DescribeJobs, and jobs in responses. Members without a value are omitted; nothing is null."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from batchq.api.batch import eks
from batchq.api.batch.additions import attempt_additions, job_additions, job_detail_additions
from batchq.api.batch.arns import ArnKind, BatchArns, to_job_id
from batchq.api.batch.consumable_resources import needs_to_wire
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.job_definitions import parse_document, with_empty_lists
from batchq.api.batch.retry_strategy import retry_to_wire
from batchq.api.batch.validation import Text, WireModel
from batchq.api.operations.parts import Parts
from batchq.domain import status_reasons
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.enums import Status
from batchq.domain.ids import node_of
from batchq.domain.job import Attempt, AttemptContainer, Job, JobSpec
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.views import (
    container_tag_of,
    leading_key,
    log_stream_of,
    shown_container_reason,
    shown_status_reason,
    shown_task,
)
from batchq.domain.task import DefinitionForm, Nodes, Task
from batchq.domain.times import milliseconds
from batchq.errors import Invalid
from batchq.services.client_requests import OLDER_MEMBERS
from batchq.services.job_views import JobView

MAX_DESCRIBED = 100
Content = dict[str, Any]
Registered = Mapping[str, Any]
WHOLE_VCPU = 1000  # thousandths of a vCPU


class DescribeJobs(WireModel):
    jobs: list[Text]


async def describe_jobs(parts: Parts, request: BatchRequest, body: DescribeJobs) -> Answer:
    """Describes up to 100 jobs by id. Jobs that do not exist are left out."""
    if len(body.jobs) > MAX_DESCRIBED:
        raise Invalid(f"Maximum number of jobs supported is  {MAX_DESCRIBED} .")  # AWS: exactly these spaces
    named = (to_job_id(job) for job in (request.arns.listed(ArnKind.JOB, text) for text in body.jobs))
    found = await parts.views.described([job_id for job_id in named if job_id is not None], caller=request.caller)
    return {"jobs": [job_detail(view, request.arns) for view in found]}


def job_detail(view: JobView, arns: BatchArns) -> Content:
    job = view.job
    known = {} if view.definition is None else parse_document(view.definition.document)
    registered = registered_properties(known, job.spec, node_of(job.id)[1])
    spec = job.spec
    ended = [attempt_to_wire(job, attempt, arns, in_tasks="ecsProperties" in registered) for attempt in job.attempts]
    return without_none(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": spec.name,
            "jobQueue": arns.queue(spec.queue),
            "jobDefinition": arns.definition(spec.definition),
            "status": job.status.value,
            "statusReason": shown_status_reason(job),
            **times_to_wire(job),
            "attempts": ended,
            **_work_to_wire(job, registered, arns, ended),
            **eks.job_members(job, known),
            "arrayProperties": array_to_wire(job),
            "nodeDetails": node_to_wire(job),
            "retryStrategy": retry_to_wire(spec.retry),
            "timeout": None if spec.timeout is None else {"attemptDurationSeconds": int(spec.timeout.total_seconds())},
            "dependsOn": [
                without_none({"jobId": dependency.job_id, "type": dependency.type and dependency.type.value})
                for dependency in spec.depends_on
            ],
            "parameters": dict(spec.parameters),
            "tags": dict(job.tags),
            "propagateTags": spec.propagate_tags,
            "platformCapabilities": known.get("platformCapabilities", ["EC2"]),
            "shareIdentifier": spec.share_identifier,
            "schedulingPriority": spec.scheduling_priority,
            "consumableResourceProperties": needs_to_wire(spec.needs, arns) if spec.needs else None,
            "isCancelled": job.is_cancelled,
            "isTerminated": job.is_terminated,
            "batchq": job_detail_additions(job),
        }
    )


def _work_to_wire(job: Job, registered: Registered, arns: BatchArns, ended: Sequence[Content]) -> Content:
    """What the job runs, and the state of its latest attempt; `ended` has the attempts that ended.

    AWS: for a gang it has the properties only; DescribeJobs returns the state of each node on request.
    """
    if "nodeProperties" in registered:
        return {"nodeProperties": nodes_to_wire(registered["nodeProperties"], job.spec.nodes)}
    if "ecsProperties" in registered:
        return {"container": {}, "ecsProperties": _ecs_to_wire(job, registered["ecsProperties"], arns)}
    container = container_to_wire(registered["containerProperties"], shown_task(job).leading.spec)
    return {"container": {**container, "networkInterfaces": [], **_latest_container(job, arns, ended)}}


def _latest_container(job: Job, arns: BatchArns, ended: Sequence[Content]) -> Content:
    if job.attempt is not None:
        return attempt_container(job, job.attempt, arns)
    return cast("Content", ended[-1]["container"]) if ended else {}  # that of the last attempt


def _ecs_to_wire(job: Job, registered: Registered, arns: BatchArns) -> Content:
    task, run = shown_task(job), job.latest_attempt
    containers = [
        {**listed, **task_container(job, run, made.name)}
        for listed, made in zip(task_containers_to_wire(registered, task), task.containers, strict=True)
    ]
    where = {} if run is None else task_location(job, run, arns)
    return {"taskProperties": [{**registered["taskProperties"][0], **where, "containers": containers}]}


def job_summary(job: Job, arns: BatchArns) -> Content:
    """AWS: isCancelled and isTerminated are present only if they are true."""
    run = job.latest_attempt
    return without_none(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": job.spec.name,
            "jobDefinition": arns.definition(job.spec.definition),
            "status": job.status.value,
            "statusReason": shown_status_reason(job),
            **times_to_wire(job),
            "container": None if run is None else exit_to_wire(run),
            "arrayProperties": array_to_wire(job),
            "nodeProperties": _gang_to_wire(job),
            "capacityUsage": None if is_parent(job) else [{"capacityUnit": "VCPU", "quantity": _vcpus(job)}],
            "shareIdentifier": job.spec.share_identifier,
            "isCancelled": job.is_cancelled or None,
            "isTerminated": job.is_terminated or None,
            "batchq": job_additions(job),
        }
    )


def times_to_wire(job: Job) -> Content:
    return {
        "createdAt": milliseconds(job.created_at),
        "startedAt": job.started_at and milliseconds(job.started_at),
        "stoppedAt": job.stopped_at and milliseconds(job.stopped_at),
    }


def array_to_wire(job: Job) -> Content | None:
    """For an array its size and the number of children in each of the seven statuses; for a child its index."""
    if job.child is not None:
        return {"index": job.child.index}
    if job.spec.array_size is None:
        return None
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    counted_at = job.array_state and job.array_state.counted_at
    return without_none(
        {
            "size": job.spec.array_size,
            "statusSummary": {status.value: counts.get(status, 0) for status in Status},
            "statusSummaryLastUpdatedAt": counted_at and milliseconds(counted_at),
        }
    )


def node_to_wire(job: Job) -> Content | None:
    """The number of a node, and whether it is the main one; None if the job is not a node."""
    number = node_of(job.id)[1]
    if number is None:
        return None
    return {"nodeIndex": number, "isMainNode": number == job.spec.nodes.main}


def _gang_to_wire(job: Job) -> Content | None:
    gang = job.spec.nodes
    return {"numNodes": gang.count, **(node_to_wire(job) or {})} if gang.form is DefinitionForm.NODES else None


def _vcpus(job: Job) -> int | float:
    held = job.spec.resources if node_of(job.id)[1] is None else shown_task(job).resources
    whole, rest = divmod(held.millicpus, 1000)
    return held.millicpus / 1000 if rest else whole


def without_none(content: Mapping[str, object]) -> Content:
    """`content` without the members that are None: responses contain no null."""
    return {member: value for member, value in content.items() if value is not None}


def attempt_to_wire(job: Job, run: Attempt, arns: BatchArns, *, in_tasks: bool) -> Content:
    """An attempt that has ended. AWS: of a job defined by ecsProperties (`in_tasks`) it includes the containers."""
    return without_none(
        {
            "container": attempt_container(job, run, arns),
            "startedAt": run.started_at and milliseconds(run.started_at),
            "stoppedAt": run.stopped_at and milliseconds(run.stopped_at),
            "statusReason": run.status_reason,
            "taskProperties": [_task_to_wire(job, run, arns)] if in_tasks else None,
            "batchq": attempt_additions(run),
        }
    )


def exit_to_wire(run: Attempt | AttemptContainer) -> Content:
    return without_none({"exitCode": run.exit_code, "reason": shown_container_reason(run)})


def attempt_container(job: Job, run: Attempt, arns: BatchArns) -> Content:
    """Where an attempt runs or ran, and how it ended.

    Of several containers it describes the one that decided the attempt, until then the leading one.
    """
    key = leading_key(job) if run.decided_by is None else run.decided_by
    own = next((container for container in run.containers if container.key == key), None)
    began = run.started_at if own is None else own.started_at
    return without_none(
        {
            **exit_to_wire(run),
            **task_location(job, run, arns),
            "logStreamName": log_stream_of(job, run, key) if began else None,
            "networkInterfaces": _interfaces(own),
        }
    )


def task_location(job: Job, run: Attempt, arns: BatchArns) -> Content:
    return {
        "containerInstanceArn": arns.instance(run.environment),
        "taskArn": arns.task(container_tag_of(job, run, leading_key(job))),
    }


def task_container(job: Job, run: Attempt | None, name: str) -> Content:
    """The state of one container of a task. AWS: it has a log stream name once it is RUNNING."""
    key = f"{leading_key(job).partition('/')[0]}/{name}"
    own = None if run is None else next((container for container in run.containers if container.key == key), None)
    if run is None or own is None:
        return {"networkInterfaces": []}
    stream = log_stream_of(job, run, key) if own.started_at else None
    return without_none({**exit_to_wire(own), "logStreamName": stream, "networkInterfaces": _interfaces(own)})


def _task_to_wire(job: Job, run: Attempt, arns: BatchArns) -> Content:
    containers = [{"name": container.name, **task_container(job, run, container.name)} for container in run.containers]
    return {**task_location(job, run, arns), "containers": containers}


def _interfaces(own: AttemptContainer | None) -> list[Content]:
    return [] if own is None or own.address is None else [{"privateIpv4Address": own.address}]


def registered_properties(document: Registered, spec: JobSpec, node: int | None) -> Registered:
    """The definition's properties for a job, or for one of its nodes.

    They are in the member containerProperties, ecsProperties or nodeProperties. A `document` without any of them stands
    for a definition that is not stored any more. It does not describe a job whose specification was damaged.
    """
    is_known = document.keys() & {"containerProperties", "ecsProperties", "nodeProperties"}
    properties = document if is_known and spec.invalid != status_reasons.UNREADABLE else _images_only(spec)
    if node is None:
        return properties
    place = spec.nodes.ranges.index(spec.nodes.range_of(node))
    of_node = properties["nodeProperties"]["nodeRangeProperties"][place]
    if "ecsProperties" in of_node:
        return {"ecsProperties": of_node["ecsProperties"]}
    return {"containerProperties": of_node["container"]}


def _images_only(spec: JobSpec) -> Registered:
    """Properties for a job whose definition is not stored any more: the images only."""
    nodes = spec.nodes
    match nodes.form:
        case DefinitionForm.CONTAINER:
            return {"containerProperties": {"image": spec.container.image}}
        case DefinitionForm.TASK:
            return _images(nodes.task(nodes.main))
        case DefinitionForm.NODES:
            ranges = [
                {"targetNodes": f"{node_range.first}:{node_range.last}", **_images(node_range.task)}
                for node_range in nodes.ranges
            ]
            return {"nodeProperties": {"mainNode": nodes.main, "nodeRangeProperties": ranges}}


def _images(task: Task) -> Content:
    containers = [{"name": container.name, "image": container.spec.image} for container in task.containers]
    return {"ecsProperties": {"taskProperties": [{"containers": containers}]}}


def container_to_wire(properties: Registered, spec: ContainerSpec) -> Content:
    if spec.resources.millicpus % WHOLE_VCPU:
        # AWS: `vcpus` is an integer.
        properties = {member: value for member, value in properties.items() if member != "vcpus"}
    return with_empty_lists(properties) | _effective(properties, spec)


def task_containers_to_wire(properties: Registered, task: Task) -> list[Content]:
    """The containers of an ecsProperties, in its order."""
    listed = properties["taskProperties"][0]["containers"]
    return [{**value, **_effective(value, made.spec)} for value, made in zip(listed, task.containers, strict=True)]


def nodes_to_wire(properties: Registered, nodes: Nodes) -> Content:
    """A nodeProperties, with the number of nodes and the containers of a job."""
    ranges = [
        {**value, **_of_range(value, made.task)}
        for value, made in zip(properties["nodeRangeProperties"], nodes.ranges, strict=True)
    ]
    return {**properties, "numNodes": nodes.count, "nodeRangeProperties": ranges}


def _of_range(properties: Registered, task: Task) -> Content:
    if "container" in properties:
        return {"container": container_to_wire(properties["container"], task.leading.spec)}
    ecs = properties["ecsProperties"]
    return {
        "ecsProperties": {
            "taskProperties": [{**ecs["taskProperties"][0], "containers": task_containers_to_wire(ecs, task)}]
        }
    }


def _effective(properties: Registered, spec: ContainerSpec) -> Content:
    return {
        "command": list(spec.command),
        "environment": [{"name": name, "value": value} for name, value in spec.environment],
        **_resources(properties, spec),
    }


def _resources(properties: Registered, spec: ContainerSpec) -> Content:
    """The effective resources, each in the form that the definition uses: as an entry, or as an older member."""
    numbers = {"vcpus": spec.resources.millicpus // WHOLE_VCPU, "memory": spec.resources.memory_mib}
    older = {member: value for member, value in numbers.items() if member in properties}
    entries = {requirement["type"]: requirement for requirement in properties.get("resourceRequirements", ())}
    wanted = _entries(spec.resources)
    kept = {kind: wanted[kind] for kind in entries if kind in wanted}
    new = {kind: text for kind, text in wanted.items() if kind not in kept and OLDER_MEMBERS.get(kind) not in older}
    return {**older, "resourceRequirements": [{"type": kind, "value": text} for kind, text in (kept | new).items()]}


def _entries(resources: Resources) -> dict[str, str]:
    entries = {"VCPU": vcpus_text(resources.millicpus), "MEMORY": str(resources.memory_mib)}
    return entries | ({"GPU": str(resources.gpus)} if resources.gpus else {})


def vcpus_text(millicpus: int) -> str:
    """In AWS's format: `2`, `0.25`."""
    whole, rest = divmod(millicpus, WHOLE_VCPU)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
