"""Background loops beside the engine's loop: timers of jobs, the event-loop watchdog, the store monitor, the pruner.

The event-loop watchdog measures how late the event loop wakes a task, and finds the call that blocks it: a blocking
call delays every request without any other sign. A thread inspects the stack of the loop's thread while the loop does
not respond. If the whole process is stopped (SIGSTOP, or a machine without free CPU), the thread is delayed as well,
and the stack says nothing about the cause.

The store monitor detects a lost store, without which no decision is possible: the server has to end. A job with a
damaged record is loaded in a unit of work, which ends the job.

The pruner removes finished jobs after the retention period, a few at a time between two units of work (decision 0017).
The rows are deleted first; the same transaction records the log files to be deleted. The files follow. So no reader
sees a part of a job, and the next round continues after a crash. Spending is never removed, because budgets may count
all of it: old spending is stored by month instead of by day.
"""

import asyncio
import heapq
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from time import process_time

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.deadlines import next_wakeup
from batchq.engine.mailbox import TimerFired
from batchq.engine.supervisor import wait_at_most
from batchq.errors import StoreFailed, StoreLost
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore, Pruned, RetentionStore
from batchq.ports.logs import RetentionArchive

MAX_WAIT = 10.0  # seconds: timers of the event loop stop while the machine is suspended, the clock does not
log = logging.getLogger(__name__)
INTERVAL = timedelta(seconds=0.25)  # between two measurements
MAX_DELAY = timedelta(seconds=1)  # a longer delay is logged and reported
DELAY_SHOWN_FOR = timedelta(minutes=5)  # how long `health` reports a delay
NONE = timedelta(0)
MAX_WAKE_DELAY = 0.1  # seconds: the longest delay of a thread's wake-up on a machine with free CPU
FRAMES = 4  # innermost frames of the loop's stack that are logged
IDLE_FUNCTION = (
    "select"  # the function in which an idle loop waits: if the loop is in it, the whole machine was delayed
)
UNKNOWN_CAUSE = "an unknown cause"
CHECK_INTERVAL = 5.0  # seconds between checks
PRUNE_INTERVAL = 600.0  # seconds between two rounds
BATCH_SIZE = 50  # jobs, shares or logs in a transaction: some milliseconds of the writer
BATCH_PAUSE = 0.05  # seconds between two transactions, for other writers
OLD_SPENDING = timedelta(days=400)  # spending of earlier days is added up by month
OLD_SHARES = timedelta(days=70)  # ten of the longest decay windows: older usage has decayed to nothing


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


class LoopWatchdog:
    """Measures the delays of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When the loop last ran the watchdog's task.
        self._last_run = clock.now()
        #: The blocking calls that the thread found during the present delay.
        self._cause: str | None = None
        #: The delay of the loop at the last measurement.
        self.latest_delay = NONE
        #: The time and the length of each recent delay.
        self._delays: list[tuple[datetime, timedelta]] = []

    async def run(self) -> None:
        """Measure the running loop until cancelled."""
        stopped = threading.Event()
        loop = threading.get_ident()
        with suppress(RuntimeError):  # if no thread can start, delays are measured without their cause
            threading.Thread(target=self._find_cause, args=(loop, stopped), name="loop watchdog", daemon=True).start()
        try:
            while True:
                self._last_run = self._clock.now()
                await self._clock.sleep(INTERVAL.total_seconds())
                self._record_delay(self._clock.now())
        finally:
            stopped.set()

    def longest_delay(self) -> timedelta:
        """The longest delay within DELAY_SHOWN_FOR; zero without one."""
        recent = (late for at, late in self._delays if self._clock.now() - at < DELAY_SHOWN_FOR)
        return max(recent, default=NONE)

    def health(self) -> str:
        """`ok`, or the number and the maximum of the delays in the last minutes."""
        self._delays = [delay for delay in self._delays if self._clock.now() - delay[0] < DELAY_SHOWN_FOR]
        if not self._delays:
            return "ok"
        longest = max(late for _, late in self._delays)
        return f"blocked {len(self._delays)} times recently, for at most {longest.total_seconds():.1f} s"

    def _record_delay(self, now: datetime) -> None:
        self.latest_delay = late = now - self._last_run - INTERVAL
        if late > MAX_DELAY:
            self._delays.append((now, late))
            log.warning(
                "the event loop was blocked for %.1f s by %s", late.total_seconds(), self._cause or UNKNOWN_CAUSE
            )
        self._cause = None

    def _find_cause(self, loop: int, stopped: threading.Event) -> None:
        """Run in the thread: record what the loop is doing when it does not respond."""
        while True:
            began, worked, rest = self._clock.now(), process_time(), self._until_too_late()
            if stopped.wait(rest):
                return
            now = self._clock.now()
            overslept = (now - began).total_seconds() - rest
            # A call that holds the GIL delays this thread as well, but uses CPU time all the while.
            busy = process_time() - worked > rest + overslept / 2
            if (
                self._cause is None
                and now - self._last_run > INTERVAL + MAX_DELAY
                and (overslept < MAX_WAKE_DELAY or busy)
            ):
                self._cause = innermost_calls(loop)

    def _until_too_late(self) -> float:
        """Seconds until the last run of the watchdog's task is too old.

        Usually the task has run again by then, and no stack is inspected.
        """
        left = self._last_run + INTERVAL + MAX_DELAY - self._clock.now()
        return (left if left > NONE else INTERVAL).total_seconds()


def innermost_calls(thread: int) -> str:
    """The innermost calls of a thread, innermost first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way to inspect another thread
    calls = traceback.extract_stack(frame, limit=FRAMES) if frame is not None else []
    if calls and calls[-1].name == IDLE_FUNCTION:
        return "other programs: no CPU was free for this process"
    return " in ".join(f"{summary.name} ({summary.filename}:{summary.lineno})" for summary in reversed(calls))


