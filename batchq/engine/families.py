"""The part of a turn that works for arrays: a few children are spawned, and told what their parents were told."""

from collections.abc import Iterable

from batchq.domain import arrays
from batchq.domain.job import FINISHED, Job
from batchq.domain.names import JobId, child_id
from batchq.engine.turn import Turn
from batchq.ports import JobStore

MOST = 250  # children that one turn spawns, and tells


class Families:
    """Knows the parents that have children to spawn or to tell, as last saved: they are few, the children are not."""

    def __init__(self) -> None:
        self._at_work: dict[JobId, Job] = {}

    @property
    def busy(self) -> bool:
        """Whether the next turn has something to do even without a letter."""
        return bool(self._at_work)

    async def load(self, store: JobStore) -> None:
        self._at_work = {job.id: job for job in await store.parents_at_work()}

    def adopt(self, job: Job) -> None:
        """A saved job."""
        if arrays.at_work(job):
            self._at_work[job.id] = job
        else:
            self._at_work.pop(job.id, None)

    def under_order(self, turn: Turn) -> frozenset[JobId]:
        """The parents none of whose children may start, for some have not heard yet what they must."""
        known = {*self._at_work, *(job.id for job in turn.parents())}
        return frozenset(job.id for job in self._of(turn, known) if arrays.order(job) is not None)

    def spawning(self, before: int) -> bool:
        """Whether an array of an order below this one has children that are yet to come."""
        return any(it.order < before and arrays.spawning(it) for it in self._at_work.values())

    async def work(self, turn: Turn, store: JobStore) -> None:
        """For parents that were at work before this turn: who asked for something need not wait for this."""
        left = MOST
        for parent in self._of(turn, self._at_work):
            if left > 0:
                spawned = _spawn(turn, parent, left)
                left -= spawned + await _tell(turn, store, parent.id, left)

    def _of(self, turn: Turn, parents: Iterable[JobId]) -> list[Job]:
        """Those of them that are at work, as the turn leaves them, oldest first."""
        turn.learn(self._at_work.values())
        jobs = (job for job in map(turn.get, parents) if job is not None and arrays.at_work(job))
        return sorted(jobs, key=lambda it: it.order)


def _spawn(turn: Turn, parent: Job, most: int) -> int:
    after, children = arrays.spawn(parent, most, turn.now)
    if children:
        turn.keep(parent, after)
    for child in children:
        turn.insert(child, None)
    return len(children)


async def _tell(turn: Turn, store: JobStore, parent_id: JobId, most: int) -> int:
    """Those that are over need not hear it."""
    parent = turn.get(parent_id)
    assert parent is not None, f"{parent_id} was at work and is not known"
    order = arrays.order(parent)
    if order is None:
        return 0
    after, indices = arrays.tell(parent, most)
    turn.learn(await store.children(parent_id, indices.start, len(indices)))
    turn.keep(parent, after)
    for child in map(turn.get, (child_id(parent_id, index) for index in indices)):
        if child is not None and child.status not in FINISHED:
            turn.step(child.id, order)
    return len(indices)
