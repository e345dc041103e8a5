"""The description of a training job, as create, show, list and terminate answer it, with its phases.

Members of the request that the dialect only returns are stored with the job as its client document. A job of another
dialect has none: it is described by the members that follow from the job itself.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from batchq.api.training.common.training_jobs import TrainingDialect
from batchq.api.training.modelarts.flavors import FlavorDetail, flavor_detail, flavor_id, flavor_name, nodes_that_fit
from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job
from batchq.domain.task import DefinitionForm
from batchq.domain.times import milliseconds
from batchq.domain.training_jobs import TrainingFailure, TrainingJobView, TrainingPhase, spelling, statuses_with

KILL_PATIENCE = timedelta(seconds=60)  # after SIGKILL a stop counts as failed


class Phase(StrEnum):
    """The stable phases."""

    CREATING = "Creating"
    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    ABNORMAL = "Abnormal"


class SecondaryPhase(StrEnum):
    """The detailed phases. The vendor may change them."""

    CREATING = "Creating"
    QUEUING = "Queuing"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    CREATE_FAILED = "CreateFailed"
    TERMINATED_FAILED = "TerminatedFailed"
    UNKNOWN = "Unknown"
    LOST = "Lost"


class Phases(NamedTuple):
    """Both phases of a job."""

    phase: Phase
    secondary: SecondaryPhase


PHASES = spelling(
    {
        Phases(Phase.CREATING, SecondaryPhase.CREATING): (TrainingPhase.CREATED,),
        Phases(Phase.PENDING, SecondaryPhase.QUEUING): (TrainingPhase.QUEUED, TrainingPhase.PAUSED),
        Phases(Phase.PENDING, SecondaryPhase.CREATING): (TrainingPhase.STARTING, TrainingPhase.PAUSING_START),
        Phases(Phase.RUNNING, SecondaryPhase.RUNNING): (TrainingPhase.RUNNING, TrainingPhase.PAUSING),
        Phases(Phase.TERMINATING, SecondaryPhase.TERMINATING): (TrainingPhase.STOPPING, TrainingPhase.TIMING_OUT),
        Phases(Phase.COMPLETED, SecondaryPhase.COMPLETED): (TrainingPhase.COMPLETED,),
    }
)
"""Without those of a FAILED job."""

FAILURES: Mapping[TrainingFailure, Phases] = {
    TrainingFailure.PROGRAM: Phases(Phase.FAILED, SecondaryPhase.FAILED),
    TrainingFailure.ORDERED: Phases(Phase.TERMINATED, SecondaryPhase.TERMINATED),
    TrainingFailure.NOT_STARTED: Phases(Phase.ABNORMAL, SecondaryPhase.CREATE_FAILED),
    TrainingFailure.LOST: Phases(Phase.ABNORMAL, SecondaryPhase.LOST),
    TrainingFailure.FORCED: Phases(Phase.ABNORMAL, SecondaryPhase.TERMINATED_FAILED),
}


def phases(view: TrainingJobView, *, engine_answers: bool, now: datetime) -> Phases:
    """The phases of a job. `engine_answers`: whether the state of its container is known at present."""
    if view.failure is not None:
        return FAILURES[view.failure]
    found = PHASES[view.phase]
    killed_at = None if view.job.stop is None else view.job.stop.killed_at
    match found.phase:
        case Phase.RUNNING if not engine_answers:
            return Phases(found.phase, SecondaryPhase.UNKNOWN)
        case Phase.TERMINATING if killed_at is not None and now - killed_at > KILL_PATIENCE:
            return Phases(found.phase, SecondaryPhase.TERMINATED_FAILED)
    return found


def statuses_in(phase: Phase) -> frozenset[Status]:
    """The statuses that a job in the phase may have."""
    failed = {Status.FAILED for phases in FAILURES.values() if phases.phase is phase}
    return statuses_with(PHASES, *(phases for phases in PHASES.values() if phases.phase is phase)) | failed


DIALECT = TrainingDialect("modelarts")
DESCRIPTION_TAG = "modelarts:description"
DEFAULT_WORKSPACE = "0"
_ANNOTATIONS: Mapping[str, str] = {"job_template": "Template DL"}  # the vendor's default
AI_PROJECT = "default-ai-project"
Document = Mapping[str, Any]


class TrainingJobMetadataResponse(Struct, frozen=True, kw_only=True):
    """The description of a job that does not change as it runs."""

    id: str
    name: str
    workspace_id: str
    description: str
    #: Milliseconds since 1970.
    create_time: int
    #: The owner.
    user_name: str
    annotations: dict[str, str]
    ai_project: str = AI_PROJECT


class TaskStatusResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task of a finished job ended."""

    #: As `worker-0`.
    task: str
    #: Absent if the task never ran.
    exit_code: int | None = None
    #: Why the task failed; empty if it did not fail, or was ordered to stop.
    message: str


class RunningRecordResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that ran."""

    #: Seconds since 1970.
    start_at: int
    #: Seconds since 1970; absent while it runs.
    end_at: int | None = None
    #: `init_or_rescheduled`.
    start_type: str
    end_reason: str | None = None
    #: As `worker-0`; absent unless the failure of a task caused the end.
    end_related_task: str | None = None
    #: `job_reschedule` if another attempt followed.
    end_recover: str | None = None


class TrainingJobStatusResponse(Struct, frozen=True, kw_only=True):
    """The state of a job."""

    #: Creating, Pending, Running, Completed, Failed, Terminating, Terminated or Abnormal.
    phase: str
    #: More detailed; may change between versions.
    secondary_phase: str
    #: Milliseconds for which its attempts have run.
    duration: int
    #: When its first attempt began to run, in milliseconds since 1970; 0 before.
    start_time: int
    #: The number of nodes over time; null, because the nodes of a job do not change.
    node_count_metrics: None = None
    #: One for each node.
    tasks: tuple[str, ...]
    #: Empty until the job has ended.
    task_statuses: tuple[TaskStatusResponse, ...]
    running_records: tuple[RunningRecordResponse, ...]


class TrainingResourceResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a job."""

    policy: str
    flavor_id: str
    flavor_name: str
    node_count: int
    #: The job queue.
    pool_id: str
    flavor_detail: FlavorDetail


class TrainingSpecResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a job runs. All members but `resource` are as they were sent."""

    resource: TrainingResourceResponse
    log_export_path: dict[str, object] | None = None
    auto_stop: dict[str, object] | None = None
    schedule_policy: dict[str, object] | None = None
    is_hosted_log: bool


class TrainingJobResponse(Struct, frozen=True, kw_only=True):
    """A training job."""

    metadata: TrainingJobMetadataResponse
    status: TrainingJobStatusResponse
    #: As it was sent, with the directories and the engine that the server chose.
    algorithm: dict[str, object]
    spec: TrainingSpecResponse
    kind: str = "job"


def definition_prefix(project: str) -> str:
    """The beginning of the names of the definitions of all jobs of a project. No project id has a `_`."""
    return f"modelarts_{project}"


def is_in_project(job: Job, project: str) -> bool:
    """Whether the job was created below the project. A job of another dialect is in every project."""
    own = f"{definition_prefix(project)}_"
    return not DIALECT.created(job) or job.spec.definition.name.startswith(own)


def task_names(job: Job) -> tuple[str, ...]:
    """The names of the job's tasks, one for each node."""
    return tuple(f"worker-{node}" for node in range(TrainingJobView(job).nodes))


def job_answer(
    view: TrainingJobView, of: Phases, *, now: datetime, capacity: Resources, shown: Callable[[str], str]
) -> TrainingJobResponse:
    """The description of a job. `of`: its phases. `shown` replaces paths of the server in texts for the caller."""
    job, stored = view.job, DIALECT.returned(view.job)
    metadata, spec = stored.get("metadata", {}), stored.get("spec", {})
    return TrainingJobResponse(
        metadata=TrainingJobMetadataResponse(
            id=job.id,
            name=job.spec.name,
            workspace_id=workspace_of(job),
            description=dict(job.tags).get(DESCRIPTION_TAG, ""),
            create_time=milliseconds(job.created_at),
            user_name=job.spec.owner.user,
            annotations={**_ANNOTATIONS, **(metadata.get("annotations") or {})},
        ),
        status=_status(view, of, now, shown),
        algorithm=stored.get("algorithm") or _algorithm(job),
        spec=TrainingSpecResponse(
            resource=_resource(view, spec.get("resource", {}), capacity),
            log_export_path=spec.get("log_export_path"),
            auto_stop=spec.get("auto_stop"),
            schedule_policy=spec.get("schedule_policy"),
            is_hosted_log=False,
        ),
    )


