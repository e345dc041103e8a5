"""Jobs as clients see them, where that is more than what is stored: nodes, and arrays with pending orders. Pure.

A node of a multi-node parallel job is shown as a job `ID#NODE`. The main node has the status of the job. Any other node
ends when all its containers have ended, and is SUCCEEDED or FAILED by the exit code of its own essential container,
whatever the outcome of the job. A node that was terminated alone is FAILED.

From the commit that saves an order to stop an array no child starts any more: each queued child has ended, and the
array has ended when no child is active. The rows of the children are written in batches. Until then readers get what
the rows will contain, computed by the same function. Decision 0027.

Reasons are shown with the host paths that were created for mounts, because often they are typing errors. The attempt
stores the paths, and its reasons without them, so that the patterns of evaluateOnExit match the same text with and
without a created path.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import QUEUED, AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag, node_id, node_of, stream_name
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import arrays, stopping
from batchq.domain.lifecycle.status import Outcome, merge_paths
from batchq.domain.lifecycle.transitions import step
from batchq.domain.task import DefinitionForm, Task

#: AWS: the limit of container.reason.
MAX_REASON_LENGTH = 1024


def node_exists(job: Job, node: int) -> bool:
    """Whether the job is a multi-node parallel job with a node of this index."""
    return job.spec.nodes.form is DefinitionForm.NODES and 0 <= node < job.spec.nodes.count


def node_views(job: Job) -> tuple[Job, ...]:
    """The views of all nodes, by index; empty for a job without nodes."""
    nodes = job.spec.nodes
    return tuple(node_view(job, node) for node in range(nodes.count)) if nodes.form is DefinitionForm.NODES else ()


def node_view(job: Job, node: int) -> Job:
    """A node as a job `ID#NODE` with only this node's containers."""
    seen = replace(job, id=node_id(job.id, node))
    return _main(seen, node) if node == job.spec.nodes.main else _other(seen, job.spec.nodes.task(node), node)


def shown_node(job: Job) -> int:
    """The index of the node that a job or a node shows: of a job the main node."""
    node = node_of(job.id)[1]
    return job.spec.nodes.main if node is None else node


def shown_task(job: Job) -> Task:
    """The task that a job or a node shows."""
    return job.spec.nodes.task(shown_node(job))


def decisive(containers: Sequence[AttemptContainer], task: Task) -> AttemptContainer | None:
    """The container that decides a node's outcome: the essential one that ended first.

    Until one has ended, the first essential one. None if `containers` has no essential container.
    """
    essential = [container for container in containers if task.container(container.name).essential]
    ended = [
        (container.stopped_at, place) for place, container in enumerate(essential) if container.stopped_at is not None
    ]
    return essential[min(ended)[1] if ended else 0] if essential else None


def _main(job: Job, node: int) -> Job:
    return replace(
        job,
        attempts=tuple(replace(attempt, containers=_containers_of_node(attempt, node)) for attempt in job.attempts),
        attempt=job.attempt and replace(job.attempt, containers=_containers_of_node(job.attempt, node)),
    )


def _other(job: Job, task: Task, node: int) -> Job:
    """A node that is not the main node. It may end before the job's attempt does."""
    own = [_node_outcome(job, attempt, task, node) for attempt in job.all_attempts]
    if job.status in QUEUED or not own:
        return replace(job, attempts=tuple(own))
    status, alone = _node_status(own[-1], task), stopping.of_part(own[-1], node, None)
    if alone is not None:
        job = replace(job, stop_orders=(alone,), status_reason=alone.reason)
    if job.attempt is not None and status in {Status.STARTING, Status.RUNNING}:
        latest = own[-1]
        return replace(job, status=status, attempts=tuple(own[:-1]), attempt=latest, started_at=latest.started_at)
    return _ended_node(replace(job, attempts=tuple(own), attempt=None), own[-1], status)


def _ended_node(job: Job, last: Attempt, status: Status) -> Job:
    """The node as ended. A stop order to the job after the node had ended is not shown with the node."""
    ended = replace(
        job,
        status=status if status is Status.SUCCEEDED else Status.FAILED,
        status_reason=last.status_reason,
        started_at=last.started_at,
        stopped_at=last.stopped_at or job.stopped_at,
    )
    if any(container.terminated_by is not None for container in last.containers):
        return ended
    untouched = status is Status.SUCCEEDED or _ended_before_order(job, last.stopped_at)
    return replace(ended, stop_orders=()) if untouched else ended


def _ended_before_order(job: Job, stopped_at: datetime | None) -> bool:
    return job.stop is not None and stopped_at is not None and stopped_at < job.stop.ordered_at


def _node_outcome(job: Job, attempt: Attempt, task: Task, node: int) -> Attempt:
    containers = _containers_of_node(attempt, node)
    decider = decisive(containers, task)
    if decider is None:
        return replace(attempt, containers=(), started_at=None)
    started = [container.started_at for container in containers if container.started_at is not None]
    stopped = [container.stopped_at for container in containers if container.stopped_at is not None]
    return replace(
        attempt,
        started_at=min(started, default=None),
        stopped_at=max(stopped, default=None)
        if all(container.state is AttemptContainerState.ENDED for container in containers)
        else None,
        exit_code=decider.exit_code,
        reason=decider.reason,
        status_reason=_node_reason(job, attempt, decider),
        containers=containers,
        decided_by=decider.key,
    )


