"""Bulk stops: one order that cancels or terminates many jobs, and its outcome for each of them. Pure. Decision 0023.

The jobs are selected once, in the commit that saves the order. They are stopped in batches, and a selected job never
starts.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime

from msgspec import Struct

from batchq.domain.access.audit import AuditRecord
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, AttemptContainerState, Outcome, Status, StopKind
from batchq.domain.ids import JobId, container_id
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.domain.stop_request import StopRequest
from batchq.domain.stop_values import StopOrder
from batchq.domain.task import DefinitionForm, TaskContainer

NO_DIRECTORY = "without a final checkpoint: the job has no checkpoint directory"


Target = tuple[int, int]
"""The `Job.sequence` of a selected job, and the index of its selected node or container: WHOLE for the whole job."""

WHOLE = -1


class Candidates(Struct, frozen=True, kw_only=True):
    """The jobs that were selected at an earlier read, which are checked again in the commit of the order."""

    #: Ascending, each once.
    places: tuple[Target, ...]
    #: The `Job.sequence` of all jobs that were inserted or updated since that read began, and perhaps of others.
    changed: AbstractSet[int]


class BulkStop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A saved order that is being executed."""

    #: Its identity in the store.
    number: int
    #: Its kind is CANCEL or TERMINATE.
    request: StopRequest
    #: The audit record of the request.
    record: AuditRecord | None = None

    @property
    def requested_at(self) -> datetime | None:
        """When the request was accepted; None: not known."""
        return None if self.record is None else self.record.at


class StopTarget(Struct, frozen=True, kw_only=True):
    """A job that an order selects."""

    job: Job
    #: The selected node of a multi-node job, or container of a task; None: the job as a whole.
    part: int | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far an order was executed. The youngest job is stopped first, so the sequence descends."""

    #: `BulkStop.number`.
    bulk_stop: int
    #: The `Job.sequence` of the job that was stopped last.
    sequence: int
    #: The node or container that was stopped last; None: the job as a whole.
    part: int | None
    #: Whether all selected jobs have been stopped.
    complete: bool


class Preview(Struct, frozen=True, kw_only=True):
    """A job that an order would select, for a dry run: as much of it as its outcome depends on."""

    #: Its `Job.sequence`, and the selected node or container; None: the job as a whole.
    place: tuple[int, int | None]
    job_id: JobId
    name: str
    status: Status
    has_children: bool
    #: As in `JobOutcome`.
    children: int = 0
    #: `Job.stop_orders` of an active job or an array; empty for any other job.
    stop_orders: tuple[StopOrder, ...] = ()


class JobOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of an order for one job."""

    job_id: JobId
    name: str = ""
    #: The status when the order was executed; None: there is no such job.
    status: Status | None = None
    outcome: Outcome
    #: The outcome for an array's children, or the order that stands already; else empty.
    note: str = ""
    #: The earlier order because of which this one changed nothing; None: it had an effect.
    standing: StopOrder | None = None
    #: Of an unfinished array: how many of its children had not ended, those that are not created yet among them.
    children: int = 0


def selected_container(job: Job, part: int | None) -> TaskContainer | None:
    """The container of a task that was selected; None: the job as a whole, or a node."""
    nodes = job.spec.nodes
    return nodes.task(nodes.main).containers[part] if nodes.form is DefinitionForm.TASK and part is not None else None


