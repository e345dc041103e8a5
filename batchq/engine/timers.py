"""The timers of jobs."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.deadlines import next_wakeup
from batchq.engine.mailbox import TimerFired
from batchq.engine.supervisor import wait_at_most
from batchq.ports.clock import Clock

MAX_WAIT = 10.0  # seconds: timers of the event loop stop while the machine is suspended, the clock does not


class Timers:
    """Posts TimerFired when a job's next deadline is reached."""

    def __init__(self, *, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._clock = clock
        self._post = post
        #: The due time of each job's timer. Heap entries that differ from it are stale.
        self._due: dict[JobId, datetime] = {}
        self._heap: list[tuple[datetime, JobId]] = []
        #: Set when a timer was added.
        self._added = asyncio.Event()

    def set(self, job: Job) -> None:
        """Set the job's timer to its next deadline; remove the timer if it has none."""
        due = next_wakeup(job)
        if due is None:
            self._due.pop(job.id, None)
        elif self._due.get(job.id) != due:
            self._due[job.id] = due
            heapq.heappush(self._heap, (due, job.id))
            self._added.set()
            self._drop_stale()

    def _drop_stale(self) -> None:
        """Rebuild the heap when most of its entries are stale."""
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._due.get(entry[1]) == entry[0]]
            heapq.heapify(self._heap)

    async def run(self) -> None:
        while True:
            self._post_due()
            self._added.clear()
            await self._wait()

    def _post_due(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, job_id = heapq.heappop(self._heap)
            if self._due.get(job_id) == due:
                del self._due[job_id]
                self._post(TimerFired(job_id=job_id))

    async def _wait(self) -> None:
        """Wait until the first timer is due or another one is added."""
        if not self._heap:
            await self._added.wait()
            return
        left = (self._heap[0][0] - self._clock.now()).total_seconds()
        await wait_at_most(min(max(left, 0.0), MAX_WAIT), self._added, self._clock)
