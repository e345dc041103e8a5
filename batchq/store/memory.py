"""Jobs in memory, beside the catalog: both stores' promises but durability. For the pretended world."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Reach
from batchq.domain.bulk_stop import Meant, Selection, Sketch, Sweep, Target
from batchq.domain.ids import ConsumableName, JobId, QueueName, child_id, stream_name
from batchq.domain.job import ACTIVE, FINISHED, Job, tags
from batchq.domain.lifecycle.clock_shift import ClockShift, has_decisive_times, shifted
from batchq.domain.scheduling.capacity import Candidate, candidate
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.scheduling.quotas import queued
from batchq.errors import Conflict
from batchq.ports.catalog import NeedQuery
from batchq.ports.clock import ClockAnchor
from batchq.ports.jobs import (
    Age,
    Changes,
    ChildQuery,
    Finished,
    JobQuery,
    Moment,
    Pruned,
    Restoration,
    SubmissionKey,
)
from batchq.ports.logs import LogStream
from batchq.ports.queue import NONE, Names, Rank
from batchq.store import memory_pruning
from batchq.store.matching import child_counts_as, matches, needs, reached
from batchq.store.memory_catalog import MemoryCatalog
from batchq.store.memory_index import (
    AT_WORK,
    BEFORE_ALL,
    MISFITS,
    Group,
    Index,
    Key,
    of_queue,
    of_share,
    of_status,
)
from batchq.store.memory_sweeps import MemorySweeps


class MemoryStore(MemoryCatalog):
    """JobStore and CatalogStore. While `failing`, no write is taken: each raises StoreFailed."""

    def __init__(self) -> None:
        super().__init__()
        self.instance = "memory"
        self._jobs: dict[JobId, Job] = {}
        self._ids: dict[int, JobId] = {}
        self._index = Index()
        self._waiting: dict[JobId, set[JobId]] = {}
        self._history: dict[JobId, list[Moment]] = {}
        self._ended: dict[JobId, datetime] = {}
        self._discarded: dict[str, None] = {}
        self._submissions: dict[SubmissionKey, tuple[JobId, datetime]] = {}
        self._streams: dict[str, LogStream] = {}
        self._shares: dict[ShareKey, ShareUse] = {}
        self._used_up: dict[ConsumableName, int] = {}
        self._restoration = Restoration()
        self._clock_anchor: ClockAnchor | None = None
        self._engine_id: str | None = None
        self._sweeps = MemorySweeps(self._jobs)

    async def close(self) -> None: ...

    async def check(self) -> None: ...

    # ---------------------------------------------------------------------------------------------------------- jobs

    async def commit(self, changes: Changes) -> None:
        self._check_writable()
        self._check_versions(changes)
        self._submissions = self._remembered(changes.forget_before)
        for job in changes.inserted:
            self._save(job)
        for job in changes.updated:
            self._save(replace(job, version=job.version + 1))
        for moment in changes.history:
            self._history.setdefault(moment.job_id, []).append(moment)
            if moment.status in FINISHED:
                self._ended[moment.job_id] = moment.at
        for key, job_id, at in changes.submissions:
            self._submissions[key] = (job_id, at)
        for stream in changes.streams:
            self._streams.setdefault(stream.name, stream)
        self._shares.update(changes.shares)
        self._used_up.update(changes.used_up)
        self._sweeps.commit(changes)
        self._done.insert(changes.acts)
        if changes.restoration is not None:
            self._restoration = changes.restoration
        if changes.engine_id is not None:
            self._engine_id = changes.engine_id

    async def jobs(self, ids: Sequence[JobId], *, reach: Reach | None = None) -> Mapping[JobId, Job]:
        found = (self._jobs[job_id] for job_id in ids if job_id in self._jobs)
        return {job.id: job for job in found if reached(job.spec.owner, reach)}

    async def active(self) -> tuple[Job, ...]:
        return tuple(job for status in sorted(ACTIVE) for job in self._in(of_status(status)))

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, beside: Names = NONE
    ) -> tuple[Candidate, ...]:
        return _candidates(self._in(of_queue(queue), (0, after)), limit, beside)

    async def runnable_in_share(
        self, queue: QueueName, share: str, limit: int, after: Rank | None = None, *, beside: Names = NONE
    ) -> tuple[Candidate, ...]:
        group = of_share(queue, share)
        waiting = self._in(group) if after is None else self._in(group, (-after[0], after[1]))
        return _candidates(waiting, limit, beside)

    async def waiting_shares(self, queue: QueueName) -> tuple[str, ...]:
        return self._index.shares(queue)

    async def misfits(self, limit: int, after: int = -1) -> tuple[Job, ...]:
        return tuple(islice(self._in(MISFITS, (0, after)), limit))

    async def dependents(self, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None) -> tuple[Job, ...]:
        waiting = {by for job_id in ids for by in self._waiting.get(job_id, ())}
        found = sorted((self._jobs[job_id] for job_id in waiting), key=_order)
        return tuple([it for it in found if it.order > after][:limit])

    async def ended_dependencies(self) -> tuple[JobId, ...]:
        known = [job_id for job_id, by in self._waiting.items() if by and job_id in self._jobs]
        return tuple(sorted(it for it in known if self._jobs[it].status in FINISHED or self._jobs[it].spec.array_size))

    async def waiting_for_others(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def parents_at_work(self) -> tuple[Job, ...]:
        return tuple(self._in(AT_WORK))

    async def children(self, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
        asked = range(max(first, 0), max(first, 0) + limit)
        return tuple(job for job in self._children(parent, asked) if job.status not in FINISHED)

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        below = (it for it in self._children(query.parent) if query.before is None or it.order < query.before)
        found = [it for it in below if query.status in {None, child_counts_as(it, query)}]
        return tuple(found[::-1][: query.limit])

    async def shares(self) -> Mapping[ShareKey, ShareUse]:
        return dict(self._shares)

    async def used_up(self) -> Mapping[ConsumableName, int]:
        return dict(self._used_up)

    async def clock_anchor(self) -> ClockAnchor | None:
        return self._clock_anchor

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        self._check_writable()
        self._clock_anchor = anchor
        if shift is not None:
            self._shift(shift)

    async def restoration(self) -> Restoration:
        return self._restoration

    async def engine_id(self) -> str | None:
        return self._engine_id

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        return {key: self._submissions[key][0] for key in keys if key in self._submissions}

    async def last_order(self) -> int:
        if not self._ids:
            return -1
        newest = self._job(max(self._ids))
        own = newest if newest.child is None else self._jobs[newest.child.parent]
        return own.order + (own.spec.array_size or 0)

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        return _newest((job for job in self._jobs.values() if matches(job, query)), query.limit)

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        return _newest((job for job in self._jobs.values() if needs(job, query)), query.limit)

    async def unfinished_in(self, queue: QueueName) -> int:
        own = (job for job in self._jobs.values() if job.spec.queue == queue and job.child is None)
        return sum(job.status not in FINISHED for job in own)

    async def queued(self) -> Mapping[AccountName, int]:
        found: Counter[AccountName] = Counter()
        for job in self._jobs.values():
            found[job.spec.owner.account] += queued(job)
        return found

    async def damaged(self) -> tuple[JobId, ...]:
        """What is in memory is not damaged."""
        return ()

    async def sweeps(self) -> tuple[Sweep, ...]:
        return self._sweeps.under_way()

    async def meant_orders(self, sweep: int) -> Sequence[tuple[int, int]]:
        return self._sweeps.orders(sweep)

    async def next_meant(self, sweep: int, limit: int) -> tuple[Meant, ...]:
        return self._sweeps.next(sweep, limit)

    async def candidates(self, selection: Selection) -> tuple[Target, ...]:
        return tuple(self._sweeps.chosen(selection))

    async def preview(
        self, selection: Selection, limit: int, after: tuple[int, int | None] | None = None
    ) -> tuple[Sketch, ...]:
        return self._sweeps.preview(selection, limit, after)

    async def history(self, job_id: JobId) -> tuple[Moment, ...]:
        return tuple(self._history.get(job_id, ()))

    async def stream(self, name: str) -> LogStream | None:
        return self._streams.get(name)

    async def streams(
        self, *, prefix: str = "", after: str = "", limit: int = 50, reach: Reach | None = None
    ) -> tuple[LogStream, ...]:
        theirs = (it for it in self._streams.values() if reached(it.owner, reach))
        found = (it for it in theirs if it.name.startswith(prefix) and it.name > after)
        return tuple(sorted(found, key=lambda stream: stream.name)[:limit])

    async def newest_streams(
        self, *, limit: int = 50, before: Age | None = None, reach: Reach | None = None
    ) -> tuple[LogStream, ...]:
        theirs = (it for it in self._streams.values() if reached(it.owner, reach))
        newest_first = sorted(theirs, key=lambda it: (it.created_at, it.name), reverse=True)
        return tuple([it for it in newest_first if before is None or (it.created_at, it.name) < before][:limit])

    async def prune(
        self, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
    ) -> Pruned:
        self._check_writable()
        self._submissions = self._remembered(before)
        waited_for = [on_id for on_id, waiting in self._waiting.items() if waiting]
        chosen = memory_pruning.choose(
            self._jobs, self._ended, before=before, keep=keep, waited_for=waited_for, after=after, limit=limit
        )
        for job in chosen.jobs:
            self._drop(job)
        return chosen.pruned

    async def discarded(self, limit: int) -> tuple[str, ...]:
        return tuple(islice(self._discarded, limit))

    async def forget_discarded(self, log_ids: Sequence[str]) -> None:
        self._check_writable()
        for log_id in log_ids:
            self._discarded.pop(log_id, None)

    async def prune_shares(self, before: datetime, *, after: ShareKey | None = None, limit: int) -> ShareKey | None:
        self._check_writable()
        page = sorted(key for key in self._shares if after is None or key > after)[:limit]
        for key in page:
            use = self._shares[key]
            if use.active == 0 and use.millicpus == 0 and use.as_of < before:
                del self._shares[key]
        return page[-1] if len(page) == limit else None

    # --------------------------------------------------------------------------------------------------------- inside

    def _check_versions(self, changes: Changes) -> None:
        new = {job.id for job in changes.inserted}
        for job in changes.inserted:
            if job.id in self._jobs or job.order in self._ids:
                raise Conflict(f"job {job.id} or its order {job.order} is there already")
            if job.child is not None and job.child.parent not in self._jobs and job.child.parent not in new:
                raise Conflict(f"the array of {job.id} is not there")
        for job in changes.updated:
            known = self._jobs.get(job.id)
            if known is None or known.version != job.version:
                raise Conflict(f"job {job.id} is not at version {job.version}")
        remembered = self._remembered(changes.forget_before)
        for key, job_id, _ in changes.submissions:
            if key in remembered:
                raise Conflict(f"the submission of {job_id} is remembered already")

    def _shift(self, shift: ClockShift) -> None:
        for job in [it for it in self._jobs.values() if has_decisive_times(it)]:
            self._save(shifted(job, shift))
        self._ended = {job_id: shift.of(at) for job_id, at in self._ended.items()}
        self._submissions = {key: (job_id, shift.of(at)) for key, (job_id, at) in self._submissions.items()}
        self._shares = {key: replace(use, as_of=shift.of(use.as_of)) for key, use in self._shares.items()}
        self._shift_catalog(shift)

    def _save(self, job: Job) -> None:
        self._index.put(self._jobs.get(job.id), job)
        self._jobs[job.id] = job
        self._ids[job.order] = job.id
        for on_id in waits_for(job):
            if waits(job):
                self._waiting.setdefault(on_id, set()).add(job.id)
            else:
                self._waiting.get(on_id, set()).discard(job.id)

    def _drop(self, job: Job) -> None:
        self._index.remove(job)
        del self._jobs[job.id], self._ids[job.order], self._ended[job.id]
        self._history.pop(job.id, None)
        for tag in tags(job):
            self._streams.pop(stream_name(job.spec.definition.name, tag), None)
            self._discarded[tag.log_id] = None

    def _remembered(self, since: datetime | None) -> dict[SubmissionKey, tuple[JobId, datetime]]:
        """All if it is None."""
        return {key: it for key, it in self._submissions.items() if since is None or it[1] >= since}

    def _job(self, order: int) -> Job:
        return self._jobs[self._ids[order]]

    def _in(self, group: Group, after: Key = BEFORE_ALL) -> Iterator[Job]:
        return map(self._job, self._index.orders(group, after))

    def _children(self, parent: JobId, asked: range | None = None) -> Iterator[Job]:
        """By index, as far as they are there."""
        array = self._jobs.get(parent)
        size = 0 if array is None or array.child is not None else array.spec.array_size or 0
        indices = range(size) if asked is None else range(size)[asked.start : asked.stop]
        ids = (child_id(parent, index) for index in indices)
        return (self._jobs[it] for it in ids if it in self._jobs)


def _candidates(jobs: Iterable[Job], limit: int, beside: frozenset[AccountName]) -> tuple[Candidate, ...]:
    return tuple(map(candidate, islice((it for it in jobs if it.spec.owner.account not in beside), limit)))


def _order(job: Job) -> int:
    return job.order


def _newest(jobs: Iterable[Job], limit: int) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=_order, reverse=True)[:limit])
