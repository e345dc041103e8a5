"""Jobs as people are shown them: as they are stored, and as orders to their arrays have decided beyond that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from batchq.domain.job import Job
from batchq.domain.names import JobId
from batchq.domain.people import Reach
from batchq.domain.sealing import Sealed
from batchq.ports import JobStore
from batchq.values import ChildQuery, JobQuery, NeedQuery


class Showing:
    """What orders have decided is taken before the store is read: who was once shown as over is, ever after.

    `sealed` tells it as last saved.
    """

    def __init__(self, store: JobStore, sealed: Callable[[], Sealed]) -> None:
        self._store = store
        self._sealed = sealed

    async def jobs(self, ids: Sequence[JobId], *, reach: Reach | None = None) -> Mapping[JobId, Job]:
        sealed = self._sealed()
        found = await self._store.jobs(ids, reach=reach)
        return {job_id: sealed.shown(job) for job_id, job in found.items()} if sealed.parents else found

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return _shown(sealed, await self._store.list(replace(query, over=sealed.over)))

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return _shown(sealed, await self._store.list_needing(replace(query, over=sealed.over)))

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return _shown(sealed, await self._store.list_children(replace(query, over=query.parent in sealed.parents)))


def _shown(sealed: Sealed, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(map(sealed.shown, jobs)) if sealed.parents else jobs
