"""The statuses of SageMaker's training jobs, derived from batchq's jobs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from batchq.domain.job import FINISHED, Job, Status
from batchq.domain.stop_orders import StopKind
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


class Transition(Struct, frozen=True, kw_only=True):
    """A time during which a job has a secondary status."""

    status: SecondaryStatus
    started_at: datetime
    #: None while the job has the status.
    ended_at: datetime | None
    message: str


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


def transitions(job: Job, history: Sequence[HistoryEntry]) -> tuple[Transition, ...]:
    """The secondary statuses that the job has had, oldest first. The last one is the present one."""
    steps = list(_steps(job, history))
    ends = [at for _, at in steps[1:]]
    final = None if job.status not in FINISHED else steps[-1][1]
    return tuple(
        Transition(status=status, started_at=at, ended_at=end, message=_MESSAGES[status])
        for (status, at), end in zip(steps, [*ends, final], strict=True)
    )


def _steps(job: Job, history: Sequence[HistoryEntry]) -> Iterator[tuple[SecondaryStatus, datetime]]:
    """Each secondary status with its beginning; equal ones in succession are one."""
    last: SecondaryStatus | None = None
    for entry in history:
        if entry.status in FINISHED:
            continue
        is_stop = entry.stop is not None and entry.stop.kind in {StopKind.TERMINATE, StopKind.TIMEOUT}
        status = SecondaryStatus.STOPPING if is_stop else _SIMPLE[entry.status]
        if status is not last and last is not SecondaryStatus.STOPPING:
            yield status, entry.at
            last = status
    now = secondary_status(job)
    if now is not last:
        yield now, job.stopped_at or (history[-1].at if history else job.created_at)
