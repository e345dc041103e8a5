"""Attempts in responses about jobs: where they run, their containers, log streams and exit codes."""

from collections.abc import Mapping

from batchq.api.batch.arns import BatchArns
from batchq.api.http import milliseconds
from batchq.domain.created_paths import container_reason
from batchq.domain.ids import Tag, node_of, stream_name
from batchq.domain.job import Attempt, Job, Part

Content = dict[str, object]


def said(content: Mapping[str, object]) -> Content:
    """`content` without the members that are None: responses contain no null."""
    return {member: value for member, value in content.items() if value is not None}


def latest(job: Job) -> Attempt | None:
    """The attempt under way, else the last one that has ended; None before the first."""
    return job.attempt or (job.attempts[-1] if job.attempts else None)


def attempt(job: Job, run: Attempt, arns: BatchArns, *, in_tasks: bool) -> Content:
    """An attempt that has ended. AWS: of a job defined by ecsProperties (`in_tasks`) it includes the containers."""
    return said(
        {
            "container": whereabouts(job, run, arns),
            "startedAt": run.started_at and milliseconds(run.started_at),
            "stoppedAt": run.stopped_at and milliseconds(run.stopped_at),
            "statusReason": run.status_reason,
            "taskProperties": [_task(job, run, arns)] if in_tasks else None,
        }
    )


def outcome(run: Attempt | Part) -> Content:
    return said({"exitCode": run.exit_code, "reason": container_reason(run)})


def whereabouts(job: Job, run: Attempt, arns: BatchArns) -> Content:
    """Where an attempt runs or ran, and how it ended.

    Of several containers it describes the one that decided the attempt, until then the leading one.
    """
    key = run.decided or _leading(job)
    part = next((it for it in run.parts if it.key == key), None)
    began = run.started_at if part is None else part.started_at
    return said(
        {
            **outcome(run),
            **place(job, run, arns),
            "logStreamName": _stream(job, run, key) if began else None,
            "networkInterfaces": _interfaces(part),
        }
    )


def place(job: Job, run: Attempt, arns: BatchArns) -> Content:
    return {"containerInstanceArn": arns.instance(run.environment), "taskArn": arns.task(_tag(job, run, _leading(job)))}


def container(job: Job, run: Attempt | None, name: str) -> Content:
    """The state of one container of a task. AWS: it has a log stream name once it is RUNNING."""
    key = f"{_leading(job).partition('/')[0]}/{name}"
    part = None if run is None else next((it for it in run.parts if it.key == key), None)
    if run is None or part is None:
        return {"networkInterfaces": []}
    stream = _stream(job, run, key) if part.started_at else None
    return said({**outcome(part), "logStreamName": stream, "networkInterfaces": _interfaces(part)})


def _task(job: Job, run: Attempt, arns: BatchArns) -> Content:
    containers = [{"name": it.name, **container(job, run, it.name)} for it in run.parts]
    return {**place(job, run, arns), "containers": containers}


def _leading(job: Job) -> str:
    """The key of the container that represents the attempt; empty if the job has one container."""
    spec = job.spec
    if spec.task is not None:
        return f"{node_of(job.id)[1] or 0}/{spec.task.leading.name}"
    return "" if spec.nodes is None else f"{spec.nodes.main}/{spec.nodes.leading.name}"


def _tag(job: Job, run: Attempt, key: str) -> Tag:
    return Tag(job_id=node_of(job.id)[0], attempt=run.number, part=key)


def _stream(job: Job, run: Attempt, key: str) -> str:
    return stream_name(job.spec.definition.name, _tag(job, run, key))


def _interfaces(part: Part | None) -> list[Content]:
    return [] if part is None or part.address is None else [{"privateIpv4Address": part.address}]
