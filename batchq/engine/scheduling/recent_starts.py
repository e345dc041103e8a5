"""How many jobs of each queue were placed within the last hour, counted in intervals of five minutes."""

from collections import Counter, deque
from datetime import datetime, timedelta

from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from batchq.engine.unit_of_work import Committed

PERIOD = timedelta(hours=1)
INTERVAL = timedelta(minutes=5)


class RecentStarts:
    """Counts placements in memory only: nothing is known of the time before the server's start."""

    def __init__(self, since: datetime) -> None:
        #: The server's start.
        self._since = since
        #: The beginning of each interval, oldest first, with its placements by queue.
        self._intervals: deque[tuple[datetime, Counter[QueueName]]] = deque()

    def on_committed(self, committed: Committed) -> None:
        placed = [it.job.spec.queue for it in committed.transitions if it.job.status is Status.STARTING]
        if not placed:
            return
        now = committed.unit.now
        if not self._intervals or not timedelta() <= now - self._intervals[-1][0] < INTERVAL:
            self._intervals.append((now, Counter()))
            self._forget(now)
        self._intervals[-1][1].update(placed)

    def period(self, now: datetime) -> timedelta:
        """The time that `counts` covers: an hour, or less after a start of the server."""
        return max(timedelta(), min(PERIOD, now - self._since))

    def counts(self, now: datetime) -> Counter[QueueName]:
        """The placements of each queue within the last hour."""
        self._forget(now)
        return sum((counts for _, counts in self._intervals), Counter[QueueName]())

    def _forget(self, now: datetime) -> None:
        while self._intervals and now - self._intervals[0][0] > PERIOD:
            self._intervals.popleft()
