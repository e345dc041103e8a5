"""What batchq remembers, against what the engine has: a watch is a hint, a survey is the truth. Pure.

Nothing is decided here from a container's state alone but that it must be looked at: the exit, its code and its times
come from an inspection. A survey is older than the moment it is read, so only a container that was expected before the
survey began can be missed by it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.job import Job, Status
from batchq.domain.names import JobId, Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A container of ours in a survey. `lives` is whether it runs (or is paused)."""

    tag: Tag
    lives: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What the survey tells of jobs, what to ask of the outside, and containers that nobody remembers."""

    news: tuple[tuple[JobId, on.ContainerLost], ...]
    effects: tuple[do.Effect, ...]
    strays: tuple[Tag, ...]


def reconcile(
    *, active: Mapping[JobId, Job], known: Collection[JobId], seen: Sequence[Seen], expected: Collection[Tag]
) -> Reconciled:
    """`expected`: the RUNNING attempts when the survey began. `known`: of the seen jobs, those that are remembered."""
    there = {it.tag: it for it in seen}
    under_way = {job.tag: job for job in active.values()}
    lost = [tag for tag in under_way if tag in expected and tag not in there]
    leftovers = [tag for tag in there if tag not in under_way]
    return Reconciled(
        news=tuple((tag.job_id, on.ContainerLost(attempt=tag.attempt)) for tag in lost),
        effects=(
            *(effect for tag, job in under_way.items() for effect in wanted(job, there.get(tag))),
            *(do.ClearAway(tag=tag) for tag in leftovers if tag.job_id in known),
        ),
        strays=tuple(tag for tag in leftovers if tag.job_id not in known),
    )


def wanted(job: Job, seen: Seen | None) -> tuple[do.Effect, ...]:
    """What an attempt under way still needs from the outside. Asking again for what is being done is harmless."""
    if job.status is Status.STARTING:
        start = do.StartContainer(tag=job.tag)
        return (start,) if job.stop is None else (start, do.AbandonStart(tag=job.tag))
    if seen is not None and not seen.lives:
        return (do.InspectContainer(tag=job.tag),)
    if job.stop is not None and job.stop.kill_at is None:
        return (do.StopContainer(tag=job.tag),)
    return ()
