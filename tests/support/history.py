"""Status changes as the store commits them, for tests that watch every job of a run."""

from collections.abc import Callable
from typing import Any

from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.ports.jobs import Changes, JobStore

Listener = Callable[[Status | None, Status, Job], None]


class ObservedStore:
    """Forwards every call to `store`. After each commit, reports the status changes of its history in their order.

    `listener` gets the status before (None for a new job), the status after, and the job as the commit left it.
    """

    def __init__(self, store: JobStore, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._statuses: dict[JobId, Status] = {}

    async def commit(self, changes: Changes) -> None:
        await self._store.commit(changes)
        jobs = {it.id: it for it in (*changes.inserted, *changes.updated)}
        for moment in changes.history:
            before = self._statuses.get(moment.job_id)
            self._statuses[moment.job_id] = moment.status
            self._listener(before, moment.status, jobs[moment.job_id])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
