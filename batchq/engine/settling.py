"""The part of a turn that follows dependencies: new jobs are judged, and so are those whose dependencies have ended."""

from collections.abc import Iterable

from batchq.domain.dependencies import asked_of, judge, waits_for
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.names import JobId
from batchq.engine.turn import Turn
from batchq.ports import JobStore


async def settle(turn: Turn, store: JobStore) -> None:
    """Judge until nothing more follows: a failed dependency fails its dependents, and theirs, in this same turn."""
    waiting = [job_id for job_id in turn.fresh if turn.get(job_id)]
    ended = turn.take_ended()
    while waiting or ended:
        await _judge({*waiting, *await _dependents(turn, store, ended)}, turn, store)
        waiting, ended = [], turn.take_ended()


async def _dependents(turn: Turn, store: JobStore, ended: list[JobId]) -> list[JobId]:
    """Those in the store, and those that this turn itself has brought."""
    if not ended:
        return []
    stored = await store.dependents(ended)
    turn.learn(stored)
    gone = set(ended)
    here = (job for job in turn.in_status(Status.PENDING) if gone.intersection(waits_for(job)))
    return [job.id for job in (*stored, *here)]


async def _judge(job_ids: Iterable[JobId], turn: Turn, store: JobStore) -> None:
    jobs = [job for job_id in job_ids if (job := turn.get(job_id)) is not None and job.status in QUEUED]
    named = {job_id for job in jobs for job_id in asked_of(job)}
    turn.learn((await store.jobs([job_id for job_id in named if not turn.knows(job_id)])).values())
    known: dict[JobId, Job] = {job_id: job for job_id in named if (job := turn.get(job_id)) is not None}
    for job in sorted(jobs, key=lambda it: it.order):
        if job.status is not Status.RUNNABLE:
            turn.step(job.id, judge(job, known))
