"""Jobs in memory, beside the catalog: both stores' promises but durability. For the pretended world."""

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from batchq.domain.dependencies import waits_for
from batchq.domain.job import ACTIVE, FINISHED, Job, Status
from batchq.domain.names import JobId, QueueName
from batchq.domain.placement import Candidate
from batchq.errors import Conflict
from batchq.store.matching import matches
from batchq.store.memory_catalog import MemoryCatalog
from batchq.values import Changes, JobQuery, LogStream, Moment, SubmissionKey


class MemoryStore(MemoryCatalog):
    """JobStore and CatalogStore. While `failing`, no write is taken: each raises StoreFailed."""

    def __init__(self) -> None:
        super().__init__()
        self.instance = "memory"
        self._jobs: dict[JobId, Job] = {}
        self._ids: dict[int, JobId] = {}
        self._orders: dict[Status, list[int]] = {status: [] for status in Status}
        self._waiting: dict[JobId, set[JobId]] = {}
        self._history: dict[JobId, list[Moment]] = {}
        self._submissions: dict[SubmissionKey, tuple[JobId, datetime]] = {}
        self._streams: dict[str, LogStream] = {}

    async def close(self) -> None: ...

    # ---------------------------------------------------------------------------------------------------------- jobs

    async def commit(self, changes: Changes) -> None:
        self._check_writable()
        self._check_versions(changes)
        for job in changes.inserted:
            self._save(job)
        for job in changes.updated:
            self._save(replace(job, version=job.version + 1))
        for moment in changes.history:
            self._history.setdefault(moment.job_id, []).append(moment)
        for key, job_id, at in changes.submissions:
            self._submissions[key] = (job_id, at)
        for stream in changes.streams:
            self._streams.setdefault(stream.name, stream)
        if changes.forget_before is not None:
            self._forget(changes.forget_before)

    async def jobs(self, ids: Sequence[JobId]) -> Mapping[JobId, Job]:
        return {job_id: self._jobs[job_id] for job_id in ids if job_id in self._jobs}

    async def active(self) -> tuple[Job, ...]:
        return tuple(job for status in sorted(ACTIVE) for job in self._in(status))

    async def runnable(self, queue: QueueName, limit: int, after: int = -1) -> tuple[Candidate, ...]:
        fitting = (job for job in self._in(Status.RUNNABLE, after) if job.spec.queue == queue and not job.misfit)
        return tuple(_candidate(job) for job in islice(fitting, limit))

    async def misfits(self, limit: int, after: int = -1) -> tuple[Job, ...]:
        return tuple(islice((job for job in self._in(Status.RUNNABLE, after) if job.misfit), limit))

    async def dependents(self, ids: Sequence[JobId]) -> tuple[Job, ...]:
        waiting = {by for job_id in ids for by in self._waiting.get(job_id, ())}
        return tuple(sorted((self._jobs[job_id] for job_id in waiting), key=_order))

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        return {key: self._submissions[key][0] for key in keys if key in self._submissions}

    async def last_order(self) -> int:
        return max(self._ids, default=-1)

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        found = sorted((job for job in self._jobs.values() if matches(job, query)), key=_order, reverse=True)
        return tuple(found[: query.limit])

    async def unfinished_in(self, queue: QueueName) -> int:
        return sum(job.spec.queue == queue and job.status not in FINISHED for job in self._jobs.values())

    async def history(self, job_id: JobId) -> tuple[Moment, ...]:
        return tuple(self._history.get(job_id, ()))

    async def stream(self, name: str) -> LogStream | None:
        return self._streams.get(name)

    async def streams(self, *, prefix: str = "", after: str = "", limit: int = 50) -> tuple[LogStream, ...]:
        names = sorted(name for name in self._streams if name.startswith(prefix) and name > after)
        return tuple(self._streams[name] for name in names[:limit])

    async def newest_streams(self, *, limit: int = 50, offset: int = 0) -> tuple[LogStream, ...]:
        oldest_first = sorted(self._streams.values(), key=lambda stream: stream.created_at)
        return tuple(oldest_first[::-1][offset : offset + limit])

    # --------------------------------------------------------------------------------------------------------- inside

    def _check_versions(self, changes: Changes) -> None:
        for job in changes.inserted:
            if job.id in self._jobs or job.order in self._ids:
                raise Conflict(f"job {job.id} or its order {job.order} is there already")
        for job in changes.updated:
            known = self._jobs.get(job.id)
            if known is None or known.version != job.version:
                raise Conflict(f"job {job.id} is not at version {job.version}")
        for key, job_id, _ in changes.submissions:
            if key in self._submissions:
                raise Conflict(f"the submission of {job_id} is remembered already")

    def _save(self, job: Job) -> None:
        known = self._jobs.get(job.id)
        if known is not None:
            self._orders[known.status].remove(known.order)
        self._jobs[job.id] = job
        self._ids[job.order] = job.id
        insort(self._orders[job.status], job.order)
        for on_id in waits_for(job):
            if job.status in {Status.SUBMITTED, Status.PENDING}:
                self._waiting.setdefault(on_id, set()).add(job.id)
            else:
                self._waiting.get(on_id, set()).discard(job.id)

    def _forget(self, before: datetime) -> None:
        self._submissions = {key: (job_id, at) for key, (job_id, at) in self._submissions.items() if at >= before}

    def _job(self, order: int) -> Job:
        return self._jobs[self._ids[order]]

    def _in(self, status: Status, after: int = -1) -> Iterator[Job]:
        orders = self._orders[status]
        return map(self._job, orders[bisect_right(orders, after) :])


def _order(job: Job) -> int:
    return job.order


def _candidate(job: Job) -> Candidate:
    return Candidate(job_id=job.id, order=job.order, resources=job.spec.container.resources)
