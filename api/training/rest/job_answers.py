"""Training jobs in responses, and their statuses. Times are RFC 3339; a value that is not known is null."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from batchq.api.http.answers import answer_of
from batchq.api.training.common.training_jobs import TrainingDialect
from batchq.api.training.common.training_request import HYPERPARAMETERS
from batchq.api.training.rest.figures import (
    Costs,
    Metrics,
    TrainingProgress,
    costs,
    current_metrics,
    length_text,
    memory_text,
    progress,
    size_text,
)
from batchq.domain.cost import Cost
from batchq.domain.enums import CheckpointType
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import any_awaits_checkpoint
from batchq.domain.lifecycle.stopping import next_step_at
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.times import optional_rfc3339, rfc3339
from batchq.domain.training import checkpoint_id
from batchq.domain.training_jobs import TrainingJobView, TrainingPhase, spelling
from batchq.ports.checkpoints import Checkpoint


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

STATUSES = spelling(
    {
        TrainingStatus.QUEUED: (TrainingPhase.CREATED, TrainingPhase.QUEUED),
        TrainingStatus.PAUSED: (TrainingPhase.PAUSED,),
        TrainingStatus.INITIALIZING: (TrainingPhase.STARTING,),
        TrainingStatus.RUNNING: (TrainingPhase.RUNNING, TrainingPhase.TIMING_OUT),
        TrainingStatus.PAUSING: (TrainingPhase.PAUSING_START, TrainingPhase.PAUSING),
        TrainingStatus.CANCELLING: (TrainingPhase.STOPPING,),
        TrainingStatus.COMPLETED: (TrainingPhase.COMPLETED,),
        TrainingStatus.CANCELLED: (TrainingPhase.STOPPED,),
        TrainingStatus.FAILED: (TrainingPhase.TIMED_OUT, TrainingPhase.FAILED),
    }
)


def status_of(view: TrainingJobView) -> TrainingStatus:
    """The training status of a job that is not an array."""
    return STATUSES[view.phase]


DIALECT = TrainingDialect("training")
VARIABLE = "BATCHQ_HP_"  # prefix of the variables of hyperparameters
DECLARATION = "batchq:"  # prefix of the tags that declare members which AWS does not have


class TrainingCheckpoint(Struct, frozen=True, kw_only=True, rename="camel"):
    """A checkpoint: a file or folder at the top of the checkpoint directory of a job."""

    #: As `ckpt_8a1f02bb93c4`.
    checkpoint_id: str
    #: The name of the file or folder.
    name: str
    type: CheckpointType
    #: As `1.4 MB`, in powers of 1024.
    size: str
    size_bytes: int
    #: The number after `epoch` in the name; null: the name has none.
    epoch: int | None
    #: The number after `step` in the name; null: the name has none.
    step: int | None
    #: Whether it can be used: it has not changed for a while, or the job has ended.
    complete: bool
    #: When it was last changed.
    created_at: str


class TrainingJobSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """A training job in a list."""

    job_id: str
    name: str
    status: TrainingStatus
    #: Why the job waits or has ended; null if no reason is recorded.
    status_reason: str | None
    #: The name of the job queue.
    queue: str
    #: The owner.
    user: str
    created_at: str
    #: When the latest attempt began to run.
    started_at: str | None
    #: When the job ended.
    ended_at: str | None


class CancellationDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job was cancelled."""

    #: When the order to cancel was saved.
    cancelled_at: str
    #: The user who gave the order; null for the server itself, as at the limit of a budget.
    cancelled_by: str | None
    reason: str
    #: Whether the order was forced: SIGKILL without a final checkpoint and without a grace period.
    forced: bool
    #: Whether the checkpoints from before the order are kept.
    preserve_checkpoints: bool
    #: Whether a final checkpoint was requested of a job that could write one: it ran, and has a checkpoint directory.
    final_checkpoint_requested: bool
    final_checkpoint_created: bool
    #: Null if there is none.
    final_checkpoint_id: str | None
    #: Why a requested final checkpoint is missing, as `none after 120 s`; null if it is not, or may still come.
    final_checkpoint_error: str | None
    #: Until when a final checkpoint is waited for; null if none is.
    checkpoint_deadline: str | None
    #: When the job ended; null until then.
    ended_at: str | None
    #: Whether the job holds no resources any more: its containers have exited.
    resources_released: bool


