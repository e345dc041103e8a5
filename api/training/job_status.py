"""The statuses of training jobs, derived from batchq's jobs."""

from collections.abc import Mapping
from enum import StrEnum

from batchq.domain.job import ACTIVE, QUEUED, Job, Status
from batchq.domain.stop_orders import StopKind


class TrainingStatus(StrEnum):
    """The status of a training job."""

    #: It waits for its first or next attempt.
    QUEUED = "queued"
    #: Its container is being created.
    INITIALIZING = "initializing"
    RUNNING = "running"
    #: It was ordered to pause, and its container has not exited.
    PAUSING = "pausing"
    #: It is held until a user resumes it.
    PAUSED = "paused"
    #: It was ordered to stop, and its container has not exited.
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    #: Its container failed, or it reached its time limit.
    FAILED = "failed"


FINAL = frozenset({TrainingStatus.COMPLETED, TrainingStatus.CANCELLED, TrainingStatus.FAILED})

_SIMPLE: Mapping[Status, TrainingStatus] = {
    Status.SUBMITTED: TrainingStatus.QUEUED,
    Status.PENDING: TrainingStatus.QUEUED,
    Status.RUNNABLE: TrainingStatus.QUEUED,
    Status.STARTING: TrainingStatus.INITIALIZING,
    Status.RUNNING: TrainingStatus.RUNNING,
    Status.SUCCEEDED: TrainingStatus.COMPLETED,
}

_STOPPING: Mapping[StopKind, TrainingStatus] = {
    StopKind.PAUSE: TrainingStatus.PAUSING,
    StopKind.TERMINATE: TrainingStatus.CANCELLING,
}

STATUSES: Mapping[TrainingStatus, frozenset[Status]] = {
    **{word: frozenset(it for it, own in _SIMPLE.items() if own is word) for word in _SIMPLE.values()},
    TrainingStatus.PAUSING: ACTIVE,
    TrainingStatus.PAUSED: QUEUED,
    TrainingStatus.CANCELLING: ACTIVE,
    TrainingStatus.CANCELLED: frozenset({Status.FAILED}),
    TrainingStatus.FAILED: frozenset({Status.FAILED}),
}
"""The statuses that a job with each training status can have."""


def status_of(job: Job) -> TrainingStatus:
    """The training status of a job that is not an array."""
    if job.status is Status.FAILED:
        return TrainingStatus.CANCELLED if job.is_terminated or job.is_cancelled else TrainingStatus.FAILED
    if job.stop is not None and job.status in ACTIVE and job.stop.kind in _STOPPING:
        return _STOPPING[job.stop.kind]
    return TrainingStatus.PAUSED if job.held else _SIMPLE[job.status]
