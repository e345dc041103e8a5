"""Propagates the changes of a unit of work to dependents and to array parents.

New jobs, and jobs whose dependencies have ended, are evaluated; arrays count the status changes of their children.
Stored dependents are evaluated a page at a time, so that other messages are handled between the pages. Until then a
dependent stays PENDING as stored. The remaining work is derived from stored data, so it also resumes after a crash.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchq.domain.ids import JobId, child_id
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.scheduling.dependencies import dependencies_to_read, evaluate_dependencies
from batchq.engine.unit_of_work import PendingDependents, UnitOfWork, pending_dependents
from batchq.ports.jobs import JobStore

READ_COST = 5  # the cost of one read, in dependents: a chain of dependencies takes one read a job


async def propagate(unit: UnitOfWork, store: JobStore, *, has_dependencies: bool) -> None:
    """Propagate until nothing more follows, or until the unit of work has evaluated its limit of stored dependents.

    `has_dependencies`: whether any stored job depends on another.
    """
    while unit.must_propagate:
        if unit.children_changed:
            await _count(unit, store)
        affected, changed = set(unit.take_new()), unit.take_changed()
        if changed:
            affected.update(await _dependents(unit, store, changed, has_dependencies=has_dependencies))
        affected.update(await _stored_dependents(unit, store))
        if affected:
            await _evaluate(affected, unit, store)


async def _count(unit: UnitOfWork, store: JobStore) -> None:
    """Update the counts of each array once, however many of its children have changed."""
    parents = unit.children_changed
    await _load(unit, store, parents)
    for parent_id in parents:
        unit.recount(parent_id)


async def _dependents(
    unit: UnitOfWork, store: JobStore, changed: Sequence[JobId], *, has_dependencies: bool
) -> list[JobId]:
    """The dependents changed by this unit of work, and the next child of a SEQUENTIAL array.

    Stored dependents are queued in `unit.unresolved`.
    """
    if has_dependencies:
        unit.unresolved.extend(pending_dependents(changed))
    in_unit = unit.dependents_of(changed)
    next_children = [job_id for job in map(unit.get, changed) if job is not None for job_id in _next_sequential(job)]
    if next_children:
        await _load(unit, store, next_children)
    return [*in_unit, *next_children]


async def _stored_dependents(unit: UnitOfWork, store: JobStore) -> list[JobId]:
    """Load the next page of stored dependents."""
    if not unit.unresolved or unit.dependents_left <= 0:
        return []
    first = unit.unresolved.popleft()
    found = await store.dependents(first.ended, after=first.after, limit=unit.dependents_left)
    unit.load(found)
    if len(found) == unit.dependents_left:
        unit.unresolved.appendleft(PendingDependents(ended=first.ended, after=found[-1].order))
    unit.dependents_left -= len(found) + READ_COST
    return [job.id for job in found]


def _next_sequential(job: Job) -> tuple[JobId, ...]:
    """The next child of a SEQUENTIAL array after one that SUCCEEDED.

    After a failure the parent ends the remaining children.
    """
    if job.child is None or not job.spec.sequential or job.status is not Status.SUCCEEDED:
        return ()
    return (child_id(job.child.parent, job.child.index + 1),)


async def _evaluate(job_ids: Iterable[JobId], unit: UnitOfWork, store: JobStore) -> None:
    """Apply to each queued job the state of its dependencies, in the order of submission."""
    jobs = [job for job_id in job_ids if (job := unit.get(job_id)) is not None and job.status in QUEUED]
    named = {job_id for job in jobs for job_id in dependencies_to_read(job)}
    if named:
        await _load(unit, store, named)
    known: dict[JobId, Job] = {job_id: job for job_id in named if (job := unit.get(job_id)) is not None}
    for job in sorted(jobs, key=attrgetter("order")):
        if job.status is not Status.RUNNABLE:
            unit.step(job.id, evaluate_dependencies(job, known))


async def _load(unit: UnitOfWork, store: JobStore, job_ids: Iterable[JobId]) -> None:
    """Load the jobs that the unit of work has not loaded."""
    unknown = [job_id for job_id in job_ids if not unit.has_loaded(job_id)]
    if unknown:
        unit.load((await store.jobs(unknown)).values())
