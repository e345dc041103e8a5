"""Stops of a job's containers: what a TerminateJob, a pause, a timeout or an ended container does to each. Pure.

A stop of the job stops all its containers. A TerminateJob for a node other than the main node, or for a container of a
task that is not essential, stops that node or container alone, and the job continues.

A waiting container ends at once. The start of a starting container is abandoned, or the container gets its first signal
once it runs. A running container gets the signals of its stop steps (`escalation`).
"""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle import escalation, holds, stopping
from batchq.domain.lifecycle.container_rules import (
    BEGUN,
    ENDED,
    RUNNING,
    WAITING,
    each,
    ended_container,
    nodes_to_stop,
    task_container_of,
    with_ended_checkpoint_steps,
)
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.stop_values import SignalStep

#: Selects containers of an attempt.
Selector = Callable[[AttemptContainer], bool]


def stop_by_terminate(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Stop the job, or only the node or container that the request names. A pause is taken over.

    Only the first TerminateJob or timeout of a job has an effect.
    """
    if job.stop is not None and not job.is_pausing:
        return job
    alone = _named_alone(job, event)
    if alone is not None:
        stop = _take_over_stop if job.is_pausing else order_container_stop
        return each(job, lambda container: stop(job, container, now, event) if alone(container) else container)
    whole, ordered = replace(event, node=None, container=None), stopping.order_stop(job, event, now)
    stop = _take_over_stop if job.is_pausing else _order_stop_of_job
    return each(ordered, lambda container: stop(ordered, container, now, whole))


def stop_by_pause(job: Job, event: on.PauseRequested, now: datetime) -> Job:
    """Stop all containers, and hold the job after the attempt. No container stops without a new stop order."""
    paused = holds.pause_active(job, event, now)
    return paused if paused.stop is job.stop else _stop_all(paused, now)


def stop_by_force(job: Job, event: on.StopForced, now: datetime) -> Job:
    """Kill the containers of the job, or only of the node or container that the request names."""
    alone = _named_alone(job, event)
    if alone is not None:
        return each(job, lambda container: _force_stop(job, container, event, now) if alone(container) else container)
    ordered = stopping.force(job, event, now)
    return each(ordered, lambda container: _force_stop(ordered, container, event, now))


def stop_by_timeout(job: Job, _: on.TimedOut, now: datetime) -> Job:
    """Stop the job because its timeout has passed.

    No change for a decided attempt: it ended in time, and its other containers are stopping already.
    """
    if job.stop is not None or attempt_of(job).decided_by is not None:
        return job
    return _stop_all(stopping.time_out(job, now), now)


def end_checkpoint_wait(job: Job, event: on.CheckpointSeen, now: datetime) -> Job:
    """Store the final checkpoint, and end the steps that wait for it."""
    seen = stopping.see_checkpoint(job, event, now)
    return job if seen is job else with_ended_checkpoint_steps(seen, now)


def _named_alone(job: Job, event: on.TerminateRequested) -> Selector | None:
    """Selects the containers that a request stops alone; None: it stops the job.

    A request stops the job if it names the main node, an essential container of a task, or neither.
    """
    nodes = job.spec.nodes
    if event.container is not None and not nodes.task(nodes.main).container(event.container).essential:
        return lambda container: container.name == event.container
    if event.node is None or event.node == nodes.main:
        return None
    return lambda container: container.node == event.node


def _stop_all(job: Job, now: datetime) -> Job:
    """Stop the containers of a job with a new stop order of the server or of a pause."""
    return each(job, lambda container: _order_stop_of_job(job, container, now, None))


def order_container_stop(
    job: Job, container: AttemptContainer, now: datetime, request: on.TerminateRequested | None = None
) -> AttemptContainer:
    """Order a container to stop. A WAITING container ends at once; an ENDED or stopping container does not change.

    `request`: the TerminateJob that causes the stop, else None. The grace period is the request's, else the container's
    stopTimeout, else the job's.
    """
    if container.state is ENDED or container.stop_ordered:
        return container
    alone = stopping.terminate_order(job, request, now) if request is not None and request.names_part else None
    ordered = replace(container, terminated_by=alone)
    if container.state is WAITING:
        return ended_container(ordered, now, None)
    steps = () if alone is not None else container.steps
    return replace(ordered, stop_ordered=True, steps=steps or _steps(job, container, request))


def with_nodes_stopped(job: Job, now: datetime) -> Job:
    """Order the containers of `nodes_to_stop` to stop.

    If the main node is one of these nodes, no container waits for a final checkpoint any more.
    """
    nodes = nodes_to_stop(job)
    if not nodes:
        return job
    if job.spec.nodes.main in nodes:
        job = with_ended_checkpoint_steps(job, now)
    return each(
        job, lambda container: order_container_stop(job, container, now) if container.node in nodes else container
    )


def _take_over_stop(
    job: Job, container: AttemptContainer, now: datetime, request: on.TerminateRequested
) -> AttemptContainer:
    """Stop a container of a pausing job by a TerminateJob, which sets the grace period and the signal of the stop.

    Unchanged if the container has ended, or another TerminateJob stops it alone.
    """
    if not container.stop_ordered:
        order = order_container_stop if request.names_part else _order_stop_of_job
        return order(job, container, now, request)
    if container.state is ENDED or container.terminated_by is not None:
        return container
    if request.names_part:
        container = replace(container, terminated_by=stopping.terminate_order(job, request, now))
    if not container.steps or not (request.grace is not None or request.signal):
        return container
    last = _steps(job, container, request)[-1]
    return escalation.with_last_step(container, replace(last, signal=request.signal or container.steps[-1].signal), now)


def _order_stop_of_job(
    job: Job, container: AttemptContainer, now: datetime, request: on.TerminateRequested | None
) -> AttemptContainer:
    """As `order_container_stop`, for a container of a job that is ordered to stop as a whole.

    A started container outside the main node gets only its steps: `with_nodes_stopped` orders its stop once no final
    checkpoint is awaited any more, which is at once if none was requested.
    """
    if container.node == job.spec.nodes.main or container.stop_ordered or container.state not in BEGUN:
        return order_container_stop(job, container, now, request)
    return replace(container, steps=_steps(job, container, request))


def _steps(job: Job, container: AttemptContainer, request: on.TerminateRequested | None) -> tuple[SignalStep, ...]:
    """The steps that stop a container.

    A final checkpoint is requested of the running containers of the main node and, if the stop signal is the request,
    of those of all nodes.
    """
    graces = (
        None if request is None else request.grace,
        task_container_of(job, container).stop_timeout,
        job.spec.stop_grace,
    )
    rules = job.spec.checkpoints
    requested = (
        job.stop is not None and job.stop.final_checkpoint_requested and (request is None or request.node is None)
    )
    on_main = container.node == job.spec.nodes.main or (rules is not None and rules.signal is None)
    return escalation.stop_steps(
        rules,
        signal=None if request is None else request.signal,
        grace=next(duration for duration in graces if duration is not None),
        checkpoint=requested and on_main and container.state is RUNNING,
    )


def _force_stop(job: Job, container: AttemptContainer, event: on.StopForced, now: datetime) -> AttemptContainer:
    """Kill a running container. A waiting one ends at once, and a starting one is killed once it runs."""
    if container.state is ENDED or (container.stop_ordered and not container.steps):
        return container
    alone = container.terminated_by
    if alone is None and (job.is_pausing or (job.stop is None and not container.stop_ordered)):
        alone = stopping.terminate_order(job, event, now)
    ordered = replace(container, terminated_by=None if alone is None else stopping.forced(alone, event, now))
    if container.state is WAITING:
        return ended_container(ordered, now, None)
    forced = replace(ordered, stop_ordered=True, steps=(), step=0, next_step_at=None)
    return escalation.killed(forced, now) if container.state is RUNNING else forced
