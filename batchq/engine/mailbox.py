"""The mailbox of the engine's loop, and its messages: events and requests from outside the loop.

What follows from a message within a unit of work is applied in that unit, without further messages. `caller` is the
user whose request the message carries, None for a message of the server itself. `answer` is resolved when the unit of
work that handled the message is saved; it gets the error otherwise.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import ClassVar, TypeVar

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import AuditRecord
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.bulk_stop import Candidates, JobOutcome
from batchq.domain.ids import JobId, SubmissionKey, Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.domain.machines import Machine
from batchq.domain.stop_request import StopRequest
from batchq.domain.training import MetricValue
from batchq.errors import BatchqError
from batchq.ports.runtime import RuntimeIdentity

ENOUGH_MESSAGES = 64  # messages among which the fixed cost of a unit of work is divided well enough
QUIET_ITERATIONS = 3  # iterations of the event loop that received input needs to become a message
ITERATIONS_PER_REQUEST = (
    3  # iterations for each request of the last unit of work: a client that was answered may send the next at once
)
LOW_PRIORITY_DELAY = 0.1  # seconds after which low-priority messages are handled without another message
UNKNOWN_ENGINE = RuntimeIdentity(id=None, time=None)
T = TypeVar("T")


class ServerMessage(Struct, frozen=True, kw_only=True):
    """A message of the server itself: no user has requested it."""

    caller: ClassVar[None] = None


class Submit(Struct, frozen=True, kw_only=True):
    """SubmitJob. The answer is the new job, or the existing job if the same call was made before."""

    job_id: JobId
    spec: JobSpec
    tags: tuple[tuple[str, str], ...]
    #: The idempotency key of the call; None: repetitions cannot be detected.
    key: SubmissionKey | None
    caller: Caller
    answer: Future[Job]


class FindSubmission(ServerMessage, frozen=True, kw_only=True):
    """Find the job of an earlier SubmitJob. The answer is that job; None: no job of such a call is stored."""

    key: SubmissionKey
    answer: Future[Job | None]


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event of one job: a change of its containers, or a request."""

    job_id: JobId
    event: on.Event
    caller: Caller | None = None
    #: None for an event of a container, which needs no answer.
    answer: Future[None] | None = None
    #: The `stop_state` in which the request may be applied; None: in any state.
    expected: str | None = None
    #: Whether the message may wait a short time to be handled together with the next messages.
    low_priority: bool = False


class UpdateTags(Struct, frozen=True, kw_only=True):
    """TagResource or UntagResource of a job."""

    job_id: JobId
    change: Callable[[Job], Job]
    caller: Caller
    answer: Future[None]


class MetricsRead(ServerMessage, frozen=True, kw_only=True):
    """The last metrics of an attempt that has ended."""

    job_id: JobId
    #: The number of the attempt.
    attempt: int
    #: By name.
    metrics: tuple[tuple[str, MetricValue], ...]
    answer: Future[None]


class TimerFired(ServerMessage, frozen=True, kw_only=True):
    """A timer of the job may be due."""

    job_id: JobId
    #: The container that was just inspected and runs; None when the clock fired the timer.
    running_container: Tag | None = None
    #: When that container began, by the container engine's clock.
    container_started_at: datetime | None = None


class SurveyCompleted(ServerMessage, frozen=True, kw_only=True):
    """The container engine has listed its containers."""

    #: The container engine's id and clock.
    engine: RuntimeIdentity = UNKNOWN_ENGINE
    containers: tuple[SurveyedContainer, ...]
    #: When the survey began, by the server's clock.
    began_at: datetime
    #: The containers that jobs were known to run when the survey began.
    expected: frozenset[Tag]
    #: The machines of the container engine.
    machines: tuple[Machine, ...]
    #: Containers started before this time did not survive a restart of the container engine or its host; None: not
    #: known.
    lost_before: datetime | None = None

    @property
    def observed_containers(self) -> list[SurveyedContainer]:
        """The containers whose states are known: those on machines that answer."""
        absent = {machine.name for machine in self.machines if machine.away_since is not None}
        return [container for container in self.containers if container.machine not in absent]


class LeaveSafeMode(Struct, frozen=True, kw_only=True):
    """An operator leaves safe mode, which began when data was restored, or accepts another container engine."""

    #: Whether containers without a job are removed; otherwise they are left alone.
    purge: bool
    #: Whether the container engine that answers replaces the container engine on which the attempts were placed.
    new_engine: bool = False
    caller: Caller
    answer: Future[None]


