"""Jobs as users see them: as they are stored, with what orders to arrays have decided, and with why no job starts."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from batchq.domain.job import Job
from batchq.domain.names import JobId
from batchq.domain.people import Reach
from batchq.domain.placement import stands_in_line
from batchq.domain.sealing import Sealed
from batchq.ports import JobStore
from batchq.values import ChildQuery, JobQuery, NeedQuery


class Showing:
    """What orders have decided is taken before the store is read: who was once shown as over is, ever after.

    `sealed` tells it as last saved. `obstacle` is the statusReason of RUNNABLE jobs while none can start, or None: it
    holds for all of them at once, so it is not stored with each.
    """

    def __init__(self, store: JobStore, sealed: Callable[[], Sealed], obstacle: Callable[[], str | None]) -> None:
        self._store = store
        self._sealed = sealed
        self._obstacle = obstacle

    async def jobs(self, ids: Sequence[JobId], *, reach: Reach | None = None) -> Mapping[JobId, Job]:
        sealed = self._sealed()
        found = await self._store.jobs(ids, reach=reach)
        return {it.id: it for it in self._shown(sealed, tuple(found.values()))}

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list(replace(query, over=sealed.over)))

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list_needing(replace(query, over=sealed.over)))

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list_children(replace(query, over=query.parent in sealed.parents)))

    def _shown(self, sealed: Sealed, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        shown = tuple(map(sealed.shown, jobs)) if sealed.parents else jobs
        obstacle = self._obstacle()
        if obstacle is None:
            return shown
        return tuple(replace(it, status_reason=obstacle) if stands_in_line(it) else it for it in shown)
