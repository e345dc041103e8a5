"""A read-ahead cache of the front of each queue and of arrays under way, updated by every saved unit of work.

Only units of work change which jobs wait, so what one unit has read or saved need not be read by the next. Each event
of a child needs its array, which an earlier such event has changed.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter

from batchq.domain.access.accounts import AccountName
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.scheduling.capacity import Candidate, candidate_of_job, is_queued_for_placement
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.jobs import JobStore
from batchq.ports.queue import NONE, Names

PAGE = 64  # candidates that are read at once
MAX_CANDIDATES = 256  # cached candidates of a queue
READ_AHEAD = 64  # jobs read at once: the requested jobs and the jobs behind them
MAX_JOBS = 1000  # cached jobs
MAX_CACHED_ARRAYS = 64  # cached arrays

_sequence = attrgetter("sequence")


class QueueFront:
    """All waiting jobs of a queue up to and including the sequence `until`."""

    def __init__(self) -> None:
        #: The sequence up to which the queue is known; infinity if it is known completely.
        self.until: float = -1
        self._candidates: list[Candidate] = []
        self._by_id: dict[JobId, Candidate] = {}

    def __len__(self) -> int:
        return len(self._candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._candidates)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._by_id

    def behind(self, after: int, limit: int, beside: Collection[AccountName]) -> tuple[Candidate, ...]:
        """The first `limit` candidates above the sequence `after`, without those of the accounts in `beside`."""
        first = bisect_right(self._candidates, after, key=_sequence)
        if not beside:
            return tuple(self._candidates[first : first + limit])
        line = islice(self._candidates, first, None)
        return tuple(islice((candidate for candidate in line if candidate.account not in beside), limit))

    def from_first_of(self, ids: Collection[JobId]) -> Iterator[JobId]:
        """The first candidate in `ids` and all candidates behind it; empty if none of the ids is cached."""
        first = min((self._by_id[job_id].sequence for job_id in ids if job_id in self._by_id), default=math.inf)
        return (
            candidate.job_id
            for candidate in islice(self._candidates, bisect_left(self._candidates, first, key=_sequence), None)
        )

    def extend(self, page: Collection[Candidate], *, until: float) -> None:
        """Add all waiting jobs from the old `until` to the new one."""
        self._candidates += page
        self._by_id |= {candidate.job_id: candidate for candidate in page}
        self.until = until

    def apply(self, job: Job) -> bool:
        """Apply a saved job of this queue. Returns whether it is in the front now."""
        known = self._by_id.get(job.id)
        waits = is_queued_for_placement(job) and job.sequence <= self.until
        if waits and known is None:
            self._by_id[job.id] = candidate_of_job(job)
            insort(self._candidates, self._by_id[job.id], key=_sequence)
        elif known is not None and not waits:
            del self._by_id[job.id], self._candidates[bisect_left(self._candidates, known.sequence, key=_sequence)]
        return waits

    def shorten(self) -> list[Candidate]:
        """Shorten the front if it is too long. Returns the candidates that were removed."""
        if len(self._candidates) <= MAX_CANDIDATES:
            return []
        removed, self._candidates = self._candidates[MAX_CANDIDATES // 2 :], self._candidates[: MAX_CANDIDATES // 2]
        self._by_id = {candidate.job_id: candidate for candidate in self._candidates}
        self.until = self._candidates[-1].sequence
        return removed


class QueueCache:
    """Caches the candidates of each queue, and the jobs of some of them. Use it only within a unit of work."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        #: The candidates of each queue.
        self.fronts: dict[QueueName, QueueFront] = {}
        #: Jobs at the front of a queue, as stored.
        self.cached_jobs: dict[JobId, Job] = {}
        #: The unfinished arrays that units of work have changed last, as stored.
        self.cached_arrays: dict[JobId, Job] = {}
        self.waiting_shares = store.waiting_shares
        self.runnable_in_share = store.runnable_in_share

    def clear(self) -> None:
        """Drop everything: the stored jobs may differ from the cache."""
        self.fronts = {}
        self.cached_jobs = {}
        self.cached_arrays = {}

    def invalidate(self, job_id: JobId) -> None:
        """Drop one job: its stored row may differ from the cache."""
        self.cached_jobs.pop(job_id, None)
        self.cached_arrays.pop(job_id, None)

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, excluding: Names = NONE
    ) -> tuple[Candidate, ...]:
        """The RUNNABLE jobs of a queue, as `QueueReader.runnable`."""
        front = self.fronts.setdefault(queue, QueueFront())
        if after > front.until:
            return await self._store.runnable(queue, limit, after, excluding=excluding)
        found = front.behind(after, limit, excluding)
        while len(found) < limit and front.until < math.inf:
            if excluding or len(front) >= MAX_CANDIDATES:  # the excluded accounts may have very many jobs there
                rest = limit - len(found)
                return found + await self._store.runnable(queue, rest, int(front.until), excluding=excluding)
            page = await self._store.runnable(queue, PAGE, int(front.until))
            front.extend(page, until=page[-1].sequence if len(page) == PAGE else math.inf)
            found = front.behind(after, limit, excluding)
        return found

    async def load_into(self, unit: UnitOfWork, ids: Iterable[JobId]) -> None:
        """Load those of these jobs that the unit of work has not loaded."""
        unknown = unit.not_loaded(ids)
        if unknown:
            unit.load((await self.jobs(sorted(unknown))).values())

    async def jobs(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """The jobs that exist. The jobs behind them in their queues are read too: they will be needed soon."""
        cached = self.cached_jobs, self.cached_arrays
        found = {job_id: jobs[job_id] for job_id in ids for jobs in cached if job_id in jobs}
        unknown = [job_id for job_id in ids if job_id not in found]
        if unknown:
            read = await self._store.jobs(list(dict.fromkeys((*unknown, *self._jobs_behind(unknown)))))
            for job in read.values():
                self._cache(job)
            found |= {job_id: read[job_id] for job_id in unknown if job_id in read}
            if any(self._is_contradicted(job_id, read.get(job_id)) for job_id in unknown):
                self.clear()
        return found

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            self.invalidate(job.id)
            if job.array_state is not None and job.status not in FINISHED:
                self._cache_array(job)
            front = self.fronts.get(job.spec.queue)
            if front is not None and (job.status is Status.RUNNABLE or job.id in front) and front.apply(job):
                self._cache(job)
                for candidate in front.shorten():
                    self.cached_jobs.pop(candidate.job_id, None)

    def _is_contradicted(self, job_id: JobId, job: Job | None) -> bool:
        """Whether the cache contains a job that does not wait in the store, for example because its row was damaged."""
        waits = job is not None and is_queued_for_placement(job)
        return not waits and any(job_id in front for front in self.fronts.values())

    def _jobs_behind(self, ids: Collection[JobId]) -> Iterator[JobId]:
        behind = (
            job_id
            for front in self.fronts.values()
            for job_id in front.from_first_of(ids)
            if job_id not in self.cached_jobs
        )
        return islice(behind, min(READ_AHEAD, MAX_JOBS - len(self.cached_jobs)))

    def _cache(self, job: Job) -> None:
        """Cache the job if it is in the front of its queue and there is space."""
        front = self.fronts.get(job.spec.queue)
        if front is not None and job.id in front and not is_damaged(job) and len(self.cached_jobs) < MAX_JOBS:
            self.cached_jobs[job.id] = job

    def _cache_array(self, job: Job) -> None:
        """Cache the array. If the cache is full, drop the array that was changed longest ago."""
        if len(self.cached_arrays) == MAX_CACHED_ARRAYS:
            del self.cached_arrays[next(iter(self.cached_arrays))]
        self.cached_arrays[job.id] = job