class StoreMonitor:
    """Checks the store at intervals."""

    def __init__(self, *, store: JobStore, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._store = store
        self._clock = clock
        self._post = post
        self._lost = asyncio.Event()
        self._why = ""

    async def run(self) -> None:
        while True:
            await self._check()
            await self._clock.sleep(CHECK_INTERVAL)

    async def lost(self) -> str:
        """Wait until the store is lost permanently; returns the reason."""
        await self._lost.wait()
        return self._why

    async def _check(self) -> None:
        """Check the store once.

        A failure other than StoreLost may be temporary, and the component that needs the store reports it.
        """
        try:
            await self._store.check()
            for job_id in await self._store.damaged():
                self._post(TimerFired(job_id=job_id))
        except StoreLost as gone:
            self._why = str(gone)
            self._lost.set()
        except StoreFailed as failure:
            log.debug("the store does not answer: %s", failure)


class Pruner:
    """Removes finished jobs and decayed share usage, and adds up old spending."""

    def __init__(
        self,
        *,
        store: RetentionStore,
        archive: RetentionArchive,
        clock: Clock,
        retention: timedelta | None,
        unit_lock: asyncio.Lock,
        jobs_with_containers: Callable[[], frozenset[JobId] | None],
    ) -> None:
        self._store = store
        self._archive = archive
        self._clock = clock
        #: The time after the end of a job; None: jobs are never removed.
        self._retention = retention
        #: Held while a unit of work runs, and while jobs are removed.
        self._unit_lock = unit_lock
        #: The jobs that had containers in the last survey, which are not removed; None: not known.
        self._jobs_with_containers = jobs_with_containers

    async def run(self) -> None:
        while True:
            try:
                await self.prune_once()
            except StoreFailed as failure:
                log.warning("finished jobs are not removed now: %s", failure)
            await self._clock.sleep(PRUNE_INTERVAL)

    async def prune_once(self) -> None:
        """Remove all jobs and share usage that are old enough, and add up old spending.

        No job is removed while the container engine is away: containers that still exist there need their jobs.
        """
        await self._delete_logs()
        if self._retention is not None:
            await self._prune(self._retention)
        await self._prune_shares()
        await self._merge_spending()

    async def _prune(self, retention: timedelta) -> None:
        removed = 0
        pruned = Pruned(jobs=0, after=None)
        while (in_use := self._jobs_with_containers()) is not None:
            async with self._unit_lock:
                before = self._clock.now() - retention
                pruned = await self._store.prune(before, keep=in_use, after=pruned.after, limit=BATCH_SIZE)
            removed += pruned.jobs
            await self._delete_logs()
            if pruned.after is None:
                break
            await self._clock.sleep(BATCH_PAUSE)
        if removed:
            log.info("removed %d jobs that ended more than %s ago", removed, retention)

    async def _delete_logs(self) -> None:
        while log_ids := await self._store.deleted_log_ids(BATCH_SIZE):
            for log_id in log_ids:
                await self._archive.discard(log_id)
            await self._store.mark_deleted(log_ids)

    async def _prune_shares(self) -> None:
        before = self._clock.now() - OLD_SHARES
        after = await self._store.prune_shares(before, limit=BATCH_SIZE)
        while after is not None:
            await self._clock.sleep(BATCH_PAUSE)
            after = await self._store.prune_shares(before, after=after, limit=BATCH_SIZE)

    async def _merge_spending(self) -> None:
        before = (self._clock.now() - OLD_SPENDING).date()
        while await self._store.merge_spending(before, limit=BATCH_SIZE):
            await self._clock.sleep(BATCH_PAUSE)
