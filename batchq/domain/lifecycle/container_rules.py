"""What follows for the other containers of an attempt when one of them has changed, until nothing more does. Pure.

Where an essential container is over its node closes, with the main node all nodes; who waits for what can no longer
come true is given up; who waits for nothing any more starts. What is asked of the outside follows from how the
containers were before and how they are after.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Part, PartState
from batchq.domain.lifecycle import container_gates
from batchq.domain.lifecycle.status import attempt_of


def apply_rules(job: Job, now: datetime) -> Job:
    """Nobody starts before it is clear who need not start any more."""
    while (after := _give_up(_close(_decide(job), now), now)) is not job:
        job = after
    return _open(job, now)


def _decide(job: Job) -> Job:
    attempt = attempt_of(job)
    decider = next((it.key for it in attempt.parts if container_gates.decides(job, it)), None)
    if attempt.decided is not None or decider is None:
        return job
    return replace(job, attempt=replace(attempt, decided=decider))


def _close(job: Job, now: datetime) -> Job:
    closed = container_gates.closed(job)
    return each(job, lambda it: told_to_end(job, it, now) if it.node in closed else it)


def _give_up(job: Job, now: datetime) -> Job:
    never = {key for key, gate in container_gates.gates(job).items() if gate is container_gates.Gate.NEVER}
    return each(job, lambda it: ended(it, now, container_gates.hopeless(job, it)) if it.key in never else it)


def _open(job: Job, now: datetime) -> Job:
    ready = {key for key, gate in container_gates.gates(job).items() if gate is container_gates.Gate.OPEN}
    return each(job, lambda it: replace(it, state=PartState.STARTING, begun_at=now) if it.key in ready else it)


def told_to_end(job: Job, part: Part, now: datetime, own: on.TerminateRequested | None = None) -> Part:
    """Its grace is the terminate's `own`, or the container's, or the job's. Who is told already keeps what it has."""
    if part.state is PartState.ENDED or part.stopping:
        return part
    told = replace(part, terminated=None if own is None or own.node is None else own.reason)
    if part.state is PartState.WAITING:
        return ended(told, now, None)
    graces = (
        None if own is None else own.grace,
        container_gates.container_of(job, part).stop_timeout,
        job.spec.stop_grace,
    )
    signal = None if own is None else own.signal
    return replace(told, stopping=True, grace=next(it for it in graces if it is not None), signal=signal)


def ended(part: Part, now: datetime, reason: str | None) -> Part:
    return replace(part, state=PartState.ENDED, stopped_at=now, reason=reason)


def wanted(tag: Tag, before: tuple[Part, ...], after: tuple[Part, ...]) -> Iterator[do.Effect]:
    for old, new in zip(before, after, strict=True):
        asks = _asks(old, new)
        if asks is not None:
            yield asks(tag=replace(tag, part=new.key))
    gone = cleared(before)
    for key in cleared(after):
        if key not in gone:
            yield do.CleanUpContainer(tag=replace(tag, part=key))


def _asks(old: Part, new: Part) -> Callable[..., do.Effect] | None:  # type: ignore[explicit-any]  # all take a tag
    """What a change of one container asks for. One that runs in spite of its end being wanted is asked to stop."""
    if new.state is PartState.STARTING and old.state is PartState.WAITING:
        return do.StartContainer
    if new.state is PartState.STARTING and new.stopping and not old.stopping:
        return do.AbandonStart
    if new.state is PartState.RUNNING and new.stopping and (old.state is not new.state or not old.stopping):
        return do.StopContainer
    if new.state is PartState.ENDED and old.state is PartState.STARTING and new.started_at is not None:
        return do.AbandonStart  # over before its start was answered: asked again, it would run twice
    return do.KillContainer if new.killed_at is not None and new.kill_at != old.kill_at else None


def cleared(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """The containers that may go: none while others of the attempt are yet to come.

    With an attempt's last container go the volumes that its containers share, and what one wrote may be for the next.
    """
    if any(it.state in container_gates.YET_TO_COME for it in parts):
        return ()
    return tuple(it.key for it in parts if it.state is PartState.ENDED and it.begun_at is not None)


def part_of(job: Job, key: str) -> Part:
    return next(it for it in attempt_of(job).parts if it.key == key)


def put(job: Job, part: Part) -> Job:
    return each(job, lambda it: part if it.key == part.key else it)


def each(job: Job, change: Callable[[Part], Part]) -> Job:
    """The same job where nothing changes."""
    parts = attempt_of(job).parts
    changed = tuple(change(it) for it in parts)
    return job if changed == parts else with_parts(job, changed)


def with_parts(job: Job, parts: tuple[Part, ...]) -> Job:
    return replace(job, attempt=replace(attempt_of(job), parts=parts))
