"""A job in the response of DescribeJobs. Members without a value are omitted; nothing is null."""

from collections.abc import Sequence
from typing import cast

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.translate import attempts, container_properties
from batchq.api.batch.translate.attempts import Content, latest, said
from batchq.api.batch.translate.consumable_requirements import shown as needs_shown
from batchq.api.batch.translate.container_properties import Registered
from batchq.api.batch.translate.job_definitions import document
from batchq.api.batch.translate.job_summary import array, node, owner, times
from batchq.api.batch.translate.retry_strategy import shown
from batchq.domain.catalog import JobDefinition
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import node_of
from batchq.domain.job import Dependency, Job


def job_detail(job: Job, definition: JobDefinition | None, arns: BatchArns) -> Content:
    """`definition` is None if it is not stored any more."""
    known = {} if definition is None else document(definition.document)
    registered = container_properties.registered(known, job.spec, node_of(job.id)[1])
    spec = job.spec
    over = [attempts.attempt(job, it, arns, in_tasks="ecsProperties" in registered) for it in job.attempts]
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


def _work(job: Job, registered: Registered, arns: BatchArns, over: Sequence[Content]) -> Content:
    """What the job runs, and the state of its latest attempt; `over` has the attempts that ended.

    AWS: for a gang it has the properties only; DescribeJobs returns the state of each node on request.
    """
    if "nodeProperties" in registered and job.spec.nodes is not None:
        return {"nodeProperties": container_properties.of_nodes(registered["nodeProperties"], job.spec.nodes)}
    if "ecsProperties" in registered:
        return {"container": {}, "ecsProperties": _ecs(job, registered["ecsProperties"], arns)}
    container = container_properties.container(registered["containerProperties"], job.spec.container)
    return {"container": {**container, "networkInterfaces": [], **_whereabouts(job, arns, over)}}


def _whereabouts(job: Job, arns: BatchArns, over: Sequence[Content]) -> Content:
    if job.attempt is not None:
        return attempts.whereabouts(job, job.attempt, arns)
    return cast("Content", over[-1]["container"]) if over else {}  # that of the last attempt


def _ecs(job: Job, registered: Registered, arns: BatchArns) -> Content:
    task, run = job.spec.task, latest(job)
    assert task is not None, f"{job.id} has ecsProperties and no task"
    containers = [
        {**shown, **attempts.container(job, run, made.name)}
        for shown, made in zip(container_properties.containers(registered, task), task.containers, strict=True)
    ]
    where = {} if run is None else attempts.place(job, run, arns)
    return {"taskProperties": [{**registered["taskProperties"][0], **where, "containers": containers}]}


def _timeout(job: Job) -> Content | None:
    if job.spec.timeout is None:
        return None
    return {"attemptDurationSeconds": int(job.spec.timeout.total_seconds())}


def _dependency(on: Dependency) -> Content:
    return said({"jobId": on.job_id, "type": on.type and on.type.value})
