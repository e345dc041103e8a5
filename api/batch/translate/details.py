"""A job as DescribeJobs and ListJobs tell it. What there is nothing to say of is left out; nothing is null."""

import json
from collections.abc import Mapping
from typing import Any

from api.batch.arns import Arns
from api.batch.translate.definitions import properties
from api.batch.translate.retries import shown
from api.times import milliseconds
from batchq.domain.catalog import JobDefinition
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.job import Attempt, Dependency, Job
from batchq.domain.names import Tag, stream_name

Content = dict[str, object]


def job_detail(job: Job, definition: JobDefinition | None, arns: Arns) -> Content:
    document = {} if definition is None else json.loads(definition.document)
    spec = job.spec
    return _said(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": spec.name,
            "jobQueue": arns.queue(spec.queue),
            "jobDefinition": arns.definition(spec.definition),
            "status": job.status.value,
            "statusReason": job.status_reason,
            **_times(job),
            "attempts": [_attempt(job, attempt, arns) for attempt in job.attempts],
            "container": _container(job, document, arns),
            "retryStrategy": shown(spec.retry),
            "timeout": _timeout(job),
            "dependsOn": [_dependency(it) for it in spec.depends_on],
            "parameters": dict(spec.parameters),
            "tags": dict(job.tags),
            "propagateTags": spec.propagate_tags,
            "platformCapabilities": document.get("platformCapabilities", ["EC2"]),
            "shareIdentifier": spec.share_identifier,
            "schedulingPriority": spec.scheduling_priority,
            "isCancelled": job.is_cancelled,
            "isTerminated": job.is_terminated,
        }
    )


def job_summary(job: Job, arns: Arns) -> Content:
    """AWS: the two flags are told only where they are true."""
    latest = _latest(job)
    return _said(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": job.spec.name,
            "jobDefinition": arns.definition(job.spec.definition),
            "status": job.status.value,
            "statusReason": job.status_reason,
            **_times(job),
            "container": None if latest is None else _outcome(latest),
            "shareIdentifier": job.spec.share_identifier,
            "isCancelled": job.is_cancelled or None,
            "isTerminated": job.is_terminated or None,
        }
    )


def _said(content: Mapping[str, object]) -> Content:
    return {member: value for member, value in content.items() if value is not None}


def _times(job: Job) -> Content:
    return {
        "createdAt": milliseconds(job.created_at),
        "startedAt": job.started_at and milliseconds(job.started_at),
        "stoppedAt": job.stopped_at and milliseconds(job.stopped_at),
    }


def _timeout(job: Job) -> Content | None:
    if job.spec.timeout is None:
        return None
    return {"attemptDurationSeconds": int(job.spec.timeout.total_seconds())}


def _dependency(on: Dependency) -> Content:
    return _said({"jobId": on.job_id, "type": on.type and on.type.value})


def _latest(job: Job) -> Attempt | None:
    return job.attempt or (job.attempts[-1] if job.attempts else None)


def _attempt(job: Job, attempt: Attempt, arns: Arns) -> Content:
    return _said(
        {
            "container": _whereabouts(job, attempt, arns),
            "startedAt": attempt.started_at and milliseconds(attempt.started_at),
            "stoppedAt": attempt.stopped_at and milliseconds(attempt.stopped_at),
            "statusReason": attempt.status_reason,
        }
    )


def _whereabouts(job: Job, attempt: Attempt, arns: Arns) -> Content:
    """Where an attempt runs or ran. AWS: its log has a name once it is RUNNING."""
    tag = Tag(job_id=job.id, attempt=attempt.number)
    return _said(
        {
            **_outcome(attempt),
            "containerInstanceArn": arns.instance(attempt.environment),
            "taskArn": arns.task(tag),
            "logStreamName": attempt.started_at and stream_name(job.spec.definition.name, tag),
            "networkInterfaces": [],
        }
    )


def _outcome(attempt: Attempt) -> Content:
    return _said({"exitCode": attempt.exit_code, "reason": attempt.reason})


def _container(job: Job, document: Mapping[str, Any], arns: Arns) -> Content:
    """What was registered, with what SubmitJob made of it laid over, and how the latest attempt fares."""
    spec = job.spec.container
    latest = _latest(job)
    registered = properties(document or {"containerProperties": {"image": spec.image}})
    return {
        **registered,
        "command": list(spec.command),
        "environment": [{"name": name, "value": value} for name, value in spec.environment],
        **_resources(registered, spec),
        "networkInterfaces": [],
        **({} if latest is None else _whereabouts(job, latest, arns)),
    }


def _resources(registered: Mapping[str, Any], spec: ContainerSpec) -> Content:
    """The effective numbers, each where the definition has it: as an entry, or as one of the two older members."""
    older = {member: value for member, value in _numbers(spec.resources).items() if member in registered}
    entries = {it["type"]: it for it in registered.get("resourceRequirements", ())}
    wanted = _entries(spec.resources)
    kept = {kind: wanted[kind] for kind in entries if kind in wanted}
    new = {kind: text for kind, text in wanted.items() if kind not in kept and _OLDER.get(kind) not in older}
    return {**older, "resourceRequirements": [{"type": kind, "value": text} for kind, text in (kept | new).items()]}


_OLDER = {"VCPU": "vcpus", "MEMORY": "memory"}


def _numbers(resources: Resources) -> dict[str, int]:
    return {"vcpus": resources.millicpus // 1000, "memory": resources.memory_mib}


def _entries(resources: Resources) -> dict[str, str]:
    entries = {"VCPU": vcpus(resources.millicpus), "MEMORY": str(resources.memory_mib)}
    return entries | ({"GPU": str(resources.gpus)} if resources.gpus else {})


def vcpus(millicpus: int) -> str:
    """As AWS writes them: `2`, `0.25`."""
    whole, rest = divmod(millicpus, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