class Infrastructure(Struct, frozen=True, kw_only=True, rename="camel"):
    """The resources that a job reserves."""

    vcpus: float
    #: As `8GB`, in powers of 1024.
    memory: str
    gpu_count: int
    #: As it was given at creation; the server does not read it.
    gpu_type: str | None
    #: As it was given at creation; the server does not read it.
    storage: str | None


class CheckpointRulesResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job writes checkpoints."""

    #: The signal that requests a checkpoint; null: the stop signal is the request for the final one.
    signal: str | None
    #: How long a final checkpoint is waited for.
    timeout_seconds: int


class MetricRuleResponse(Struct, frozen=True, kw_only=True):
    """How a metric is found in the log."""

    name: str
    #: In RE2 syntax; group 1 of the last match is the value.
    regex: str


class Configuration(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job runs."""

    image: str
    command: tuple[str, ...]
    #: Without the variables that the server sets, such as those of hyperparameters.
    environment: dict[str, str]
    #: As it was given at creation; the server does not read it.
    framework: object
    #: As it was given at creation; the server does not read it.
    model_config: object
    #: As it was given at creation; the server does not read it.
    dataset_config: object
    hyperparameters: dict[str, object]
    infrastructure: Infrastructure
    #: Null for a job without a checkpoint directory.
    checkpoints: CheckpointRulesResponse | None
    #: Empty: `loss`, `accuracy`, `epoch` and `step`.
    metrics: tuple[MetricRuleResponse, ...]
    #: The longest that one attempt may run; null: without limit.
    max_duration: str | None
    #: How often a failed job is started again at most.
    retries: int


class Timestamps(Struct, frozen=True, kw_only=True, rename="camel"):
    """The times of a job."""

    created_at: str
    #: When the latest attempt began to run.
    started_at: str | None
    #: When the job ended.
    ended_at: str | None
    #: When the job last changed its status or received an order to stop.
    last_updated: str