def _node_reason(job: Job, attempt: Attempt, decider: AttemptContainer) -> str | None:
    """The status reason of the node's attempt: the order that stopped it, else the outcome of its own container."""
    if decider.terminated_by is not None:
        return decider.terminated_by.reason
    if decider.state is not AttemptContainerState.ENDED:
        return attempt.status_reason
    given_up = decider.stop_ordered or (decider.started_at is None and decider.reason is None)
    if given_up and not _ended_before_order(job, decider.stopped_at):
        ordered = attempt.status_reason if job.stop is None else job.stop.reason
        return ordered or status_reasons.EXITED
    if decider.started_at is not None and decider.exit_code is None:
        return decider.reason or status_reasons.DISAPPEARED
    return status_reasons.NOT_STARTED if decider.started_at is None else status_reasons.EXITED


def _node_status(own: Attempt, task: Task) -> Status:
    if any(container.state is not AttemptContainerState.ENDED for container in own.containers) or not own.containers:
        return Status.STARTING if own.started_at is None else Status.RUNNING
    if any(container.terminated_by is not None for container in own.containers):
        return Status.FAILED
    decider = decisive(own.containers, task)
    return Status.SUCCEEDED if decider is not None and decider.exit_code == 0 else Status.FAILED


def _containers_of_node(attempt: Attempt, node: int) -> tuple[AttemptContainer, ...]:
    return tuple(container for container in attempt.containers if container.node == node)


def apply_order(child: Job, parent: Job, now: datetime) -> Outcome:
    """Apply to a child the order of its array `parent` that has not been applied yet, if there is one.

    A queued child ends at the time of the order, or of its own creation if that is later.
    """
    order = arrays.order_to(child, parent)
    if order is None:
        return child, ()
    ordered_at = None if parent.array_state is None else parent.array_state.ordered_at
    ends_at = now if ordered_at is None or child.status not in QUEUED else max(ordered_at, child.created_at)
    return step(child, order, ends_at)


class PendingArrayOrders(Struct, frozen=True):
    """The arrays with an order that may not have been applied to all children.

    Take this value before reading jobs from the store, and pass each job through `project`. A row that is read later
    can only have progressed further, so a job that was shown as ended once is always shown as ended.
    """

    #: By id, as last saved.
    parents: Mapping[JobId, Job] = field(default_factory=dict)

    def project(self, job: Job) -> Job:
        """The job as it is to be shown: a queued child, or a PENDING array, as it will be once the order is applied."""
        if job.child is None:
            known = self.parents.get(job.id) if job.status is Status.PENDING else None
            return job if known is None else arrays.projected(job, _ended_at(known))
        parent = self.parents.get(job.child.parent)
        return job if parent is None or job.status not in QUEUED else apply_order(job, parent, job.created_at)[0]

    @property
    def ended_arrays(self) -> frozenset[int]:
        """The `Job.sequence` of each array that has ended."""
        return frozenset(job.sequence for job in self.parents.values() if _ended_at(job) is not None)

    @property
    def ends(self) -> Mapping[int, datetime]:
        """When each array that has ended did end, by `Job.sequence`."""
        return {job.sequence: at for job in self.parents.values() if (at := _ended_at(job)) is not None}


def has_pending_order(job: Job) -> bool:
    """Whether the array has a stop order that may not have been applied to all children.

    False for an order that an older version saved without a time: its children are shown as stored.
    """
    return arrays.at_work(job) and job.array_state is not None and job.array_state.ordered_at is not None


def with_order_applied(job: Job) -> Job:
    """The job; an array with a pending order as it will be once the order is applied to all children."""
    return PendingArrayOrders({job.id: job}).project(job) if has_pending_order(job) else job


def _ended_at(parent: Job) -> datetime | None:
    return None if parent.array_state is None else parent.array_state.ended_at


def leading_key(job: Job) -> str:
    """The key of the container that represents an attempt of a job or a node."""
    return job.spec.nodes.key(shown_node(job), shown_task(job).leading.name)


def container_tag_of(job: Job, run: Attempt, key: str) -> Tag:
    """The tag of a container of an attempt of a job or a node."""
    return Tag(job_id=node_of(job.id)[0], attempt=run.number, container_key=key)


def log_stream_of(job: Job, run: Attempt, key: str) -> str:
    """The name of the log stream of a container of an attempt of a job or a node."""
    return stream_name(job.spec.definition.name, container_tag_of(job, run, key))


def log_group_of(job: Job, tag: Tag) -> str | None:
    """The log group that the job definition names for a container of the job; None without one."""
    containers = job.spec.nodes.task(tag.node).containers
    return next((container.spec.logging.group for container in containers if container.name == tag.container), None)


def shown_container_reason(run: Attempt | AttemptContainer) -> str | None:
    """The reason of an attempt or container, followed by its created paths; None if there is neither."""
    return _followed(run.reason, _paths(run))


def shown_status_reason(job: Job) -> str | None:
    """The status reason followed by the paths created for any attempt.

    Without the paths for a cancelled or terminated job, which shows the caller's reason, and for a queued job that
    shows why it waits.
    """
    attempts = job.all_attempts
    if not attempts or job.is_cancelled or job.is_terminated:
        return job.status_reason
    if job.status in QUEUED and job.status_reason != attempts[-1].status_reason:
        return job.status_reason
    return _followed(
        job.status_reason, merge_paths((), tuple(path for attempt in attempts for path in _paths(attempt)))
    )


def _paths(run: Attempt | AttemptContainer) -> tuple[str, ...]:
    containers = (run,) if isinstance(run, AttemptContainer) else run.containers
    return merge_paths((), tuple(path for container in containers for path in container.created_host_paths))


def _followed(reason: str | None, paths: tuple[str, ...]) -> str | None:
    if not paths:
        return reason
    note = _note(paths)
    return (note if reason is None else f"{reason.removesuffix('.')}. {note}")[:MAX_REASON_LENGTH]


def _note(paths: tuple[str, ...]) -> str:
    if len(paths) == 1:
        return f"Host path {paths[0]!r} did not exist and was created."
    return f"Host paths that did not exist were created: {', '.join(map(repr, paths))}."
