"""The phases of a training job, as the vendor names them, from the status of a job."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from batchq.domain.access.accounts import Caller
from batchq.domain.explanation.codes import Code
from batchq.domain.explanation.ended import ended
from batchq.domain.explanation.facts import Neighbours, Reader
from batchq.domain.job import FINISHED, Job, Status
from batchq.domain.stop_orders import StopKind

KILL_PATIENCE = timedelta(seconds=60)  # after SIGKILL a stop counts as failed

STOPPED_BY = frozenset({StopKind.TERMINATE, StopKind.TIMEOUT})
"""The stop orders that end a job. Others only end its attempt."""


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


TERMINABLE = frozenset({Phase.CREATING, Phase.PENDING, Phase.RUNNING})
"""The phases in which a job can be terminated."""

STATUSES: Mapping[Phase, frozenset[Status]] = {
    Phase.CREATING: frozenset({Status.SUBMITTED}),
    Phase.PENDING: frozenset({Status.PENDING, Status.RUNNABLE, Status.STARTING}),
    Phase.RUNNING: frozenset({Status.RUNNING}),
    Phase.COMPLETED: frozenset({Status.SUCCEEDED}),
    Phase.FAILED: frozenset({Status.FAILED}),
    Phase.TERMINATING: frozenset({Status.PENDING, Status.STARTING, Status.RUNNING}),
    Phase.TERMINATED: frozenset({Status.FAILED}),
    Phase.ABNORMAL: frozenset({Status.FAILED}),
}
"""The statuses that a job in each phase may have."""

_CREATE_FAILED = Phases(Phase.ABNORMAL, SecondaryPhase.CREATE_FAILED)
_LOST = Phases(Phase.ABNORMAL, SecondaryPhase.LOST)
_FAILED = Phases(Phase.FAILED, SecondaryPhase.FAILED)
_TERMINATED = Phases(Phase.TERMINATED, SecondaryPhase.TERMINATED)

FAILURES: Mapping[Code, Phases] = {
    Code.EXIT_CODE: _FAILED,
    Code.OUT_OF_MEMORY: _FAILED,
    Code.CHILD_FAILED: _FAILED,
    Code.TIMED_OUT: _TERMINATED,
    Code.CANCELLED: _TERMINATED,
    Code.TERMINATED: _TERMINATED,
    Code.IMAGE_UNAVAILABLE: _CREATE_FAILED,
    Code.NOT_STARTED: _CREATE_FAILED,
    Code.FORBIDDEN: _CREATE_FAILED,
    Code.DEPENDENCY_FAILED: _CREATE_FAILED,
    Code.BLOCKED_TOO_LONG: _CREATE_FAILED,
    Code.INVALID: _CREATE_FAILED,
    Code.HOST_LOST: _LOST,
    Code.CONTAINER_LOST: _LOST,
    Code.UNREADABLE: _LOST,
    Code.FORCE_FAILED: Phases(Phase.ABNORMAL, SecondaryPhase.TERMINATED_FAILED),
}
"""The phases of a FAILED job by the code of its explanation."""


def phases(job: Job, *, caller: Caller, engine_answers: bool, now: datetime) -> Phases:
    """The phases of a job. `engine_answers`: whether the state of its container is known at present."""
    if job.status is Status.FAILED:
        return FAILURES[ended(job, Neighbours(), Reader(caller=caller), now).code]
    order = next((it for it in job.stop_orders if it.kind in STOPPED_BY), None)
    if job.status not in FINISHED and order is not None:
        killed_at = order.killed_at
        late = killed_at is not None and now - killed_at > KILL_PATIENCE
        secondary = SecondaryPhase.TERMINATED_FAILED if late else SecondaryPhase.TERMINATING
        return Phases(Phase.TERMINATING, secondary)
    match job.status:
        case Status.SUBMITTED:
            return Phases(Phase.CREATING, SecondaryPhase.CREATING)
        case Status.PENDING | Status.RUNNABLE:
            return Phases(Phase.PENDING, SecondaryPhase.QUEUING)
        case Status.STARTING:
            return Phases(Phase.PENDING, SecondaryPhase.CREATING)
        case Status.RUNNING:
            return Phases(Phase.RUNNING, SecondaryPhase.RUNNING if engine_answers else SecondaryPhase.UNKNOWN)
        case Status.SUCCEEDED:
            return Phases(Phase.COMPLETED, SecondaryPhase.COMPLETED)
