"""Jobs in memory by what is asked for: sorted, so that an answer costs what it has, not what is there."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.arrays import at_work

Group = tuple[str, ...]
Key = tuple[int, int]  # within a group: rank, then order

AT_WORK: Group = ("at work",)
MISFITS: Group = ("misfits",)
BEFORE_ALL: Key = (-(2**63), -1)


def of_status(status: Status) -> Group:
    return ("status", status)


def of_queue(queue: str) -> Group:
    return ("queue", queue)


def of_share(queue: str, share: str) -> Group:
    return ("share", queue, share)


class Index:
    """Each job is in every group it belongs to, as long as it does."""

    def __init__(self) -> None:
        self._groups: dict[Group, list[Key]] = {}

    def put(self, before: Job | None, after: Job) -> None:
        old = set() if before is None else set(_places(before))
        new = set(_places(after))
        for group, key in old - new:
            self._drop(group, key)
        for group, key in new - old:
            insort(self._groups.setdefault(group, []), key)

    def remove(self, job: Job) -> None:
        for group, key in _places(job):
            self._drop(group, key)

    def orders(self, group: Group, after: Key = BEFORE_ALL) -> Iterator[int]:
        """Of the jobs of a group beyond a key."""
        keys = self._groups.get(group, [])
        return (keys[at][1] for at in range(bisect_right(keys, after), len(keys)))

    def shares(self, queue: str) -> tuple[str, ...]:
        """Those of a queue that anything waits in."""
        return tuple(sorted(group[2] for group in self._groups if group[:2] == of_share(queue, "")[:2]))

    def _drop(self, group: Group, key: Key) -> None:
        keys = self._groups[group]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._groups[group]


def _places(job: Job) -> Iterator[tuple[Group, Key]]:
    in_order = (0, job.order)
    yield of_status(job.status), in_order
    if at_work(job):
        yield AT_WORK, in_order
    if job.status is Status.RUNNABLE and job.misfit:
        yield MISFITS, in_order
    if job.status is Status.RUNNABLE and not job.misfit:
        yield of_queue(job.spec.queue), in_order
        if job.spec.share_identifier is not None:
            rank = -(job.spec.scheduling_priority or 0)
            yield of_share(job.spec.queue, job.spec.share_identifier), (rank, job.order)
