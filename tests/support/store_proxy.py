"""A store between the engine and the real one: commits fail or are not answered, and observers see each commit."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes, JobStore


class StoreProxy:
    """Forwards every call to `store`. `before_commit` and `after_commit` observe each commit."""

    def __init__(
        self,
        store: JobStore,
        *,
        before_commit: Callable[[Changes], Awaitable[None]] | None = None,
        after_commit: Callable[[Changes], None] | None = None,
    ) -> None:
        self.store = store
        self.before_commit = before_commit
        self.after_commit = after_commit
        #: Each commit raises StoreFailed.
        self.failing = False
        #: Commits are carried out, and their callers wait for ever: a crash then is one between commit and reply.
        self.withholds_replies = False
        #: How many commits were carried out without a reply.
        self.unanswered_commits = 0
        #: How many commits were carried out.
        self.commits = 0
        self._waiting: list[asyncio.Future[None]] = []

    def next_commit(self) -> asyncio.Future[None]:
        """Done after the next commit from now on was carried out."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    async def commit(self, changes: Changes) -> int | None:
        if self.failing:
            raise StoreFailed("no space left on device")
        if self.before_commit is not None:
            await self.before_commit(changes)
        first_number = await self.store.commit(changes)
        self._count_commit()
        if self.after_commit is not None:
            self.after_commit(changes)
        if self.withholds_replies:
            self.unanswered_commits += 1
            await asyncio.Event().wait()
        return first_number

    def _count_commit(self) -> None:
        self.commits += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class StatusChanges:
    """An observer of commits that calls `listener` for each status change, in the order of the history.

    `listener` gets the status before (None for a new job), the status after, and the job as the commit left it.
    """

    def __init__(self, listener: Callable[[Status | None, Status, Job], None]) -> None:
        self._listener = listener
        self._statuses: dict[JobId, Status] = {}

    def __call__(self, changes: Changes) -> None:
        jobs = {it.id: it for it in (*changes.inserted, *changes.updated)}
        for entry in changes.history:
            if not entry.is_status:
                continue
            before = self._statuses.get(entry.job_id)
            self._statuses[entry.job_id] = entry.status
            self._listener(before, entry.status, jobs[entry.job_id])
