"""What batchq remembers, against what the engine has: a watch is a hint, a survey is the truth. Pure.

Nothing is decided here from a container's state alone but that it must be looked at: the exit, its code and its times
come from an inspection. A survey is older than the moment it is read, so only a container that was expected before the
survey began can be missed by it.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job, PartState, Status
from batchq.domain.lifecycle.container_rules import part_of
from batchq.domain.lifecycle.containers import has_parts, tags_kept, tags_under_way


class Seen(Struct, frozen=True, kw_only=True):
    """A container of ours in a survey. `lives` is whether it runs (or is paused), `begun` whether it ever did."""

    tag: Tag
    lives: bool
    begun: bool = True


class Reconciled(Struct, frozen=True, kw_only=True):
    """What the survey tells of jobs, what to ask of the outside, and containers that nobody remembers."""

    news: tuple[tuple[JobId, on.ContainerLost], ...]
    effects: tuple[do.Effect, ...]
    strays: tuple[Tag, ...]


def reconcile(
    *,
    active: Mapping[JobId, Job],
    known: Collection[JobId],
    seen: Sequence[Seen],
    expected: Collection[Tag],
    lost_before: datetime | None = None,
) -> Reconciled:
    """`expected`: the containers that ran when the survey began. `known`: of the seen jobs, those remembered.

    Those that began before `lost_before` went down with the engine, or the machine.
    """
    there = {it.tag: it for it in seen}
    under_way = {tag: job for job in active.values() for tag in tags_under_way(job)}
    kept = {tag for job in active.values() for tag in tags_kept(job)}
    lost = [tag for tag in under_way if tag in expected and tag not in there]
    leftovers = [tag for tag in there if tag not in under_way and tag not in kept]
    return Reconciled(
        news=tuple((tag.job_id, _lost(under_way[tag], tag, lost_before)) for tag in lost),
        effects=(
            *(effect for tag, job in under_way.items() for effect in wanted(job, tag, there.get(tag))),
            *(do.CleanUpContainer(tag=tag) for tag in leftovers if tag.job_id in known),
        ),
        strays=tuple(tag for tag in leftovers if tag.job_id not in known),
    )


def _lost(job: Job, tag: Tag, before: datetime | None) -> on.ContainerLost:
    began = part_of(job, tag.part).started_at if has_parts(job) else job.started_at
    if before is None or began is None or began >= before:
        return on.ContainerLost(attempt=tag.attempt, part=tag.part)
    return on.ContainerLost(attempt=tag.attempt, part=tag.part, reason=status_reasons.HOST_TERMINATED)


def wanted(job: Job, tag: Tag, seen: Seen | None) -> tuple[do.Effect, ...]:
    """What a container under way still needs from the outside. Asking again for what is being done is harmless."""
    standing = _standing(job, tag)
    if standing.starts:
        start = do.StartContainer(tag=tag)
        return (start, do.AbandonStart(tag=tag)) if standing.is_to_stop else (start,)
    if seen is not None and not seen.lives:
        return (do.InspectContainer(tag=tag),)
    return (do.StopContainer(tag=tag),) if standing.is_to_stop and not standing.was_asked else ()


class _Standing(Struct, frozen=True, kw_only=True):
    """How far a container is: `starts` until it runs; `is_to_stop`, and `was_asked` to."""

    starts: bool
    is_to_stop: bool
    was_asked: bool


def _standing(job: Job, tag: Tag) -> _Standing:
    if has_parts(job):
        part = part_of(job, tag.part)
        starts = part.state is PartState.STARTING
        return _Standing(starts=starts, is_to_stop=part.stopping, was_asked=part.kill_at is not None)
    asked = job.stop is not None and job.stop.kill_at is not None
    return _Standing(starts=job.status is Status.STARTING, is_to_stop=job.stop is not None, was_asked=asked)