class TrainingJobDetail(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A training job."""

    job_id: str
    name: str
    description: str
    status: TrainingStatus
    #: Why the job waits or has ended; null if no reason is recorded.
    status_reason: str | None
    #: The name of the job queue.
    queue: str
    #: The owner.
    user: str
    #: Tags without a value, and others as `KEY=VALUE`; without those that declare checkpoints and others.
    tags: tuple[str, ...]
    configuration: Configuration
    #: The total time that the containers of all attempts have run, as `2h 15m`.
    training_duration: str
    #: How many attempts have begun.
    attempts: int
    timestamps: Timestamps
    #: The newest 10, newest first; empty for a job without a checkpoint directory.
    checkpoints: tuple[TrainingCheckpoint, ...]
    #: Null for a job that was submitted without prices.
    costs: Costs | None
    #: Null for a job that was not cancelled.
    cancellation_details: CancellationDetails | None
    #: By name, only if the request asks for them.
    metrics: dict[str, float | int | None] | None = None
    #: Only if the request asks for metrics.
    progress: TrainingProgress | None = None
    #: The last lines of the log, only if the request asks for them.
    logs: tuple[str, ...] | None = None


def checkpoint_answer(checkpoint: Checkpoint) -> TrainingCheckpoint:
    size = size_text(checkpoint.size_bytes)
    return answer_of(TrainingCheckpoint, checkpoint, times=rfc3339, checkpoint_id=checkpoint.id, size=size)


def training_job_summary(view: TrainingJobView) -> TrainingJobSummary:
    job = view.job
    return TrainingJobSummary(
        job_id=job.id,
        name=job.spec.name,
        status=status_of(view),
        status_reason=shown_status_reason(job),
        queue=job.spec.queue,
        user=job.spec.owner.user,
        created_at=rfc3339(job.created_at),
        started_at=optional_rfc3339(job.started_at),
        ended_at=optional_rfc3339(view.ended_at),
    )


def training_job_detail(
    view: TrainingJobView,
    *,
    now: datetime,
    checkpoints: Sequence[Checkpoint],
    cost: Cost | None,
    metrics: Metrics | None,
    logs: tuple[str, ...] | None,
) -> TrainingJobDetail:
    """The description of a job. `now`: the end of the running time of an attempt under way.

    `cost` None: the job has no prices. `metrics` and `logs` None: they were not requested.
    """
    job, row, returned = view.job, training_job_summary(view), DIALECT.returned(view.job)
    return TrainingJobDetail(
        job_id=row.job_id,
        name=row.name,
        description=str(returned.get("description", "")),
        status=row.status,
        status_reason=row.status_reason,
        queue=row.queue,
        user=row.user,
        tags=tuple(f"{key}={value}" if value else key for key, value in job.tags if not key.startswith(DECLARATION)),
        configuration=_configuration(job, returned),
        training_duration=length_text(view.run_time(now)),
        attempts=len(job.all_attempts),
        timestamps=Timestamps(
            created_at=row.created_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
            last_updated=rfc3339(view.last_change),
        ),
        checkpoints=tuple(map(checkpoint_answer, checkpoints)),
        costs=None if cost is None else costs(cost),
        cancellation_details=cancellation_details(view),
        metrics=None if metrics is None else current_metrics(metrics),
        progress=None if metrics is None else progress(view, metrics, now),
        logs=logs,
    )


def cancellation_details(view: TrainingJobView) -> CancellationDetails | None:
    """How the job was cancelled; None if it was not cancelled."""
    job, order = view.job, view.cancellation
    if order is None:
        return None
    return answer_of(
        CancellationDetails,
        order,
        cancelled_at=rfc3339(order.ordered_at),
        cancelled_by=order.user or None,
        forced=order.forced_at is not None,
        preserve_checkpoints=order.keep_checkpoints,
        final_checkpoint_created=order.final_checkpoint is not None,
        final_checkpoint_id=None if order.final_checkpoint is None else checkpoint_id(job.id, order.final_checkpoint),
        final_checkpoint_error=order.checkpoint_error,
        checkpoint_deadline=optional_rfc3339(next_step_at(job) if any_awaits_checkpoint(job) else None),
        ended_at=optional_rfc3339(view.ended_at),
        resources_released=job.attempt is None,
    )


def _configuration(job: Job, returned: Mapping[str, Any]) -> Configuration:
    spec, size, rules = job.spec, job.spec.resources, job.spec.checkpoints
    return Configuration(
        image=spec.container.image,
        command=spec.container.command,
        environment={name: value for name, value in spec.container.environment if not name.startswith(VARIABLE)},
        framework=returned.get("framework"),
        model_config=returned.get("modelConfig"),
        dataset_config=returned.get("datasetConfig"),
        hyperparameters=next(
            (json.loads(path.content) for path in spec.container.files if path.path == HYPERPARAMETERS), {}
        ),
        infrastructure=Infrastructure(
            vcpus=size.millicpus / 1000,
            memory=memory_text(size.memory_mib),
            gpu_count=size.gpus,
            gpu_type=returned.get("gpuType"),
            storage=returned.get("storage"),
        ),
        checkpoints=None
        if rules is None
        else CheckpointRulesResponse(signal=rules.signal, timeout_seconds=int(rules.timeout.total_seconds())),
        metrics=tuple(MetricRuleResponse(name=rule.name, regex=rule.regex) for rule in spec.metric_rules),
        max_duration=None if spec.timeout is None else length_text(spec.timeout),
        retries=spec.retry.attempts - 1,
    )
