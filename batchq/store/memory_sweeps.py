"""Orders to stop many jobs, in memory: the same promises as `sweeping` keeps in SQL."""

from collections.abc import Iterator, Mapping

from batchq.domain.bulk_stop import (
    WHOLE,
    Meant,
    Progress,
    Selection,
    Sketch,
    Sweep,
    Target,
    has_children,
)
from batchq.domain.ids import JobId
from batchq.domain.intervals import merged
from batchq.domain.job import Job
from batchq.ports.jobs import Changes
from batchq.store.matching import meant


class MemorySweeps:
    """`jobs` are those of the store, as they are at any time."""

    def __init__(self, jobs: Mapping[JobId, Job]) -> None:
        self._jobs = jobs
        self._sweeps: dict[int, Sweep] = {}
        self._meant: dict[int, dict[Target, JobId]] = {}

    def commit(self, changes: Changes) -> None:
        for progress in changes.progress:
            self._go_on(progress)
        for sweep, selection in changes.sweeps:
            self._sweeps[sweep.number] = sweep
            chosen, candidates = self.chosen(selection), dict(changes.candidates).get(sweep.number)
            if candidates is not None:
                read = {it for it in candidates.places if it[0] not in candidates.changed}
                read |= {it for it in chosen if it[0] in candidates.changed}
                orders = {job.order: job for job in self._jobs.values()}
                chosen = {it: orders[it[0]] for it in sorted(read)}
            self._meant[sweep.number] = {place: job.id for place, job in chosen.items()}

    def under_way(self) -> tuple[Sweep, ...]:
        return tuple(self._sweeps[number] for number in sorted(self._sweeps))

    def orders(self, sweep: int) -> tuple[tuple[int, int], ...]:
        jobs = (self._jobs[it] for it in dict.fromkeys(self._left(sweep).values()))
        return tuple(merged((job.order, job.order + (0 if job.child else job.spec.array_size or 0)) for job in jobs))

    def next(self, sweep: int, limit: int) -> tuple[Meant, ...]:
        left = list(self._left(sweep).items())[::-1][:limit]
        return tuple(Meant(job=self._jobs[job_id], node=_said(node)) for (_, node), job_id in left)

    def preview(self, selection: Selection, limit: int, after: tuple[int, int | None] | None) -> tuple[Sketch, ...]:
        chosen = self.chosen(selection)
        behind = [it for it in chosen if after is None or it > (after[0], _key(after[1]))]
        return tuple(
            Sketch(
                place=(order, _said(node)),
                job_id=job.id,
                name=job.spec.name,
                status=job.status,
                has_children=has_children(job),
            )
            for order, node in behind[:limit]
            for job in (chosen[order, node],)
        )

    def chosen(self, selection: Selection) -> dict[Target, Job]:
        """By their places, ascending."""
        found = {
            (job.order, node): job
            for job, node in self._looked_at(selection)
            if meant(job, selection) and not (selection.by_child and has_children(job))
        }
        return {place: found[place] for place in sorted(found)}

    def _left(self, sweep: int) -> Mapping[Target, JobId]:
        """But for those that were over, and are forgotten."""
        return {place: it for place, it in self._meant.get(sweep, {}).items() if it in self._jobs}

    def _looked_at(self, selection: Selection) -> Iterator[tuple[Job, int]]:
        if selection.members is None:
            yield from ((job, WHOLE) for job in self._jobs.values() if selection.by_child or job.child is None)
            return
        named = {job_id for job_id, _ in selection.members}
        yield from ((self._jobs[it], _key(node)) for it, node in selection.members if it in self._jobs)
        if selection.by_child:
            children = (it for it in self._jobs.values() if it.child is not None and it.child.parent in named)
            yield from ((it, WHOLE) for it in children)

    def _go_on(self, progress: Progress) -> None:
        left = self._meant[progress.sweep]
        told = (progress.order, _key(progress.node))
        self._meant[progress.sweep] = {place: job_id for place, job_id in left.items() if place < told}
        if progress.over:
            del self._meant[progress.sweep], self._sweeps[progress.sweep]


def _key(node: int | None) -> int:
    return WHOLE if node is None else node


def _said(node: int) -> int | None:
    return None if node == WHOLE else node
