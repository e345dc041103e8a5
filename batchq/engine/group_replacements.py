"""Which finished jobs of a group the new jobs of a unit of work replace in its counts. Decision 0094.

The jobs that repeat one another are a line: a job, the jobs that repeat it, and those that repeat these. A new job of a
line replaces the newest job before it, if that has ended. So a line never replaces the same job twice, whichever of its
jobs a user repeats.
"""

from collections.abc import Iterable, Mapping, Sequence

from batchq.domain.enums import FINISHED
from batchq.domain.ids import GroupId, JobId, child_id, parent_of
from batchq.domain.job import Job
from batchq.domain.lifecycle import arrays
from batchq.domain.scheduling.fairshare import Change
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.jobs import JobStore


class _Lines:
    """The newest job of each line, with the new jobs of the unit of work so far."""

    def __init__(self, stored: Mapping[JobId, JobId]) -> None:
        #: By the id of a job, the newest stored job of its line.
        self._stored = stored
        #: By the id of a new job, the newest stored job of its line.
        self._lines: dict[JobId, JobId] = {}
        #: By the newest stored job of a line, the newest new one.
        self._newest: dict[JobId, JobId] = {}

    def newest(self, job_id: JobId) -> JobId:
        line = self._line(job_id)
        return self._newest.get(line, line)

    def add(self, new: Job, repeated: JobId) -> None:
        line = self._line(repeated)
        self._lines[new.id] = line
        self._newest[line] = new.id

    def _line(self, job_id: JobId) -> JobId:
        stored = self._stored.get(job_id, job_id)
        return self._lines.get(stored, stored)


async def replaced_jobs(
    store: JobStore, unit: UnitOfWork, changed: Mapping[GroupId, Sequence[Change]]
) -> Mapping[GroupId, list[Job]]:
    """The finished jobs that new jobs of the same group replace, with the children of arrays.

    A child whose array was replaced with it is not replaced again.
    """
    new = [change.after for changes in changed.values() for change in changes if change.before is None]
    again = [(job, job.spec.rerun_of) for job in new if job.spec.rerun_of is not None and job.child is None]
    if not again:
        return {}
    lines = _Lines(await store.newest_of_lines(sorted(_with_arrays([repeated for _, repeated in again]))))
    found: dict[GroupId, list[Job]] = {}
    for job, repeated in sorted(again, key=lambda pair: pair[0].sequence):
        earlier_id = lines.newest(repeated)
        lines.add(job, repeated)
        array = parent_of(earlier_id)
        if array is not None and lines.newest(array[0]) != array[0]:
            continue
        earlier = unit.get(earlier_id) or (await store.jobs([earlier_id])).get(earlier_id)
        assert job.spec.group is not None, f"{job.id} is in no group"
        if earlier is not None and earlier.status in FINISHED and is_member(earlier, job.spec.group.id):
            children = await _children(store, earlier)
            found.setdefault(job.spec.group.id, []).extend((earlier, *children))
    return found


def is_member(job: Job, group_id: GroupId) -> bool:
    """Whether the job is in the group."""
    return job.spec.group is not None and job.spec.group.id == group_id


def _with_arrays(ids: Iterable[JobId]) -> set[JobId]:
    """The ids, and those of the arrays of children."""
    named = set(ids)
    return named | {parent[0] for parent in map(parent_of, named) if parent is not None}


async def _children(store: JobStore, job: Job) -> list[Job]:
    """The children of an array, without those that other jobs repeat: they have been replaced already."""
    if not arrays.is_parent(job):
        return []
    ids = [child_id(job.id, index) for index in range(arrays.size(job))]
    repeated = await store.reruns(ids)
    return [child for child in (await store.jobs(ids)).values() if child.id not in repeated]
