"""Which finished jobs a store in memory may forget: the same promises as `pruning` keeps in SQL."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from batchq.domain.ids import JobId, parent_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import at_work
from batchq.ports.jobs import Finished, Pruned
from batchq.store.rows import microseconds


class Choice(Struct, frozen=True, kw_only=True):
    """The jobs to forget, children before their parents, and what is answered."""

    jobs: tuple[Job, ...]
    pruned: Pruned


def choose(
    jobs: Mapping[JobId, Job],
    ended: Mapping[JobId, datetime],
    *,
    before: datetime,
    keep: Collection[JobId],
    waited_for: Collection[JobId],
    after: Finished | None,
    limit: int,
) -> Choice:
    kept = {*keep, *_whole(waited_for), *_named(jobs.values()), *_whole([_newest(jobs)])}
    own = ((Finished(microseconds(at), jobs[it].order), jobs[it]) for it, at in ended.items() if jobs[it].child is None)
    old = sorted((place, job) for place, job in own if place.at < microseconds(before) and (after or place) <= place)
    chosen: list[Job] = []
    for place, job in ((place, job) for place, job in old if place != after):
        family = [] if job.id in kept else [*_children(jobs, job), job]
        chosen += family[: limit - len(chosen)]
        if len(chosen) == limit:
            last = place if job in chosen else after
            return Choice(jobs=tuple(chosen), pruned=Pruned(jobs=limit, after=last or Finished(-1, -1)))
    return Choice(jobs=tuple(chosen), pruned=Pruned(jobs=len(chosen), after=None))


def _children(jobs: Mapping[JobId, Job], parent: Job) -> Sequence[Job]:
    return sorted((it for it in jobs.values() if it.child and it.child.parent == parent.id), key=lambda it: it.order)


def _newest(jobs: Mapping[JobId, Job]) -> JobId:
    return max(jobs.values(), key=lambda it: it.order).id if jobs else JobId("")


def _named(jobs: Iterable[Job]) -> Iterable[JobId]:
    """What arrays name that have yet to spawn children who wait for it."""
    return (it.job_id for job in jobs if at_work(job) for it in job.spec.depends_on if it.job_id is not None)


def _whole(ids: Iterable[JobId]) -> Iterable[JobId]:
    """With a child its array."""
    for job_id in ids:
        parent = parent_of(job_id)
        yield job_id if parent is None else parent[0]
