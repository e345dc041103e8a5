"""The part of a turn that follows what has happened to jobs to those that hang on them.

New jobs are judged, and so are those whose dependencies have ended; parents of arrays are told how their children fare.
Of the dependents that are stored one turn judges a page: others are served before the next page. Until then a dependent
is PENDING, as it is stored, so nothing else has to know; what is left follows from what is stored, also after a crash.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchq.domain.ids import JobId, child_id
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.scheduling.dependencies import asked_of, evaluate
from batchq.engine.unit_of_work import Turn, Unjudged, unjudged
from batchq.ports.jobs import JobStore

READ_COST = 5  # dependents that one more read stands for: a chain is read a job at a time


async def settle(turn: Turn, store: JobStore, *, waited_for: bool) -> None:
    """Until nothing more follows, or the turn has judged its share of the dependents that are stored.

    `waited_for` is whether any that is stored waits for another.
    """
    while turn.unsettled:
        if turn.moved:
            await _count(turn, store)
        hang, stirred = set(turn.take_fresh()), turn.take_stirred()
        if stirred:
            hang.update(await _dependents(turn, store, stirred, waited_for=waited_for))
        hang.update(await _stored_dependents(turn, store))
        if hang:
            await _judge(hang, turn, store)


async def _count(turn: Turn, store: JobStore) -> None:
    """Each parent once, however many of its children have moved."""
    moved = turn.moved
    await _learn(turn, store, moved)
    for parent_id in moved:
        turn.count(parent_id)


async def _dependents(turn: Turn, store: JobStore, stirred: Sequence[JobId], *, waited_for: bool) -> list[JobId]:
    """Those that this turn itself has brought, and the next child of a SEQUENTIAL array; those stored come in pages."""
    if waited_for:
        turn.unjudged.extend(unjudged(stirred))
    here = turn.waiting_for(stirred)
    after = [job_id for job in map(turn.get, stirred) if job is not None for job_id in _next(job)]
    if after:
        await _learn(turn, store, after)
    return [*here, *after]


async def _stored_dependents(turn: Turn, store: JobStore) -> list[JobId]:
    if not turn.unjudged or turn.dependents_left <= 0:
        return []
    first = turn.unjudged.popleft()
    found = await store.dependents(first.ended, after=first.after, limit=turn.dependents_left)
    turn.learn(found)
    if len(found) == turn.dependents_left:
        turn.unjudged.appendleft(Unjudged(ended=first.ended, after=found[-1].order))
    turn.dependents_left -= len(found) + READ_COST
    return [job.id for job in found]


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
            turn.step(job.id, evaluate(job, known))


async def _learn(turn: Turn, store: JobStore, job_ids: Iterable[JobId]) -> None:
    unknown = [job_id for job_id in job_ids if not turn.knows(job_id)]
    if unknown:
        turn.learn((await store.jobs(unknown)).values())
