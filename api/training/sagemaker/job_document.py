"""Training jobs in SageMaker's responses, and their statuses. Times are seconds since 1970."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from batchq.api.training.sagemaker.create_job import DIALECT
from batchq.domain.enums import FINISHED
from batchq.domain.job import Job
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.status_reasons import ALGORITHM_ERROR
from batchq.domain.training import MetricValue
from batchq.domain.training_jobs import COURSE, STOPS, TrainingJobView, TrainingPhase, spelling
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


class Statuses(NamedTuple):
    """Both statuses of a job."""

    primary: TrainingJobStatus
    secondary: SecondaryStatus


_WAITING = TrainingPhase.CREATED, TrainingPhase.QUEUED, TrainingPhase.PAUSED
_STARTING = TrainingPhase.STARTING, TrainingPhase.PAUSING_START
_RUNNING = TrainingPhase.RUNNING, TrainingPhase.PAUSING
_STOPPING = TrainingPhase.STOPPING, TrainingPhase.TIMING_OUT
STATUSES = spelling(
    {
        Statuses(TrainingJobStatus.IN_PROGRESS, SecondaryStatus.PENDING): _WAITING,
        Statuses(TrainingJobStatus.IN_PROGRESS, SecondaryStatus.DOWNLOADING): _STARTING,
        Statuses(TrainingJobStatus.IN_PROGRESS, SecondaryStatus.TRAINING): _RUNNING,
        Statuses(TrainingJobStatus.STOPPING, SecondaryStatus.STOPPING): _STOPPING,
        Statuses(TrainingJobStatus.COMPLETED, SecondaryStatus.COMPLETED): (TrainingPhase.COMPLETED,),
        Statuses(TrainingJobStatus.STOPPED, SecondaryStatus.STOPPED): (TrainingPhase.STOPPED,),
        Statuses(TrainingJobStatus.STOPPED, SecondaryStatus.MAX_RUNTIME_EXCEEDED): (TrainingPhase.TIMED_OUT,),
        Statuses(TrainingJobStatus.FAILED, SecondaryStatus.FAILED): (TrainingPhase.FAILED,),
    }
)
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


def _entered(view: TrainingJobView, history: Sequence[HistoryEntry]) -> list[tuple[SecondaryStatus, datetime]]:
    """When the job entered each of its secondary statuses, oldest first.

    No status follows itself. A job that was ordered to stop is STOPPING until it ends.
    """
    found: list[tuple[SecondaryStatus, datetime]] = []
    for entry in history:
        last = found[-1][0] if found else None
        if entry.status in FINISHED or last is SecondaryStatus.STOPPING:
            continue
        is_stop = entry.stop is not None and entry.stop.kind in STOPS
        status = SecondaryStatus.STOPPING if is_stop else STATUSES[COURSE[entry.status]].secondary
        if status is not last:
            found.append((status, entry.at))
    job, present = view.job, STATUSES[view.phase].secondary
    if not found or found[-1][0] is not present:
        found.append((present, job.stopped_at or (history[-1].at if history else job.created_at)))
    return found


MAX_REASON = 1024  # characters of a FailureReason
_MISSING = re.compile(r"host path '(?P<uri>s3://[^']*)' does not exist")
Answer = Mapping[str, object]


def is_training_job(job: Job) -> bool:
    """Whether the job was created by this dialect, and is not deleted."""
    return DIALECT.created(job) and not DIALECT.is_deleted(job)


def described(
    view: TrainingJobView,
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
    job, started = view.job, view.first_start
    failed = {"FailureReason": _failure_reason(job, shown)} if view.phase is TrainingPhase.FAILED else {}
    found = [_metric(rule.name, metrics[rule.name], job) for rule in job.spec.metric_rules if rule.name in metrics]
    return {
        **summarized(view, arn=arn),
        **DIALECT.returned(job),
        **({} if started is None else {"TrainingStartTime": _epoch(started)}),
        **_training_time(view),
        **failed,
        **({"FinalMetricDataList": found} if found else {}),
        "SecondaryStatusTransitions": _transitions(view, history, shown),
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
    }


def summarized(view: TrainingJobView, *, arn: str) -> dict[str, object]:
    """The members of a row of ListTrainingJobs."""
    job, statuses, ended = view.job, STATUSES[view.phase], view.ended_at if view.first_start else None
    return {
        "TrainingJobName": job.spec.name,
        "TrainingJobArn": arn,
        "CreationTime": _epoch(job.created_at),
        **({"TrainingEndTime": _epoch(ended)} if ended else {}),
        "LastModifiedTime": _epoch(job.stopped_at or job.started_at or job.created_at),
        "TrainingJobStatus": statuses.primary,
        "SecondaryStatus": statuses.secondary,
    }


def _transitions(view: TrainingJobView, history: Sequence[HistoryEntry], shown: Callable[[str], str]) -> list[Answer]:
    """The secondary statuses that the job has had, oldest first. The last one is the present one."""
    job, entered = view.job, _entered(view, history)
    ends = [*(at for _, at in entered[1:]), entered[-1][1] if job.status in FINISHED else None]
    answers: list[Answer] = []
    for (status, at), end in zip(entered, ends, strict=True):
        waits = end is None and status is SecondaryStatus.PENDING
        message = (shown_status_reason(job) if waits else None) or _MESSAGES[status]
        answers.append(
            {
                "Status": status,
                "StartTime": _epoch(at),
                **({"EndTime": _epoch(end)} if end else {}),
                "StatusMessage": shown(
                    message + (_final_checkpoint(view) if status is SecondaryStatus.STOPPED else "")
                ),
            }
        )
    return answers


def _final_checkpoint(view: TrainingJobView) -> str:
    """The part of a stopped job's message about its final checkpoint; empty without a request, and while unknown."""
    order = view.cancellation
    if order is None or not order.final_checkpoint_requested:
        return ""
    if order.final_checkpoint is not None:
        return f". Final checkpoint: {order.final_checkpoint}"
    return "" if order.checkpoint_error is None else f". No final checkpoint: {order.checkpoint_error}"


def _training_time(view: TrainingJobView) -> Answer:
    """How long the attempts of a job that has ended ran: at least a second, as AWS has it. Empty if none ran."""
    if view.ended_at is None or view.first_start is None:
        return {}
    seconds = max(1, math.ceil(view.run_time(view.ended_at).total_seconds()))
    return {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds * view.nodes}


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
