"""Training jobs in SageMaker's responses, and their statuses. Times are seconds since 1970."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from batchq.api.training.common.training_jobs import first_start, is_marked, stored_document
from batchq.api.training.sagemaker.create_job import DIALECT
from batchq.domain.cost import run_time
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.job import Job
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.status_reasons import ALGORITHM_ERROR
from batchq.domain.training import MetricValue
from batchq.ports.history import HistoryEntry


class TrainingJobStatus(StrEnum):
    """AWS's TrainingJobStatus."""

    IN_PROGRESS = "InProgress"
    #: The job was ordered to stop, and its containers have not ended.
    STOPPING = "Stopping"
    #: The job was stopped by a user, or by its time limit.
    STOPPED = "Stopped"
    COMPLETED = "Completed"
    FAILED = "Failed"


class SecondaryStatus(StrEnum):
    """AWS's SecondaryStatus, as far as this server has it."""

    #: The job waits for resources, is held, or waits for its next attempt.
    PENDING = "Pending"
    #: The image is pulled, and the container is created.
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    COMPLETED = "Completed"
    FAILED = "Failed"


_SIMPLE: Mapping[Status, SecondaryStatus] = {
    Status.SUBMITTED: SecondaryStatus.PENDING,
    Status.PENDING: SecondaryStatus.PENDING,
    Status.RUNNABLE: SecondaryStatus.PENDING,
    Status.STARTING: SecondaryStatus.DOWNLOADING,
    Status.RUNNING: SecondaryStatus.TRAINING,
    Status.SUCCEEDED: SecondaryStatus.COMPLETED,
}
_MESSAGES: Mapping[SecondaryStatus, str] = {
    SecondaryStatus.PENDING: "Waiting for resources",
    SecondaryStatus.DOWNLOADING: "Downloading the training image and starting the container",
    SecondaryStatus.TRAINING: "Training image download completed. Training in progress.",
    SecondaryStatus.STOPPING: "Stopping the training job",
    SecondaryStatus.STOPPED: "Training job stopped",
    SecondaryStatus.MAX_RUNTIME_EXCEEDED: "Training job runtime exceeded MaxRuntimeInSeconds",
    SecondaryStatus.COMPLETED: "Training job completed",
    SecondaryStatus.FAILED: "Training job failed",
}
STATUSES: Mapping[TrainingJobStatus, frozenset[Status]] = {
    TrainingJobStatus.IN_PROGRESS: frozenset(Status) - FINISHED,
    TrainingJobStatus.STOPPING: frozenset({Status.STARTING, Status.RUNNING}),
    TrainingJobStatus.STOPPED: frozenset({Status.FAILED}),
    TrainingJobStatus.COMPLETED: frozenset({Status.SUCCEEDED}),
    TrainingJobStatus.FAILED: frozenset({Status.FAILED}),
}
"""The statuses that a job with each of SageMaker's statuses can have."""


def secondary_status(job: Job) -> SecondaryStatus:
    timed_out = job.stop is not None and job.stop.kind is StopKind.TIMEOUT
    if job.status is Status.FAILED:
        if timed_out:
            return SecondaryStatus.MAX_RUNTIME_EXCEEDED
        return SecondaryStatus.STOPPED if job.is_terminated or job.is_cancelled else SecondaryStatus.FAILED
    is_stopping = timed_out or job.is_terminated
    return SecondaryStatus.STOPPING if is_stopping and job.status not in FINISHED else _SIMPLE[job.status]


def training_job_status(job: Job) -> TrainingJobStatus:
    match secondary_status(job):
        case SecondaryStatus.STOPPING:
            return TrainingJobStatus.STOPPING
        case SecondaryStatus.STOPPED | SecondaryStatus.MAX_RUNTIME_EXCEEDED:
            return TrainingJobStatus.STOPPED
        case SecondaryStatus.COMPLETED:
            return TrainingJobStatus.COMPLETED
        case SecondaryStatus.FAILED:
            return TrainingJobStatus.FAILED
        case _:
            return TrainingJobStatus.IN_PROGRESS


def _entered(job: Job, history: Sequence[HistoryEntry]) -> list[tuple[SecondaryStatus, datetime]]:
    """When the job entered each of its secondary statuses, oldest first.

    No status follows itself. A job that was ordered to stop is STOPPING until it ends.
    """
    found: list[tuple[SecondaryStatus, datetime]] = []
    for entry in history:
        last = found[-1][0] if found else None
        if entry.status in FINISHED or last is SecondaryStatus.STOPPING:
            continue
        is_stop = entry.stop is not None and entry.stop.kind in {StopKind.TERMINATE, StopKind.TIMEOUT}
        status = SecondaryStatus.STOPPING if is_stop else _SIMPLE[entry.status]
        if status is not last:
            found.append((status, entry.at))
    present = secondary_status(job)
    if not found or found[-1][0] is not present:
        found.append((present, job.stopped_at or (history[-1].at if history else job.created_at)))
    return found


