"""The part of a turn that follows what has happened to jobs to those that hang on them.

New jobs are judged, and so are those whose dependencies have ended; parents of arrays are told how their children fare.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchq.domain.dependencies import asked_of, judge, waits_for
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.names import JobId, child_id
from batchq.engine.turn import Turn
from batchq.ports import JobStore


async def settle(turn: Turn, store: JobStore, *, waited_for: bool) -> None:
    """Until nothing more follows: a failed dependency fails its dependents, and theirs, in this same turn.

    `waited_for` is whether any that is stored waits for another.
    """
    while turn.unsettled:
        if turn.moved:
            await _count(turn, store)
        hang, stirred = set(turn.take_fresh()), turn.take_stirred()
        if stirred:
            hang.update(await _dependents(turn, store, stirred, waited_for=waited_for))
        if hang:
            await _judge(hang, turn, store)


async def _count(turn: Turn, store: JobStore) -> None:
    """Each parent once, however many of its children have moved."""
    moved = turn.moved
    await _learn(turn, store, moved)
    for parent_id in moved:
        turn.count(parent_id)


async def _dependents(turn: Turn, store: JobStore, stirred: Sequence[JobId], *, waited_for: bool) -> list[JobId]:
    """Those in the store, those that this turn itself has brought, and the next child of a SEQUENTIAL array."""
    stored = await store.dependents(stirred) if waited_for else ()
    turn.learn(stored)
    gone = set(stirred)
    here = [job for job in turn.in_status(Status.PENDING) if gone.intersection(waits_for(job))]
    after = [job_id for job in map(turn.get, stirred) if job is not None for job_id in _next(job)]
    if after:
        await _learn(turn, store, after)
    return [*[job.id for job in (*stored, *here)], *after]


def _next(job: Job) -> tuple[JobId, ...]:
    """A failed one has none: its parent sees to those after it."""
    if job.child is None or not job.spec.sequential or job.status is not Status.SUCCEEDED:
        return ()
    return (child_id(job.child.parent, job.child.index + 1),)


async def _judge(job_ids: Iterable[JobId], turn: Turn, store: JobStore) -> None:
    jobs = [job for job_id in job_ids if (job := turn.get(job_id)) is not None and job.status in QUEUED]
    named = {job_id for job in jobs for job_id in asked_of(job)}
    if named:
        await _learn(turn, store, named)
    known: dict[JobId, Job] = {job_id: job for job_id in named if (job := turn.get(job_id)) is not None}
    for job in sorted(jobs, key=attrgetter("order")):
        if job.status is not Status.RUNNABLE:
            turn.step(job.id, judge(job, known))


async def _learn(turn: Turn, store: JobStore, job_ids: Iterable[JobId]) -> None:
    unknown = [job_id for job_id in job_ids if not turn.knows(job_id)]
    if unknown:
        turn.learn((await store.jobs(unknown)).values())
