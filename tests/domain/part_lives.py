"""Builders of tasks and multi-node jobs, and of the events of one of their containers.

A container is named by its key, `NODE/NAME`; the node of a task is 0.
"""

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from tests.domain import lives
from tests.domain.lives import apply_events, at, starting
from tests.support.builders import NOON, gang, task, task_container

VERBS = {
    do.StartContainer: "start",
    do.AbandonStart: "abandon",
    do.StopContainer: "stop",
    do.KillContainer: "kill",
    do.InspectContainer: "look",
    do.CleanUpContainer: "clear",
}


def task_job(*containers, **fields):
    """A job with a task of these containers, placed at noon."""
    return starting(task=task(*containers), **fields)


def multi_node_job(nodes=None, **fields):
    """A multi-node job, placed at noon; by default three nodes of one container each."""
    return starting(nodes=nodes or gang(), **fields)


def app(**changes):
    return task_container("app", **changes)


def sidecar(**changes):
    return task_container("sidecar", **{"essential": False} | changes)


def is_created(container_key, *, container_id="an-id"):
    return on.ContainerCreated(attempt=1, container_key=container_key, container_id=container_id)


def runs(container_key, *, attempt=1, since=NOON, address=None):
    return on.ContainerStarted(attempt=attempt, container_key=container_key, started_at=since, address=address)


def ends(container_key, code=0, **changes):
    return replace(lives.exited(code, **changes), container_key=container_key)


def cannot_start(container_key, *, reason="no such file", exit_code=None, forbidden=False):
    return on.StartFailed(
        attempt=1, container_key=container_key, reason=reason, exit_code=exit_code, forbidden=forbidden
    )


def is_abandoned(container_key):
    return on.StartAbandoned(attempt=1, container_key=container_key)


def is_lost(container_key):
    return on.ContainerLost(attempt=1, container_key=container_key)


def is_signalled(container_key):
    return on.StopSignalDelivered(attempt=1, container_key=container_key)


def grace_ended(container_key):
    return on.GraceExpired(attempt=1, container_key=container_key)


def starts_too_late(container_key):
    return on.StartTimedOut(attempt=1, container_key=container_key)


def states(job):
    return {other_part.key: str(other_part.state) for other_part in parts(job)}


def parts(job):
    """The containers of the present attempt, or else of the last one."""
    return (job.attempt or job.attempts[-1]).containers


def part(job, key):
    return next(other_part for other_part in parts(job) if other_part.key == key)


def effects_of(job, *events, now=NOON):
    """The effects of the last event, as text."""
    *earlier, last = events
    _, effects = apply_events(apply_events(job, *earlier, now=now)[0], last, now=now)
    return [described(effect) for effect in effects]


def described(effect):
    return f"{VERBS[type(effect)]} {effect.tag.container_key}"


def ended_at(seconds):
    """The times of a container that ended so many seconds after noon."""
    return {"stopped_at": at(seconds)}