def algorithm_name(job: Job) -> str:
    """The algorithm's name in the request; empty without one."""
    return str((DIALECT.returned(job).get("algorithm") or {}).get("name") or "")


def workspace_of(job: Job) -> str:
    return str((DIALECT.returned(job).get("metadata") or {}).get("workspace_id") or DEFAULT_WORKSPACE)


def _status(view: TrainingJobView, of: Phases, now: datetime, shown: Callable[[str], str]) -> TrainingJobStatusResponse:
    job, started = view.job, view.first_start
    return TrainingJobStatusResponse(
        phase=of.phase.value,
        secondary_phase=of.secondary.value,
        duration=view.run_time(now) // timedelta(milliseconds=1),
        start_time=0 if started is None else milliseconds(started),
        tasks=task_names(job),
        task_statuses=_task_statuses(job, shown),
        running_records=tuple(
            _running_record(job, attempt, attempt.started_at, shown)
            for attempt in job.all_attempts
            if attempt.started_at
        ),
    )


def _task_statuses(job: Job, shown: Callable[[str], str]) -> tuple[TaskStatusResponse, ...]:
    if job.attempt is not None or not job.attempts:
        return ()
    last = job.attempts[-1]
    is_stopped = _is_stopped(job, last)
    if job.spec.nodes.form is not DefinitionForm.NODES:
        reason = last.reason or (last.status_reason if last.exit_code is None else None)
        message = "" if is_stopped else _error_message(reason, last.exit_code)
        return (TaskStatusResponse(task="worker-0", exit_code=last.exit_code, message=shown(message)),)
    return tuple(
        TaskStatusResponse(
            task=f"worker-{container.node}",
            exit_code=container.exit_code,
            message=""
            if is_stopped or container.stop_ordered
            else shown(_error_message(container.reason, container.exit_code)),
        )
        for container in last.containers
    )


def _error_message(reason: str | None, exit_code: int | None) -> str:
    """Why a task failed; empty for one that did not. AWS Batch's reason, if the task has one."""
    return reason or (f"The task exited with code {exit_code}." if exit_code else "")


def _is_stopped(job: Job, attempt: Attempt) -> bool:
    """Whether an order ended the attempt: a pause, a terminate, a forced failure or the time limit."""
    order = job.stop if attempt.number == len(job.all_attempts) else None
    return attempt.paused or (
        order is not None and (attempt.stopped_at is None or order.ordered_at <= attempt.stopped_at)
    )


def _running_record(
    job: Job, attempt: Attempt, started_at: datetime, shown: Callable[[str], str]
) -> RunningRecordResponse:
    retried = attempt.number < len(job.all_attempts) or (
        attempt.stopped_at is not None and job.status is Status.RUNNABLE
    )
    failed = attempt.stopped_at is not None and attempt.exit_code != 0 and not _is_stopped(job, attempt)
    node = attempt.decided_by.partition("/")[0] if attempt.decided_by else "0"
    reason = attempt.reason or attempt.status_reason if attempt.stopped_at is not None else None
    return RunningRecordResponse(
        start_at=milliseconds(started_at) // 1000,
        end_at=None if attempt.stopped_at is None else milliseconds(attempt.stopped_at) // 1000,
        start_type="init_or_rescheduled",
        end_reason=None if reason is None else shown(reason),
        end_related_task=f"worker-{node}" if failed else None,
        end_recover="job_reschedule" if retried else None,
    )


def _resource(view: TrainingJobView, stored: Document, capacity: Resources) -> TrainingResourceResponse:
    size = view.node_resources
    return TrainingResourceResponse(
        policy=stored.get("policy") or "regular",
        flavor_id=flavor_id(size),
        flavor_name=flavor_name(size),
        node_count=view.nodes,
        pool_id=view.job.spec.queue,
        flavor_detail=flavor_detail(size, max_num=nodes_that_fit(size, capacity)),
    )


def _algorithm(job: Job) -> dict[str, object]:
    container = job.spec.container
    return {
        "command": " ".join(container.command),
        "engine": {"image_url": container.image},
        "environments": dict(container.environment),
    }


def node_id_of(job: Job, task: str) -> JobId | None:
    """The id by which the log of a task is read; None for an unknown task."""
    if task not in task_names(job):
        return None
    node = task.removeprefix("worker-")
    return JobId(f"{job.id}#{node}") if job.spec.nodes.form is DefinitionForm.NODES else job.id
