"""A job as batchq remembers it. Values only; what may happen to it is in `lifecycle`."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType
from uuid import UUID, uuid5

from batchq.domain.container import ContainerSpec, Overrides

JobId = NewType("JobId", str)
QueueName = NewType("QueueName", str)

_TASKS = UUID("5f1c9d0e-3c53-4b7a-9a53-0b9c1f6b2f5e")


class Status(StrEnum):
    """AWS Batch's seven, in the order a job passes them."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNABLE = "RUNNABLE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


QUEUED = frozenset({Status.SUBMITTED, Status.PENDING, Status.RUNNABLE})
ACTIVE = frozenset({Status.STARTING, Status.RUNNING})
FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})


class Action(StrEnum):
    RETRY = "RETRY"
    EXIT = "EXIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRule:
    """One entry of evaluateOnExit. A pattern that is None is not asked about; a trailing `*` matches any rest."""

    action: Action
    on_status_reason: str | None = None
    on_reason: str | None = None
    on_exit_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStrategy:
    attempts: int = 1
    evaluate_on_exit: tuple[ExitRule, ...] = ()


class DependencyType(StrEnum):
    SEQUENTIAL = "SEQUENTIAL"
    N_TO_N = "N_TO_N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Another job that must have SUCCEEDED first. `type` is echoed; between single jobs it makes no difference."""

    job_id: JobId
    type: DependencyType | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DefinitionRef:
    name: str
    revision: int

    def __str__(self) -> str:
        return f"{self.name}:{self.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Which attempt of which job: the name by which the outside knows a container."""

    job_id: JobId
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}/{self.attempt}"

    @property
    def task_id(self) -> str:
        """32 hex digits, new for each attempt and always the same for one: it needs no remembering."""
        return uuid5(_TASKS, str(self)).hex


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What was asked for: the definition and SubmitJob's overrides, merged once, at SubmitJob. It never changes."""

    name: str
    queue: QueueName
    definition: DefinitionRef
    container: ContainerSpec
    overrides: Overrides = field(default_factory=Overrides)
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy = field(default_factory=RetryStrategy)
    timeout: timedelta | None = None
    depends_on: tuple[Dependency, ...] = ()
    scheduling_priority: int | None = None
    share_identifier: str | None = None
    propagate_tags: bool = False
    stop_grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One placing of a job on an environment. The finished ones are a job's `attempts`."""

    number: int
    environment: str
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str | None = None


class StopCause(StrEnum):
    TERMINATED = "TERMINATED"
    TIMED_OUT = "TIMED_OUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """An order to stop, beside the status: the job is over when its container is.

    `kill_at` is None until the container has been asked (SIGTERM delivered); from then it is when to kill (again).
    `killed_at` is the first kill.
    """

    cause: StopCause
    reason: str
    ordered_at: datetime
    grace: timedelta
    kill_at: datetime | None = None
    killed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job and all that is remembered of it.

    `order` is its place in the order of submission. `attempt` is the one under way, there exactly while the job is
    STARTING or RUNNING. `cancelled` is a CancelJob's reason: on a FAILED job the one that ended it, on an active one
    a remembered one. `misfit` says that no environment of its queue could ever hold it. `version` counts its saves.
    """

    id: JobId
    order: int
    spec: JobSpec
    created_at: datetime
    status: Status = Status.SUBMITTED
    status_reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    attempt: Attempt | None = None
    stop: Stop | None = None
    cancelled: str | None = None
    misfit: bool = False
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    tags: tuple[tuple[str, str], ...] = ()
    version: int = 0

    @property
    def tag(self) -> Tag:
        """The attempt under way. Only an active job has one."""
        assert self.attempt is not None, f"{self.id} is {self.status} and has no attempt under way"
        return Tag(job_id=self.id, attempt=self.attempt.number)

    @property
    def is_cancelled(self) -> bool:
        return self.status is Status.FAILED and self.cancelled is not None

    @property
    def is_terminated(self) -> bool:
        return self.stop is not None and self.stop.cause is StopCause.TERMINATED


def stream_name(definition_name: str, tag: Tag) -> str:
    """The log stream of one attempt, as AWS Batch names it."""
    return f"{definition_name[:200]}/default/{tag.task_id}"