class BulkStopRequest(Struct, frozen=True, kw_only=True):
    """Cancel or terminate many jobs. The answer is resolved when the selection of jobs is durable."""

    #: Its kind is CANCEL or TERMINATE.
    request: StopRequest
    selection: JobSelection
    #: `Job.sequence` of the next job at the time of the request.
    as_of: int
    #: Called repeatedly with the outcomes of some jobs, and with None at the end.
    report: Callable[[tuple[JobOutcome, ...] | None], None]
    #: The jobs selected before this unit of work; None: the commit selects among all jobs.
    candidates: Candidates | None = None
    #: If False, the request is refused as StaleRead when too many jobs have changed since `candidates` were read.
    final: bool = True
    #: The audit record of an order of the server itself; None: that of the caller's request.
    record: AuditRecord | None = None
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


class BudgetReached(ServerMessage, frozen=True, kw_only=True):
    """The spending of an account or a queue has reached a limit of its budget."""

    key: BudgetKey
    #: The jobs that the order will stop.
    selection: JobSelection
    #: The jobs selected before this unit of work.
    candidates: Candidates


class RuntimeLost(ServerMessage, frozen=True, kw_only=True):
    """The container engine does not answer. No job is placed until it does."""


class CatalogChanged(ServerMessage, frozen=True, kw_only=True):
    """A queue, compute environment, scheduling policy, consumable resource or account has changed."""


class ContinueWork(ServerMessage, frozen=True, kw_only=True):
    """The last unit of work reached one of its limits and left work for the next one."""


class SearchQueues(ServerMessage, frozen=True, kw_only=True):
    """Read further jobs behind blocked heads: one unit of work reads a limited number."""


Message = (
    Submit
    | FindSubmission
    | JobEvent
    | UpdateTags
    | MetricsRead
    | TimerFired
    | SurveyCompleted
    | LeaveSafeMode
    | BulkStopRequest
    | SetBudget
    | BudgetReached
    | RuntimeLost
    | CatalogChanged
    | ContinueWork
    | SearchQueues
)


class Mailbox:
    """Many writers, one reader. No message is refused: each reports something that has happened."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        #: Set when `take` should return.
        self._ready = asyncio.Event()
        #: The number of messages in the last batch.
        self._last_messages = ENOUGH_MESSAGES
        #: The number of requests in the last batch, at most ENOUGH_MESSAGES.
        self._last_requests = 0
        #: The timer of waiting low-priority messages.
        self._low_priority_timer: asyncio.TimerHandle | None = None

    def post(self, *messages: Message) -> None:
        """Add messages; those of one call stay together.

        Low-priority messages are handled with the next other message, or after LOW_PRIORITY_DELAY.
        """
        for message in messages:
            self._messages.append(message)
            if not isinstance(message, JobEvent) or not message.low_priority:
                self._ready.set()
        if messages and self._low_priority_timer is None and not self._ready.is_set():
            self._low_priority_timer = asyncio.get_running_loop().call_later(LOW_PRIORITY_DELAY, self._ready.set)

    async def request(self, message: Callable[[Future[T]], Message]) -> T:
        """Post a message with a future for its answer, and return the answer or raise its error."""
        answer: Future[T] = asyncio.get_running_loop().create_future()
        self.post(message(answer))
        return await answer

    def catalog_changed(self) -> None:
        """Report that the catalog has changed."""
        self.post(CatalogChanged())

    async def take(self, limit: int) -> list[Message]:
        """Wait for messages; returns the oldest, at least one and at most `limit`.

        Waits also for messages that are about to arrive, up to ENOUGH_MESSAGES: the cost of a unit of work and its
        commit hardly depends on their number. It does not sleep for them: it only yields to ready tasks. While there
        are fewer messages than in the last batch, it yields more often. After a batch of one message, it yields only
        once for a message that waits alone.
        """
        await self._ready.wait()
        quiet = 0
        while (waiting := len(self._messages)) < ENOUGH_MESSAGES:
            max_quiet = QUIET_ITERATIONS if waiting > 1 or self._last_messages > 1 else 1
            if waiting < self._last_requests:
                max_quiet += ITERATIONS_PER_REQUEST * self._last_requests
            if quiet >= max_quiet:
                break
            await asyncio.sleep(0)  # noqa: TID251 - no time passes, what is ready goes first
            quiet = 0 if len(self._messages) > waiting else quiet + 1
        messages: list[Message] = []
        requests = 0
        while self._messages and len(messages) < limit:
            messages.append(self._messages.popleft())
            requests += messages[-1].caller is not None
        self._last_messages, self._last_requests = len(messages), min(requests, ENOUGH_MESSAGES)
        if not self._messages:
            self._ready.clear()
            if self._low_priority_timer is not None:
                self._low_priority_timer.cancel()
                self._low_priority_timer = None
        return messages

    @property
    def is_empty(self) -> bool:
        return not self._messages


def resolve_with_error(message: Message, error: BatchqError) -> bool:
    """Resolve the message's answer with `error`; False if the message expects no answer."""
    answer = getattr(message, "answer", None)
    if answer is None:
        return False
    if not answer.done():
        answer.set_exception(error)
    return True