DELETED_TAG = "sagemaker:deleted"

MAX_REASON = 1024  # characters of a FailureReason
_MISSING = re.compile(r"host path '(?P<uri>s3://[^']*)' does not exist")
Answer = Mapping[str, object]


def is_training_job(job: Job) -> bool:
    """Whether the job was created by this dialect, and is not deleted."""
    return bool(stored_document(job, DIALECT)) and not is_marked(job, DELETED_TAG)


def request_of(job: Job) -> object:
    """The digest of the request that created the job; empty if the request had no invocation id."""
    return stored_document(job, DIALECT).get("request", "")


def described(
    job: Job,
    *,
    arn: str,
    history: Sequence[HistoryEntry],
    metrics: Mapping[str, MetricValue],
    shown: Callable[[str], str],
) -> Answer:
    """DescribeTrainingJob's answer. `metrics`: the last values by name; only those of MetricDefinitions are returned.

    `shown` replaces paths of the server in texts for the caller.

    AWS: ModelArtifacts is required; it is omitted where no model is stored.
    """
    seconds, instances = _training_seconds(job), job.spec.nodes.count if job.spec.nodes else 1
    status = secondary_status(job)
    ended = {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds * instances} if seconds else {}
    failed = {"FailureReason": _failure_reason(job, shown)} if status is SecondaryStatus.FAILED else {}
    found = [_metric(rule.name, metrics[rule.name], job) for rule in job.spec.metric_rules if rule.name in metrics]
    return {
        **summarized(job, arn=arn),
        **stored_document(job, DIALECT).get("job", {}),
        **({"TrainingStartTime": _epoch(started)} if (started := first_start(job)) else {}),
        **(ended if job.status in FINISHED else {}),
        **failed,
        **({"FinalMetricDataList": found} if found else {}),
        "SecondaryStatusTransitions": _transitions(job, history, shown),
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
    }


def summarized(job: Job, *, arn: str) -> dict[str, object]:
    """The members of a row of ListTrainingJobs."""
    ended = job.stopped_at if job.status in FINISHED and first_start(job) else None
    return {
        "TrainingJobName": job.spec.name,
        "TrainingJobArn": arn,
        "CreationTime": _epoch(job.created_at),
        **({"TrainingEndTime": _epoch(ended)} if ended else {}),
        "LastModifiedTime": _epoch(job.stopped_at or job.started_at or job.created_at),
        "TrainingJobStatus": training_job_status(job),
        "SecondaryStatus": secondary_status(job),
    }


def _transitions(job: Job, history: Sequence[HistoryEntry], shown: Callable[[str], str]) -> list[Answer]:
    """The secondary statuses that the job has had, oldest first. The last one is the present one."""
    entered = _entered(job, history)
    ends = [*(at for _, at in entered[1:]), entered[-1][1] if job.status in FINISHED else None]
    answers: list[Answer] = []
    for (status, at), end in zip(entered, ends, strict=True):
        waits = end is None and status is SecondaryStatus.PENDING
        answers.append(
            {
                "Status": status,
                "StartTime": _epoch(at),
                **({"EndTime": _epoch(end)} if end else {}),
                "StatusMessage": shown((shown_status_reason(job) if waits else None) or _MESSAGES[status]),
            }
        )
    return answers


def _training_seconds(job: Job) -> int:
    """The time that the attempts which have ended ran; at least 1 if one ran, as AWS has it, else 0."""
    ran = [
        run_time(attempt, attempt.stopped_at) for attempt in job.attempts if attempt.started_at and attempt.stopped_at
    ]
    return max(1, math.ceil(sum(duration.total_seconds() for duration in ran))) if ran else 0


def _failure_reason(job: Job, shown: Callable[[str], str]) -> str:
    """AWS: `AlgorithmError: TEXT, exit code: N`, where the algorithm can write the text into a file.

    An error of the request, as a missing input, begins with ClientError, one of the service with InternalServerError.
    """
    last = job.attempts[-1] if job.attempts else None
    reason = shown((last.reason if last else None) or shown_status_reason(job) or "The training job failed.")
    if last is not None and last.exit_code is not None:
        end = f", exit code: {last.exit_code}"
        text = ALGORITHM_ERROR + reason.removeprefix(ALGORITHM_ERROR)
        return text[: MAX_REASON - len(end)] + end
    missing = _MISSING.search(reason)
    if missing is not None:
        return f"ClientError: Data download failed: No S3 objects found under S3 URL {missing['uri']}"[:MAX_REASON]
    return f"InternalServerError: {reason}"[:MAX_REASON]


def _metric(name: str, value: MetricValue, job: Job) -> Answer:
    at = value.at or job.stopped_at or job.created_at
    return {"MetricName": name, "Value": value.value, "Timestamp": _epoch(at)}


def _epoch(at: datetime) -> float:
    return round(at.timestamp(), 3)
