"""A training job as every dialect shows it: its phase, the kind of its failure, and its times. Pure.

A dialect has a table of words for phases, and computes no phase.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from msgspec import Struct

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.container import Resources
from batchq.domain.cost import run_time
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.enums import QUEUED as QUEUED_STATUSES
from batchq.domain.explanation.ended import explain_ended
from batchq.domain.explanation.facts import Reader, RelatedJobs
from batchq.domain.job import Job
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import MetricValue

Spelt = TypeVar("Spelt")


class TrainingPhase(Enum):
    """What a training job does, or how it ended, with the statuses that the job can have."""

    #: The dependencies are not evaluated yet.
    CREATED = 1, Status.SUBMITTED
    #: The job waits for its first or next attempt.
    QUEUED = 2, Status.PENDING, Status.RUNNABLE
    #: The job is held until a user resumes it.
    PAUSED = 3, *QUEUED_STATUSES
    #: The container is being created.
    STARTING = 4, Status.STARTING
    #: A pause was ordered before the container ran.
    PAUSING_START = 5, Status.STARTING
    RUNNING = 6, Status.RUNNING
    #: A pause was ordered, and the container has not exited.
    PAUSING = 7, Status.RUNNING
    #: A stop was ordered, and the container has not exited. An array is PENDING meanwhile.
    STOPPING = 8, Status.PENDING, Status.STARTING, Status.RUNNING
    #: The time limit was reached, and the container has not exited.
    TIMING_OUT = 9, Status.STARTING, Status.RUNNING
    COMPLETED = 10, Status.SUCCEEDED
    #: An order of a user or of the queue ended the job.
    STOPPED = 11, Status.FAILED
    #: The time limit ended the job.
    TIMED_OUT = 12, Status.FAILED
    FAILED = 13, Status.FAILED

    def __init__(self, _: int, *statuses: Status) -> None:
        self.statuses = frozenset(statuses)


class TrainingFailure(Enum):
    """The kind of a FAILED job's end, with the codes of its explanation."""

    #: The program failed.
    PROGRAM = "EXIT_CODE", "OUT_OF_MEMORY", "CHILD_FAILED"
    #: An order or the time limit ended the job.
    ORDERED = "TIMED_OUT", "CANCELLED", "TERMINATED"
    #: The job ended before its program ran.
    NOT_STARTED = "IMAGE_UNAVAILABLE", "NOT_STARTED", "FORBIDDEN", "DEPENDENCY_FAILED", "BLOCKED_TOO_LONG", "INVALID"
    #: The container or its host disappeared, or the record of the job.
    LOST = "HOST_LOST", "CONTAINER_LOST", "UNREADABLE"
    #: An administrator gave up the container.
    FORCED = ("FORCE_FAILED",)


FAILURE_BY_CODE: Mapping[str, TrainingFailure] = {code: kind for kind in TrainingFailure for code in kind.value}

COURSE: Mapping[Status, TrainingPhase] = {
    Status.SUBMITTED: TrainingPhase.CREATED,
    Status.PENDING: TrainingPhase.QUEUED,
    Status.RUNNABLE: TrainingPhase.QUEUED,
    Status.STARTING: TrainingPhase.STARTING,
    Status.RUNNING: TrainingPhase.RUNNING,
    Status.SUCCEEDED: TrainingPhase.COMPLETED,
    Status.FAILED: TrainingPhase.FAILED,
}
"""The phase of a job without orders, by its status."""

_STOPPING: Mapping[StopKind, TrainingPhase] = {
    StopKind.TERMINATE: TrainingPhase.STOPPING,
    StopKind.TIMEOUT: TrainingPhase.TIMING_OUT,
}
STOPS = frozenset(_STOPPING)
"""The kinds of orders that stop a whole job."""

ENDED = frozenset(phase for phase in TrainingPhase if phase.statuses <= FINISHED)
STOPPABLE = frozenset(TrainingPhase) - ENDED - {TrainingPhase.STOPPING, TrainingPhase.TIMING_OUT}
"""The phases in which a first order to stop has an effect."""

_READER = Reader(caller=Caller(user=UserName("")))  # the code of an explanation is the same for all readers


def spelling(words: Mapping[Spelt, tuple[TrainingPhase, ...]]) -> Mapping[TrainingPhase, Spelt]:
    """The word of each phase, from the phases of each word."""
    return {phase: word for word, phases in words.items() for phase in phases}


def statuses_with(spelling: Mapping[TrainingPhase, Spelt], *words: Spelt) -> frozenset[Status]:
    """The statuses that jobs can have whose phase a dialect spells with one of the words."""
    return frozenset(status for phase, word in spelling.items() if word in words for status in phase.statuses)


class TrainingJobView(Struct, frozen=True):
    """What the dialects show of a job."""

    job: Job

    @property
    def phase(self) -> TrainingPhase:
        job = self.job
        kind = None if job.stop is None else job.stop.kind
        if job.status is Status.FAILED:
            if kind is StopKind.TIMEOUT:
                return TrainingPhase.TIMED_OUT
            return TrainingPhase.STOPPED if job.is_terminated or job.is_cancelled else TrainingPhase.FAILED
        if job.status not in FINISHED and kind in STOPS:
            return _STOPPING[kind]
        if job.is_pausing:
            return TrainingPhase.PAUSING_START if job.status is Status.STARTING else TrainingPhase.PAUSING
        return TrainingPhase.PAUSED if job.held else COURSE[job.status]

    @property
    def failure(self) -> TrainingFailure | None:
        """None unless the job is FAILED."""
        if self.job.status is not Status.FAILED:
            return None
        now = self.job.stopped_at or self.job.created_at  # a word of the explanation, not of its code
        return FAILURE_BY_CODE[explain_ended(self.job, RelatedJobs(), _READER, now).code]

    def run_time(self, now: datetime) -> timedelta:
        """The total time that the containers of all attempts have run. `now`: the end of an attempt under way."""
        return sum((run_time(attempt, now) for attempt in self.job.all_attempts), timedelta())

    def time_left(self, metrics: Mapping[str, MetricValue], now: datetime) -> timedelta | None:
        """How long the rest of the work lasts at the average speed until `now`; None: not known, or the job has ended.

        `metrics`: the last values, by name.
        """
        done = self.job.spec.plan.fraction(metrics)
        return None if done is None or self.job.status in FINISHED else self.run_time(now) * float(1 / done - 1)

    @property
    def first_start(self) -> datetime | None:
        """When the first attempt that ran began to run; None if no attempt ran."""
        return next((attempt.started_at for attempt in self.job.all_attempts if attempt.started_at is not None), None)

    @property
    def ended_at(self) -> datetime | None:
        """When the job ended; None until then."""
        return self.job.stopped_at if self.job.status in FINISHED else None

    @property
    def last_change(self) -> datetime:
        """When the job last changed its status or received an order to stop."""
        job = self.job
        orders = (time for order in job.stop_orders for time in (order.ordered_at, order.signalled_at, order.killed_at))
        placed = None if job.attempt is None else job.attempt.placed_at
        times = (job.created_at, job.runnable_at, placed, job.started_at, job.stopped_at, *orders)
        return max(moment for moment in times if moment is not None)

    @property
    def cancellation(self) -> StopOrder | None:
        """The order that cancelled the job; None if it was not cancelled."""
        if self.job.is_terminated:
            return self.job.stop
        return self.job.cancel if self.job.is_cancelled else None

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.job.spec.nodes.count

    @property
    def node_resources(self) -> Resources:
        """The resources of each node; of different nodes, those of the main one."""
        nodes = self.job.spec.nodes
        return nodes.task(nodes.main).resources