def container_outcome(request: StopRequest, job: Job, container: TaskContainer) -> tuple[Outcome, str]:
    """The outcome of an order for one container of a task, and its note."""
    named = container_id(job.id, container.name)
    if job.status in FINISHED:
        return Outcome.ALREADY_FINISHED, ""
    if request.kind is StopKind.CANCEL:
        return Outcome.REFUSED, f"Job {named} cannot be cancelled alone: it is a container of a task."
    if job.attempt is None:
        return Outcome.REFUSED, f"Job {named} cannot be stopped alone before the job has started."
    found = next(each for each in job.attempt.containers if each.name == container.name)
    if found.state is AttemptContainerState.ENDED:
        return Outcome.ALREADY_FINISHED, f"Job {named} has already ended."
    if container.essential or (job.stop is not None and not job.is_pausing):
        return Outcome.STOPPING, note(request, job) or "it is essential, so the whole job ends"
    standing = found.terminated_by
    if standing is not None and not (request.force and standing.forced_at is None):
        return Outcome.CONTAINER_STOPPING, _already(standing, stops=True)
    return Outcome.CONTAINER_STOPPING, ""


def has_children(job: Job) -> bool:
    """Whether it is an unfinished array with children: the order is applied to them, and the array ends with them."""
    return job.array_state is not None and job.status is Status.PENDING


def standing_order(request: StopRequest, job: Job | Preview) -> StopOrder | None:
    """The earlier order because of which `order` changes nothing; None: it has an effect, or the job has ended."""
    if job.status in FINISHED:
        return None
    standing = next((order for order in reversed(job.stop_orders) if order.kind is not StopKind.PAUSE), None)
    if standing is None or (standing.kind is StopKind.CANCEL and request.kind is StopKind.TERMINATE):
        return None
    return None if request.force and standing.forced_at is None else standing


def _already(order: StopOrder, *, stops: bool) -> str:
    author = "its timeout" if order.kind is StopKind.TIMEOUT else order.user or "the server"
    return f"already {'stopping' if stops else 'cancelled'} since {order.ordered_at:%Y-%m-%dT%H:%M:%SZ}, by {author}"


def note(request: StopRequest, job: Job) -> str:
    """`JobOutcome.note` for the order to the job."""
    standing = standing_order(request, job)
    if standing is not None:
        return _already(standing, stops=standing.kind is not StopKind.CANCEL or has_children(job))
    if not has_children(job):
        without = request.checkpoint and job.status is Status.RUNNING and job.spec.checkpoints is None
        return NO_DIRECTORY if without else ""
    waiting, active = unfinished_children(job)
    if request.kind is StopKind.CANCEL:
        return f"of its children {waiting} cancelled, {active} running on, not retried"
    return f"of its children {waiting} terminated, {active} stopping"


def unfinished_children(array: Job) -> tuple[int, int]:
    """The children of an array with children: those that have not started, and those that are STARTING or RUNNING."""
    assert array.array_state is not None, f"{array.id} has no children"
    counts = dict(array.array_state.counts)
    active = sum(counts.get(status, 0) for status in ACTIVE)
    return size(array) - active - sum(counts.get(status, 0) for status in FINISHED), active


def children_count(job: Job) -> int:
    """`JobOutcome.children` of the job."""
    if not is_parent(job) or job.status in FINISHED:
        return 0
    return size(job) if job.array_state is None else sum(unfinished_children(job))


_WHY_NOT = {
    Outcome.ALREADY_FINISHED: "Job {id} is already {status}.",
    Outcome.NOT_MATCHED: "Job {id} does not match the other filters: it is {status}.",
    Outcome.NOT_FOUND: "Job {id} not found.",
}


def outcome_message(outcome: JobOutcome) -> str:
    """The note of an outcome. Without a note, why nothing was done; empty if the order had its usual effect."""
    return outcome.note or _WHY_NOT.get(outcome.outcome, "").format(id=outcome.job_id, status=outcome.status)


def stop_outcome(kind: StopKind, status: Status, *, has_children: bool) -> Outcome:
    """The outcome of an order for a job in this status. `has_children`: as the function of that name returns it."""
    if status in FINISHED:
        return Outcome.ALREADY_FINISHED
    if has_children:
        return Outcome.STOPPING
    if kind is StopKind.CANCEL:
        return Outcome.CANCELLED if status in QUEUED else Outcome.NOT_RETRIED
    return Outcome.TERMINATED if status in QUEUED else Outcome.STOPPING
