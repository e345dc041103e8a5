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

    def update(self, transitions: Iterable[tuple[Status | None, Job]]) -> None:
        """Apply status changes: the status before (None: a new job), and the job with its new status."""
        for before, job in transitions:
            if before is not None:
                group = group_of(job, before)
                self._counts[group] -= 1
                if not self._counts[group]:  # queues and accounts come and go
                    del self._counts[group]
            if job.status not in FINISHED:
                self._counts[group_of(job, job.status)] += 1

    def read(self) -> Mapping[JobGroup, int]:
        """The present counts; groups without jobs are omitted."""
        return dict(self._counts)
