"""The part of a unit of work that follows what has happened to jobs to those that hang on them.

New jobs are judged, and so are those whose dependencies have ended; parents of arrays are told how their children fare.
Of the dependents that are stored one unit judges a page: others are served before the next page. Until then a dependent
is PENDING, as it is stored, so nothing else has to know; what is left follows from what is stored, also after a crash.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchq.domain.ids import JobId, child_id
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.scheduling.dependencies import asked_of, evaluate
from batchq.engine.unit_of_work import PendingDependents, UnitOfWork, pending_dependents
from batchq.ports.jobs import JobStore

READ_COST = 5  # dependents that one more read stands for: a chain is read a job at a time


async def settle(unit: UnitOfWork, store: JobStore, *, waited_for: bool) -> None:
    """Until nothing more follows, or the unit of work has judged its share of the dependents that are stored.

    `waited_for` is whether any that is stored waits for another.
    """
    while unit.unsettled:
        if unit.children_changed:
            await _count(unit, store)
        hang, changed = set(unit.take_new()), unit.take_changed()
        if changed:
            hang.update(await _dependents(unit, store, changed, waited_for=waited_for))
        hang.update(await _stored_dependents(unit, store))
        if hang:
            await _judge(hang, unit, store)


async def _count(unit: UnitOfWork, store: JobStore) -> None:
    """Each parent once, however many of its children have moved."""
    moved = unit.children_changed
    await _learn(unit, store, moved)
    for parent_id in moved:
        unit.recount(parent_id)


async def _dependents(unit: UnitOfWork, store: JobStore, changed: Sequence[JobId], *, waited_for: bool) -> list[JobId]:
    """Those that this unit itself has brought, and the next child of a SEQUENTIAL array; those stored come in pages."""
    if waited_for:
        unit.unresolved.extend(pending_dependents(changed))
    here = unit.waiting_for(changed)
    after = [job_id for job in map(unit.get, changed) if job is not None for job_id in _next(job)]
    if after:
        await _learn(unit, store, after)
    return [*here, *after]


async def _stored_dependents(unit: UnitOfWork, store: JobStore) -> list[JobId]:
    if not unit.unresolved or unit.dependents_left <= 0:
        return []
    first = unit.unresolved.popleft()
    found = await store.dependents(first.ended, after=first.after, limit=unit.dependents_left)
    unit.load(found)
    if len(found) == unit.dependents_left:
        unit.unresolved.appendleft(PendingDependents(ended=first.ended, after=found[-1].order))
    unit.dependents_left -= len(found) + READ_COST
    return [job.id for job in found]


def _next(job: Job) -> tuple[JobId, ...]:
    """A failed one has none: its parent sees to those after it."""
    if job.child is None or not job.spec.sequential or job.status is not Status.SUCCEEDED:
        return ()
    return (child_id(job.child.parent, job.child.index + 1),)


async def _judge(job_ids: Iterable[JobId], unit: UnitOfWork, store: JobStore) -> None:
    jobs = [job for job_id in job_ids if (job := unit.get(job_id)) is not None and job.status in QUEUED]
    named = {job_id for job in jobs for job_id in asked_of(job)}
    if named:
        await _learn(unit, store, named)
    known: dict[JobId, Job] = {job_id: job for job_id in named if (job := unit.get(job_id)) is not None}
    for job in sorted(jobs, key=attrgetter("order")):
        if job.status is not Status.RUNNABLE:
            unit.step(job.id, evaluate(job, known))


async def _learn(unit: UnitOfWork, store: JobStore, job_ids: Iterable[JobId]) -> None:
    unknown = [job_id for job_id in job_ids if not unit.knows(job_id)]
    if unknown:
        unit.load((await store.jobs(unknown)).values())
