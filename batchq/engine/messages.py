"""The messages of the mailbox: events and requests from outside the loop.

What follows from a message within a unit of work is applied in that unit, without further messages. `caller` is the
user whose request the message carries, None for a message of the server itself. `answer` is resolved when the unit of
work that handled the message is saved; it gets the error otherwise.
"""

from asyncio import Future
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.bulk_stop import BulkStopOrder, Candidates, JobFilter, JobOutcome
from batchq.domain.container import Resources
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.domain.training_metrics import MetricValue
from batchq.ports.jobs import SubmissionKey
from batchq.ports.runtime import EngineIdentity

UNKNOWN_ENGINE = EngineIdentity(id=None, time=None)


class Submit(Struct, frozen=True, kw_only=True):
    """SubmitJob. The answer is the new job, or the existing job if the same call was made before."""

    job_id: JobId
    spec: JobSpec
    tags: tuple[tuple[str, str], ...]
    #: The idempotency key of the call; None: repetitions cannot be detected.
    key: SubmissionKey | None
    caller: Caller
    answer: Future[Job]


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event of one job: a change of its containers, or a request."""

    job_id: JobId
    event: on.Event
    caller: Caller | None = None
    #: None for an event of a container, which needs no answer.
    answer: Future[None] | None = None
    #: Whether the message may wait a short time to be handled together with the next messages.
    low_priority: bool = False


class UpdateTags(Struct, frozen=True, kw_only=True):
    """TagResource or UntagResource of a job."""

    job_id: JobId
    change: Callable[[Job], Job]
    caller: Caller
    answer: Future[None]


class MetricsRead(Struct, frozen=True, kw_only=True):
    """The last metrics of an attempt that has ended."""

    job_id: JobId
    #: The number of the attempt.
    attempt: int
    #: By name.
    metrics: tuple[tuple[str, MetricValue], ...]
    answer: Future[None]


class TimerFired(Struct, frozen=True, kw_only=True):
    """A timer of the job may be due."""

    job_id: JobId
    #: The container that was just inspected and runs; None when the clock fired the timer.
    running_container: Tag | None = None
    #: When that container began, by the engine's clock.
    container_started_at: datetime | None = None


class SurveyCompleted(Struct, frozen=True, kw_only=True):
    """The container engine has listed its containers."""

    #: The engine's id and clock.
    engine: EngineIdentity = UNKNOWN_ENGINE
    containers: tuple[SurveyedContainer, ...]
    #: The containers that jobs were known to run when the survey began.
    expected: frozenset[Tag]
    #: The total resources of the engine's host.
    capacity: Resources
    #: Containers started before this time did not survive a restart of the engine or its host; None: not known.
    lost_before: datetime | None = None


class LeaveSafeMode(Struct, frozen=True, kw_only=True):
    """An operator leaves safe mode, which began when data was restored, or accepts another container engine."""

    #: Whether containers without a job are removed; otherwise they are left alone.
    purge: bool
    #: Whether the engine that answers replaces the engine on which the attempts were placed.
    new_engine: bool = False
    caller: Caller
    answer: Future[None]


class BulkStopRequest(Struct, frozen=True, kw_only=True):
    """Cancel or terminate many jobs. The answer is resolved when the selection of jobs is durable."""

    order: BulkStopOrder
    selection: JobFilter
    #: `Job.order` of the next job at the time of the request.
    as_of: int
    #: Called repeatedly with the outcomes of some jobs, and with None at the end.
    report: Callable[[tuple[JobOutcome, ...] | None], None]
    #: The jobs selected before this unit of work; None: the commit selects among all jobs.
    candidates: Candidates | None = None
    #: If False, the request is refused as StaleRead when too many jobs have changed since `candidates` were read.
    final: bool = True
    #: None for an order of the server itself.
    caller: Caller | None
    #: None for an order of the server itself.
    answer: Future[None] | None


class SetBudget(Struct, frozen=True, kw_only=True):
    """Set the budget of an account or a queue, or remove it."""

    key: BudgetKey
    #: None: the budget is removed.
    budget: Budget | None
    caller: Caller
    answer: Future[None]


class BudgetReached(Struct, frozen=True, kw_only=True):
    """The spending of an account or a queue has reached a limit of its budget."""

    key: BudgetKey
    #: The jobs that the order will stop.
    selection: JobFilter
    #: The jobs selected before this unit of work.
    candidates: Candidates


class EngineLost(Struct, frozen=True, kw_only=True):
    """The container engine does not answer. No job is placed until it does."""


class CatalogChanged(Struct, frozen=True, kw_only=True):
    """A queue, compute environment, scheduling policy, consumable resource or account has changed."""


class ContinueWork(Struct, frozen=True, kw_only=True):
    """The last unit of work reached one of its limits and left work for the next one."""


class SearchQueues(Struct, frozen=True, kw_only=True):
    """Read further jobs behind blocked heads: one unit of work reads a limited number."""


Message = (
    Submit
    | JobEvent
    | UpdateTags
    | MetricsRead
    | TimerFired
    | SurveyCompleted
    | LeaveSafeMode
    | BulkStopRequest
    | SetBudget
    | BudgetReached
    | EngineLost
    | CatalogChanged
    | ContinueWork
    | SearchQueues
)


_REQUESTS = (Submit, JobEvent, UpdateTags, LeaveSafeMode, BulkStopRequest, SetBudget)


def caller_of(message: Message) -> Caller | None:
    """The user whose request the message carries; None for other messages."""
    return message.caller if isinstance(message, _REQUESTS) else None
