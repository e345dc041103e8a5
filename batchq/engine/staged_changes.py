"""The parts of a unit of work: what it decides beside the jobs themselves.

Each part belongs to one component. Only the methods of a part change it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.bulk_stop import BulkStop, JobOutcome, Progress
from batchq.domain.cost import Spending
from batchq.domain.ids import JobId, QueueName, Tag
from batchq.domain.job import Job
from batchq.engine.mailbox import BulkStopRequest, Message
from batchq.errors import BatchqError
from batchq.ports.jobs import Changes, Restoration, SurveyRecord

MAX_DEPENDENTS = 500  # stored dependents of ended jobs that one unit of work evaluates
MAX_ENDED = 50  # ended jobs whose dependents one query reads; it sorts up to a page of each
READ_COST = 5  # the cost of one read, in dependents: a chain of dependencies takes one read a job


class MessageOutcomes(Struct):
    """The messages that a unit of work refused, or that the next one handles again."""

    deferred: list[Message] = field(default_factory=list)
    #: By `id()` of the message.
    refusals: dict[int, BatchqError] = field(default_factory=dict)

    def defer(self, message: Message) -> None:
        """Let the next unit of work handle the message again."""
        self.deferred.append(message)

    def refuse(self, message: Message, refusal: BatchqError) -> None:
        self.refusals[id(message)] = refusal


class PlacementRequests(Struct):
    """Why the scheduler must place queued jobs in a unit of work, or in the next one."""

    #: Whether more resources may be free than at the last placement pass.
    is_due: bool = False
    #: Whether jobs behind blocked heads are searched.
    search_due: bool = False
    #: Whether placement stopped at a limit of this unit of work.
    is_incomplete: bool = False
    #: By queue, the lowest `Job.sequence` of the jobs that entered or left RUNNABLE in it.
    changed_queues: dict[QueueName, int] = field(default_factory=dict)

    def request_pass(self) -> None:
        self.is_due = True

    def request_search(self) -> None:
        self.search_due = True

    def record_limit_reached(self) -> None:
        self.is_incomplete = True

    def record_queue_change(self, job: Job) -> None:
        """Record that the job entered or left RUNNABLE in its queue."""
        queue = job.spec.queue
        self.changed_queues[queue] = min(job.sequence, self.changed_queues.get(queue, job.sequence))


class PendingDependents(Struct, frozen=True, kw_only=True):
    """Ended jobs, or arrays with new children, whose stored dependents are still to be evaluated."""

    ended: tuple[JobId, ...]
    #: The `Job.sequence` of the last dependent that was evaluated; -1: none yet.
    after: int = -1


def pending_dependents(ended: Sequence[JobId]) -> Iterator[PendingDependents]:
    """Split the ids into groups of MAX_ENDED."""
    for first in range(0, len(ended), MAX_ENDED):
        yield PendingDependents(ended=tuple(ended[first : first + MAX_ENDED]))


class DependentsQueue(Struct):
    """The stored dependents still to be evaluated, from earlier units of work and this one, oldest first."""

    #: How many more stored dependents this unit of work may evaluate.
    limit: int
    entries: deque[PendingDependents] = field(default_factory=deque)

    def add(self, entries: Iterable[PendingDependents]) -> None:
        self.entries.extend(entries)

    def take(self) -> PendingDependents:
        """Remove and return the oldest entry."""
        return self.entries.popleft()

    def record_page(self, entry: PendingDependents, page: Sequence[Job]) -> None:
        """Count a page of dependents that was read with the present limit; the rest of a full page is queued again."""
        if len(page) == self.limit:
            self.entries.appendleft(PendingDependents(ended=entry.ended, after=page[-1].sequence))
        self.limit -= len(page) + READ_COST


class BulkStopChanges(Struct):
    """The bulk stops that a unit of work begins or continues."""

    begun: list[tuple[BulkStop, BulkStopRequest]] = field(default_factory=list)
    #: Each page of targets that was stopped, with the outcomes of its jobs.
    pages: list[tuple[Progress, tuple[JobOutcome, ...]]] = field(default_factory=list)

    def begin(self, bulk_stop: BulkStop, message: BulkStopRequest) -> None:
        self.begun.append((bulk_stop, message))

    def record_page(self, progress: Progress, outcomes: tuple[JobOutcome, ...]) -> None:
        self.pages.append((progress, outcomes))

    def added_to(self, changes: Changes) -> Changes:
        """The changes of the unit of work with its bulk stops.

        The candidates of each new one get all jobs that changed since they were read.
        """
        own = {job.sequence for job in (*changes.inserted, *changes.updated)}
        return replace(
            changes,
            bulk_stops=tuple([(bulk_stop, message.selection) for bulk_stop, message in self.begun]),
            candidates=tuple(
                (bulk_stop.number, replace(read, changed=frozenset(read.changed).union(own)))
                for bulk_stop, message in self.begun
                if (read := message.candidates) is not None
            ),
            progress=tuple([progress for progress, _ in self.pages]),
        )


class BudgetChanges(Struct):
    """The budgets that a unit of work changes, and what ended attempts cost."""

    #: None: the budget is deleted.
    budgets: dict[BudgetKey, Budget | None] = field(default_factory=dict)
    spending: tuple[Spending, ...] = ()

    def put(self, key: BudgetKey, budget: Budget | None) -> None:
        """Store a budget. `budget`: None deletes it."""
        self.budgets[key] = budget

    def charge(self, spending: Iterable[Spending]) -> None:
        """Set what the attempts cost that ended in this unit of work."""
        self.spending = tuple(spending)


class ContainerEngineChanges(Struct):
    """What a unit of work stores about the container engine and its containers."""

    #: The id of the container engine to be saved; None: unchanged.
    engine_id: str | None = None
    #: The last survey, to be saved; None: unchanged.
    survey: SurveyRecord | None = None
    #: The state of safe mode to be saved; None: unchanged.
    restoration: Restoration | None = None
    #: The containers without a job that a survey in safe mode found; None: no such survey was handled.
    unknown_containers: frozenset[Tag] | None = None

    def accept_engine(self, engine_id: str) -> None:
        """Store the id of the container engine whose containers are trusted from now on."""
        self.engine_id = engine_id

    def store_survey(self, survey: SurveyRecord) -> None:
        self.survey = survey

    def store_restoration(self, restoration: Restoration) -> None:
        self.restoration = restoration

    def record_unknown_containers(self, tags: frozenset[Tag]) -> None:
        self.unknown_containers = tags
