"""The front of each queue's line, as it is stored: read ahead once, and followed from unit to unit.

Only units of work change which jobs wait, so what one has read or saved the next one need not read.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from operator import attrgetter

from batchq.domain.access.accounts import AccountName
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.lifecycle.damage import is_damaged
from batchq.domain.scheduling.capacity import Candidate, candidate, stands_in_line
from batchq.engine.unit_of_work import Committed
from batchq.ports.jobs import JobStore
from batchq.ports.queue import NONE, Names

PAGE = 64  # candidates that are read at once
MOST = 256  # of one line that are remembered
NEXT = 64  # jobs that are read at once: those asked for, and who comes after them
MOST_WHOLE = 1000  # jobs that are remembered

_order = attrgetter("order")


class Front:
    """All who stand in a line up to an order, `until`."""

    def __init__(self) -> None:
        self.until: float = -1
        self._line: list[Candidate] = []
        self._known: dict[JobId, Candidate] = {}

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._line)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._known

    def behind(self, after: int, limit: int, beside: Collection[AccountName]) -> tuple[Candidate, ...]:
        """The first of them above this order, at most so many."""
        first = bisect_right(self._line, after, key=_order)
        if not beside:
            return tuple(self._line[first : first + limit])
        line = islice(self._line, first, None)
        return tuple(islice((it for it in line if it.account not in beside), limit))

    def since(self, ids: Collection[JobId]) -> Iterator[JobId]:
        """The first of these and all behind it; nobody, if none of them stands here."""
        first = min((self._known[it].order for it in ids if it in self._known), default=math.inf)
        return (it.job_id for it in islice(self._line, bisect_left(self._line, first, key=_order), None))

    def extend(self, page: Collection[Candidate], *, until: float) -> None:
        """These are all from where it ended to here."""
        self._line += page
        self._known |= {it.job_id: it for it in page}
        self.until = until

    def follow(self, job: Job) -> bool:
        """A job of this queue has been saved. Whether it stands here now."""
        known = self._known.get(job.id)
        stands = stands_in_line(job) and job.order <= self.until
        if stands and known is None:
            self._known[job.id] = candidate(job)
            insort(self._line, self._known[job.id], key=_order)
        elif known is not None and not stands:
            del self._known[job.id], self._line[bisect_left(self._line, known.order, key=_order)]
        return stands

    def cut(self) -> list[Candidate]:
        """Forget the last where they are too many; who they are."""
        if len(self._line) <= MOST:
            return []
        over, self._line = self._line[MOST // 2 :], self._line[: MOST // 2]
        self._known = {it.job_id: it for it in self._line}
        self.until = self._line[-1].order
        return over


class Ahead:
    """Beside the candidates the jobs of some of them are remembered. To be asked within a unit of work only."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.fronts: dict[QueueName, Front] = {}
        self.whole: dict[JobId, Job] = {}
        self.waiting_shares = store.waiting_shares
        self.runnable_in_share = store.runnable_in_share

    def forget(self) -> None:
        """What is stored may be something else."""
        self.fronts = {}
        self.whole = {}

    def doubt(self, job_id: JobId) -> None:
        """What is stored of this job may be something else: read it again when it is asked for."""
        self.whole.pop(job_id, None)

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, beside: Names = NONE
    ) -> tuple[Candidate, ...]:
        """As a store does it."""
        front = self.fronts.setdefault(queue, Front())
        if after > front.until:
            return await self._store.runnable(queue, limit, after, beside=beside)
        found = front.behind(after, limit, beside)
        while len(found) < limit and front.until < math.inf:
            if beside or len(front) >= MOST:  # what those beside have there may be very much
                rest = limit - len(found)
                return found + await self._store.runnable(queue, rest, int(front.until), beside=beside)
            page = await self._store.runnable(queue, PAGE, int(front.until))
            front.extend(page, until=page[-1].order if len(page) == PAGE else math.inf)
            found = front.behind(after, limit, beside)
        return found

    async def jobs(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Those of them that exist. Who comes after them will be asked for soon, and is read with them."""
        found = {it: self.whole[it] for it in ids if it in self.whole}
        unknown = [it for it in ids if it not in found]
        if unknown:
            read = await self._store.jobs(list(dict.fromkeys((*unknown, *self._after(unknown)))))
            for job in read.values():
                self._remember(job)
            found |= {it: read[it] for it in unknown if it in read}
            if any(self._is_belied(it, read.get(it)) for it in unknown):
                self.forget()
        return found

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            self.whole.pop(job.id, None)
            front = self.fronts.get(job.spec.queue)
            if front is not None and front.follow(job):
                self._remember(job)
                for it in front.cut():
                    self.whole.pop(it.job_id, None)

    def _is_belied(self, job_id: JobId, job: Job | None) -> bool:
        """Whether one that stands in front does not in the store, as where its row was damaged after it was read."""
        stands = job is not None and stands_in_line(job)
        return not stands and any(job_id in front for front in self.fronts.values())

    def _after(self, ids: Collection[JobId]) -> Iterator[JobId]:
        behind = (it for front in self.fronts.values() for it in front.since(ids) if it not in self.whole)
        return islice(behind, min(NEXT, MOST_WHOLE - len(self.whole)))

    def _remember(self, job: Job) -> None:
        """Of those in front, as many as may be."""
        front = self.fronts.get(job.spec.queue)
        if front is not None and job.id in front and not is_damaged(job) and len(self.whole) < MOST_WHOLE:
            self.whole[job.id] = job
