"""How many unfinished jobs there are, by queue, account, user and status. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from batchq.domain.access.accounts import AccountName, UserName
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import QueueName
from batchq.domain.job import Job


class JobGroup(NamedTuple):
    """The jobs that are counted together."""

    queue: QueueName
    account: AccountName
    user: UserName
    status: Status
    #: Whether they are arrays, which run nothing themselves. The children of arrays are counted like single jobs.
    array: bool


def group_of(job: Job, status: Status) -> JobGroup:
    """The group of the job while it has this status."""
    owner = job.spec.owner
    return JobGroup(
        queue=job.spec.queue,
        account=owner.account,
        user=owner.user,
        status=status,
        array=job.spec.array_size is not None and job.child is None,
    )


class JobCounts:
    """Counts of unfinished jobs: a unit of work costs what it changes, not all jobs."""

    def __init__(self, counts: Mapping[JobGroup, int]) -> None:
        self._counts = Counter(dict(counts))

    def update(self, changes: Iterable[tuple[Job | None, Job]]) -> None:
        """Apply changes of jobs: each job before the change (None: a new job) and after it."""
        for before, after in changes:
            if before is not None and before.status is after.status:
                continue
            if before is not None:
                group = group_of(before, before.status)
                self._counts[group] -= 1
                if not self._counts[group]:  # queues and accounts come and go
                    del self._counts[group]
            if after.status not in FINISHED:
                self._counts[group_of(after, after.status)] += 1

    def read(self) -> Mapping[JobGroup, int]:
        """The present counts; groups without jobs are omitted."""
        return dict(self._counts)
