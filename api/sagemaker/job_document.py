"""Training jobs in SageMaker's responses. Times are seconds since 1970."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from batchq.api.sagemaker.create_job import DIALECT
from batchq.api.sagemaker.statuses import SecondaryStatus, secondary_status, training_job_status, transitions
from batchq.domain.created_paths import status_reason
from batchq.domain.job import FINISHED, Attempt, Job
from batchq.domain.training_metrics import MetricValue
from batchq.ports.history import HistoryEntry

DELETED_TAG = "sagemaker:deleted"
"""Marks a deleted job. The value is the id of the job, so that the tag of another job has no effect."""
MAX_REASON = 1024  # characters of a FailureReason

Answer = Mapping[str, object]


def is_training_job(job: Job) -> bool:
    """Whether the job was created by this dialect, and is not deleted."""
    return _document(job).get("dialect") == DIALECT and dict(job.tags).get(DELETED_TAG) != job.id


def request_of(job: Job) -> object:
    """The digest of the request that created the job; empty if the request had no invocation id."""
    return _document(job).get("request", "")


def described(job: Job, *, arn: str, history: Sequence[HistoryEntry], metrics: Mapping[str, MetricValue]) -> Answer:
    """DescribeTrainingJob's answer. `metrics`: the last values by name; only those of MetricDefinitions are returned.

    AWS: ModelArtifacts is required; it is omitted where no model is stored.
    """
    seconds = _training_seconds(job)
    status = secondary_status(job)
    ended = {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds * _instances(job)} if seconds else {}
    failed = {"FailureReason": _failure_reason(job)[:MAX_REASON]} if status is SecondaryStatus.FAILED else {}
    found = [_metric(it.name, metrics[it.name], job) for it in job.spec.metric_rules if it.name in metrics]
    return {
        **summarized(job, arn=arn),
        **_returned(job),
        **({"TrainingStartTime": _epoch(started)} if (started := _first_start(job)) else {}),
        **(ended if job.status in FINISHED else {}),
        **failed,
        **({"FinalMetricDataList": found} if found else {}),
        "SecondaryStatusTransitions": _transitions(job, history),
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
    }


def summarized(job: Job, *, arn: str) -> dict[str, object]:
    """The members of a row of ListTrainingJobs."""
    ended = job.stopped_at if job.status in FINISHED and _first_start(job) else None
    return {
        "TrainingJobName": job.spec.name,
        "TrainingJobArn": arn,
        "CreationTime": _epoch(job.created_at),
        **({"TrainingEndTime": _epoch(ended)} if ended else {}),
        "LastModifiedTime": _epoch(job.stopped_at or job.started_at or job.created_at),
        "TrainingJobStatus": training_job_status(job),
        "SecondaryStatus": secondary_status(job),
    }


def _returned(job: Job) -> Mapping[str, object]:
    found = _document(job).get("job")
    return found if isinstance(found, dict) else {}


def _document(job: Job) -> Mapping[str, object]:
    found = json.loads(job.spec.client_document or "{}")
    return found if isinstance(found, dict) else {}


def _transitions(job: Job, history: Sequence[HistoryEntry]) -> list[Answer]:
    return [
        {
            "Status": it.status,
            "StartTime": _epoch(it.started_at),
            **({"EndTime": _epoch(it.ended_at)} if it.ended_at else {}),
            "StatusMessage": _message(job)
            if it.ended_at is None and it.status is SecondaryStatus.PENDING
            else it.message,
        }
        for it in transitions(job, history)
    ]


def _message(job: Job) -> str:
    return status_reason(job) or "Waiting for resources"


def _attempts(job: Job) -> tuple[Attempt, ...]:
    return (*job.attempts, *(() if job.attempt is None else (job.attempt,)))


def _first_start(job: Job) -> datetime | None:
    return next((it.started_at for it in _attempts(job) if it.started_at is not None), None)


def _training_seconds(job: Job) -> int:
    """The time that the attempts which have ended ran; at least 1 if one ran, as AWS has it, else 0."""
    ran = [it.stopped_at - it.started_at for it in job.attempts if it.started_at and it.stopped_at]
    return max(1, math.ceil(sum(it.total_seconds() for it in ran))) if ran else 0


def _instances(job: Job) -> int:
    return job.spec.nodes.count if job.spec.nodes else 1


def _failure_reason(job: Job) -> str:
    """AWS: an error of the algorithm begins with AlgorithmError, one of the service with InternalServerError."""
    last = job.attempts[-1] if job.attempts else None
    reason = status_reason(job) or "The training job failed."
    if last is not None and last.exit_code is not None:
        details = f": {last.reason}" if last.reason else ""
        return f"AlgorithmError: {reason}{details}, exit code: {last.exit_code}"
    return f"InternalServerError: {reason}"


def _metric(name: str, value: MetricValue, job: Job) -> Answer:
    at = value.at or job.stopped_at or job.created_at
    return {"MetricName": name, "Value": value.value, "Timestamp": _epoch(at)}


def _epoch(at: datetime) -> float:
    return round(at.timestamp(), 3)
