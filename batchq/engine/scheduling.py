"""The part of a turn that fills free room.

It reads waiting jobs from the store's index, a page at a time, no further than the first in each queue that must wait.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import groupby

from batchq.domain import events as on
from batchq.domain.catalog import JobQueue
from batchq.domain.container import Resources
from batchq.domain.job import Status
from batchq.domain.names import JobId
from batchq.domain.placement import Candidate, Fits, Misfit, Room, Waits
from batchq.engine.ground import Ground
from batchq.engine.turn import Turn
from batchq.ports import JobStore

FIRST_PAGE, PAGE = 8, 128
MOST_FOUND = 500  # jobs that one turn places or sets aside
MISFIT_PAGE = 500


async def fill_room(turn: Turn, store: JobStore, ground: Ground, host: Resources) -> bool:
    """Place RUNNABLE jobs until none fits: queues of higher priority first; of equal priority, oldest job first.

    False if it stopped before that, at what one turn may do.
    """
    room = Room(environments=ground.environments, host=host, active=turn.active().values())
    by_priority = sorted(ground.queues.values(), key=lambda it: (-it.priority, it.name))
    found: list[tuple[JobId, on.Placed | on.FoundMisfit]] = []
    for _, queues in groupby(by_priority, key=lambda it: it.priority):
        await _fill_from(turn, store, room, tuple(queues), found)
    turn.learn((await store.jobs([job_id for job_id, _ in found if not turn.knows(job_id)])).values())
    for job_id, event in found:
        turn.step(job_id, event)
    return len(found) < MOST_FOUND


async def free_misfits(turn: Turn, store: JobStore, ground: Ground, host: Resources) -> None:
    """After the ground has changed: misfits that an environment could now hold are misfits no longer."""
    room = Room(environments=ground.environments, host=host, active=())
    after = -1
    while page := await store.misfits(MISFIT_PAGE, after):
        after = page[-1].order
        turn.learn(page)
        for job in filter(None, [turn.get(it.id) for it in page]):
            queue = ground.queues.get(job.spec.queue)
            if job.misfit and queue is not None and room.could_hold(job.spec.resources, queue.environments):
                turn.step(job.id, on.FoundFitting())


async def _fill_from(
    turn: Turn,
    store: JobStore,
    room: Room,
    queues: Sequence[JobQueue],
    found: list[tuple[JobId, on.Placed | on.FoundMisfit]],
) -> None:
    """Offer the queues' jobs, merged by order, until the head of each queue waits or there is none."""
    lines = {queue: _waiting(turn, store, queue) for queue in queues}
    heads = {queue: await anext(line, None) for queue, line in lines.items()}
    while len(found) < MOST_FOUND and (ready := {queue: head for queue, head in heads.items() if head is not None}):
        queue, head = min(ready.items(), key=lambda it: it[1].order)
        match room.offer(head.resources, queue.environments):
            case Fits(environment=name):
                found.append((head.job_id, on.Placed(environment=name)))
            case Misfit(reason=reason):
                found.append((head.job_id, on.FoundMisfit(reason=reason)))
            case Waits():
                heads[queue] = None
                continue
        heads[queue] = await anext(lines[queue], None)


async def _waiting(turn: Turn, store: JobStore, queue: JobQueue) -> AsyncIterator[Candidate]:
    """A queue's RUNNABLE jobs in order: the stored ones, with what this turn has changed laid over."""
    changed = sorted(
        (
            Candidate(job_id=job.id, order=job.order, resources=job.spec.resources)
            for job in turn.in_status(Status.RUNNABLE)
            if job.spec.queue == queue.name and not job.misfit
        ),
        key=lambda it: it.order,
    )
    async for stored in _stored(store, queue):
        while changed and changed[0].order < stored.order:
            yield changed.pop(0)
        if not turn.touched(stored.job_id):
            yield stored
    for candidate in changed:
        yield candidate


async def _stored(store: JobStore, queue: JobQueue) -> AsyncIterator[Candidate]:
    after, limit = -1, FIRST_PAGE
    while page := await store.runnable(queue.name, limit, after):
        for candidate in page:
            yield candidate
        if len(page) < limit:
            return
        after, limit = page[-1].order, PAGE
