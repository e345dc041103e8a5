"""A job as DescribeJobs tells it. What there is nothing to say of is left out; nothing is null."""

from collections.abc import Sequence
from typing import cast

from api.batch.arns import Arns
from api.batch.translate import properties, runs
from api.batch.translate.definitions import document
from api.batch.translate.needs import shown as needs_shown
from api.batch.translate.properties import Registered
from api.batch.translate.retries import shown
from api.batch.translate.runs import Content, latest, said
from api.batch.translate.summaries import array, node, owner, times
from batchq.domain.catalog import JobDefinition
from batchq.domain.created_paths import status_reason
from batchq.domain.job import Dependency, Job
from batchq.domain.names import node_of


def job_detail(job: Job, definition: JobDefinition | None, arns: Arns) -> Content:
    known = {} if definition is None else document(definition.document)
    registered = properties.registered(known, job.spec, node_of(job.id)[1])
    spec = job.spec
    over = [runs.attempt(job, it, arns, in_tasks="ecsProperties" in registered) for it in job.attempts]
    return said(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": spec.name,
            "jobQueue": arns.queue(spec.queue),
            "jobDefinition": arns.definition(spec.definition),
            "status": job.status.value,
            "statusReason": status_reason(job),
            **times(job),
            "attempts": over,
            **_work(job, registered, arns, over),
            "arrayProperties": array(job),
            "nodeDetails": node(job),
            "retryStrategy": shown(spec.retry),
            "timeout": _timeout(job),
            "dependsOn": [_dependency(it) for it in spec.depends_on],
            "parameters": dict(spec.parameters),
            "tags": dict(job.tags),
            "propagateTags": spec.propagate_tags,
            "platformCapabilities": known.get("platformCapabilities", ["EC2"]),
            "shareIdentifier": spec.share_identifier,
            "schedulingPriority": spec.scheduling_priority,
            "consumableResourceProperties": needs_shown(spec.needs, arns) if spec.needs else None,
            "isCancelled": job.is_cancelled,
            "isTerminated": job.is_terminated,
            "batchq": owner(job),
        }
    )


def _work(job: Job, registered: Registered, arns: Arns, over: Sequence[Content]) -> Content:
    """What it runs, and how the latest attempt fares: `over` tells of those that are. AWS: each node tells its own."""
    if "nodeProperties" in registered and job.spec.nodes is not None:
        return {"nodeProperties": properties.of_nodes(registered["nodeProperties"], job.spec.nodes)}
    if "ecsProperties" in registered:
        return {"container": {}, "ecsProperties": _ecs(job, registered["ecsProperties"], arns)}
    container = properties.container(registered["containerProperties"], job.spec.container)
    return {"container": {**container, "networkInterfaces": [], **_whereabouts(job, arns, over)}}


def _whereabouts(job: Job, arns: Arns, over: Sequence[Content]) -> Content:
    if job.attempt is not None:
        return runs.whereabouts(job, job.attempt, arns)
    return cast("Content", over[-1]["container"]) if over else {}  # as the latest of them has it


def _ecs(job: Job, registered: Registered, arns: Arns) -> Content:
    task, run = job.spec.task, latest(job)
    assert task is not None, f"{job.id} has ecsProperties and no task"
    containers = [
        {**shown, **runs.container(job, run, made.name)}
        for shown, made in zip(properties.containers(registered, task), task.containers, strict=True)
    ]
    where = {} if run is None else runs.place(job, run, arns)
    return {"taskProperties": [{**registered["taskProperties"][0], **where, "containers": containers}]}


def _timeout(job: Job) -> Content | None:
    if job.spec.timeout is None:
        return None
    return {"attemptDurationSeconds": int(job.spec.timeout.total_seconds())}


def _dependency(on: Dependency) -> Content:
    return said({"jobId": on.job_id, "type": on.type and on.type.value})
