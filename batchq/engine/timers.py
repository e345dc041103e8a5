"""One heap of wake-ups, derived from the active jobs; it rings messages. A job has at most one that counts."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.transitions import next_wakeup
from batchq.engine.messages import TimerFired
from batchq.engine.supervisor import within
from batchq.ports.clock import Clock

LONGEST_WAIT = (
    10.0  # seconds: a timer of the event loop stands still while the machine is suspended, the clock does not
)


class Timers:
    def __init__(self, *, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._clock = clock
        self._post = post
        self._due: dict[JobId, datetime] = {}
        self._heap: list[tuple[datetime, JobId]] = []
        self._sooner = asyncio.Event()

    def set(self, job: Job) -> None:
        """Take the job's wake-up as it is now; a job without one has its alarm taken off."""
        due = next_wakeup(job)
        if due is None:
            self._due.pop(job.id, None)
        elif self._due.get(job.id) != due:
            self._due[job.id] = due
            heapq.heappush(self._heap, (due, job.id))
            self._sooner.set()
            self._forget_stale()

    def _forget_stale(self) -> None:
        """Alarms taken off stay in the heap until they are most of it."""
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._due.get(entry[1]) == entry[0]]
            heapq.heapify(self._heap)

    async def run(self) -> None:
        while True:
            self._ring_due()
            self._sooner.clear()
            await self._wait()

    def _ring_due(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, job_id = heapq.heappop(self._heap)
            if self._due.get(job_id) == due:
                del self._due[job_id]
                self._post(TimerFired(job_id=job_id))

    async def _wait(self) -> None:
        """Until the first is due, or a sooner one is set."""
        if not self._heap:
            await self._sooner.wait()
            return
        left = (self._heap[0][0] - self._clock.now()).total_seconds()
        await within(min(max(left, 0.0), LONGEST_WAIT), self._sooner, self._clock)
