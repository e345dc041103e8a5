"""The view of each node of a multi-node parallel job as a job `ID#NODE`. Pure; only the job itself is stored.

The main node has the status of the job. Any other node ends when all its containers have ended, and is SUCCEEDED or
FAILED by the exit code of its own essential container, whatever the outcome of the job. A node that was terminated
alone is FAILED.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.ids import node_id
from batchq.domain.job import QUEUED, Attempt, AttemptContainer, AttemptContainerState, Job, Status
from batchq.domain.lifecycle import stop_order
from batchq.domain.task import Task


def exists(job: Job, node: int) -> bool:
    """Whether the job is a multi-node parallel job with a node of this index."""
    return job.spec.nodes is not None and 0 <= node < job.spec.nodes.count


def views(job: Job) -> tuple[Job, ...]:
    """The views of all nodes, by index; empty for a job without nodes."""
    return () if job.spec.nodes is None else tuple(view(job, node) for node in range(job.spec.nodes.count))


def view(job: Job, node: int) -> Job:
    """A node as a job `ID#NODE` with only this node's containers, and its task as the task of the spec."""
    nodes = job.spec.nodes
    assert nodes is not None, f"{job.id} has no nodes"
    task = nodes.task(node)
    spec = replace(job.spec, container=task.leading.spec, task=task)
    seen = replace(job, id=node_id(job.id, node), spec=spec)
    return _main(seen, node) if node == nodes.main else _other(seen, task, node)


def decisive(containers: Sequence[AttemptContainer], task: Task) -> AttemptContainer | None:
    """The container that decides a node's outcome: the essential one that ended first.

    Until one has ended, the first essential one. None if `containers` has no essential container.
    """
    essential = [it for it in containers if task.container(it.name).essential]
    ended = [(it.stopped_at, place) for place, it in enumerate(essential) if it.stopped_at is not None]
    return essential[min(ended)[1] if ended else 0] if essential else None


def _main(job: Job, node: int) -> Job:
    return replace(
        job,
        attempts=tuple(replace(it, containers=_containers(it, node)) for it in job.attempts),
        attempt=job.attempt and replace(job.attempt, containers=_containers(job.attempt, node)),
    )


def _other(job: Job, task: Task, node: int) -> Job:
    """A node that is not the main node. It may end before the job's attempt does."""
    own = [_outcome(job, it, task, node) for it in job.all_attempts]
    if job.status in QUEUED or not own:
        return replace(job, attempts=tuple(own))
    status, alone = _status(own[-1], task), stop_order.of_part(own[-1], node, None)
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
    if any(it.terminated_by is not None for it in last.containers):
        return ended
    untouched = status is Status.SUCCEEDED or _ended_before_order(job, last.stopped_at)
    return replace(ended, stop_orders=()) if untouched else ended


def _ended_before_order(job: Job, stopped_at: datetime | None) -> bool:
    return job.stop is not None and stopped_at is not None and stopped_at < job.stop.ordered_at


def _outcome(job: Job, attempt: Attempt, task: Task, node: int) -> Attempt:
    containers = _containers(attempt, node)
    decider = decisive(containers, task)
    if decider is None:
        return replace(attempt, containers=(), started_at=None)
    started = [it.started_at for it in containers if it.started_at is not None]
    stopped = [it.stopped_at for it in containers if it.stopped_at is not None]
    return replace(
        attempt,
        started_at=min(started, default=None),
        stopped_at=max(stopped, default=None)
        if all(it.state is AttemptContainerState.ENDED for it in containers)
        else None,
        exit_code=decider.exit_code,
        reason=decider.reason,
        status_reason=_reason(job, attempt, decider),
        containers=containers,
        decided_by=decider.key,
    )


def _reason(job: Job, attempt: Attempt, decider: AttemptContainer) -> str | None:
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


def _status(own: Attempt, task: Task) -> Status:
    if any(it.state is not AttemptContainerState.ENDED for it in own.containers) or not own.containers:
        return Status.STARTING if own.started_at is None else Status.RUNNING
    if any(it.terminated_by is not None for it in own.containers):
        return Status.FAILED
    decider = decisive(own.containers, task)
    return Status.SUCCEEDED if decider is not None and decider.exit_code == 0 else Status.FAILED


def _containers(attempt: Attempt, node: int) -> tuple[AttemptContainer, ...]:
    return tuple(it for it in attempt.containers if it.node == node)
