"""Resource usage of the active jobs, as running sums: a unit of work costs what it changes, not all jobs. Pure.

Jobs whose latest end is known, because they have a timeout or a stop order, are also listed one by one for backfill.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import EnvironmentName
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import ACTIVE, Job
from batchq.domain.scheduling.resources import Amounts, Dimension, demand

T = TypeVar("T")


class UsageSnapshot(Struct, frozen=True, kw_only=True):
    """The resources in use, including the changes of an unfinished unit of work."""

    sums: Mapping[Dimension, int]
    #: Thousandths of a vCPU in use, by account.
    accounts: Mapping[AccountName, int]
    #: The consumable resources that any active job needs.
    needed: Iterable[ConsumableName]
    #: The usage without those changes.
    base: "Usage"
    #: The jobs that the unit of work changed, as it leaves them.
    changed: Mapping[JobId, Job]

    def timed(self) -> Iterator[Job]:
        """The active jobs with a timeout or a stop order."""
        yield from (job for job_id, job in self.base.timed.items() if job_id not in self.changed)
        yield from (job for job in self.changed.values() if job.status in ACTIVE and _is_timed(job))


class Usage:
    """The resources that the active jobs hold, as last saved."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self.timed: dict[JobId, Job] = {}
        self._jobs: dict[JobId, Job] = {}
        self._sums: dict[Dimension, int] = {}
        self._accounts: dict[AccountName, int] = {}
        self._needed: dict[ConsumableName, int] = {}
        self.update(jobs)

    def update(self, jobs: Iterable[Job]) -> None:
        """Replace these jobs. A job that is not active holds nothing."""
        for job in jobs:
            if not self._concerns(job):
                continue
            self.timed.pop(job.id, None)
            _move(self._sums, self._accounts, self._needed, self._jobs.pop(job.id, None), job)
            if job.status in ACTIVE:
                self._jobs[job.id] = job
                if _is_timed(job):
                    self.timed[job.id] = job

    def after(self, jobs: Iterable[Job]) -> UsageSnapshot:
        """The usage with these jobs in place of the saved ones; nothing is stored."""
        changed = {job.id: job for job in jobs if self._concerns(job)}
        sums, accounts, needed = self._sums.copy(), self._accounts.copy(), self._needed.copy()
        for job in changed.values():
            _move(sums, accounts, needed, self._jobs.get(job.id), job)
        return UsageSnapshot(sums=sums, accounts=accounts, needed=needed, base=self, changed=changed)

    def _concerns(self, job: Job) -> bool:
        """Whether the job holds resources, or did as last saved."""
        return job.status in ACTIVE or job.id in self._jobs


def _held_by(job: Job) -> Amounts:
    """The resources that an active job holds on its environment."""
    assert job.attempt is not None, f"{job.id} holds room and has no attempt"
    return demand(job.spec.resources, job.spec.needs, EnvironmentName(job.attempt.environment))


def _holds_as(before: Job, after: Job) -> bool:
    """A cheap check for the common case that both versions hold the same. False if that is not certain."""
    if before.attempt is None or after.attempt is None or before.spec is not after.spec:
        return False
    return before.attempt.environment == after.attempt.environment


def _is_timed(job: Job) -> bool:
    return job.stop is not None or job.spec.timeout is not None


def _move(
    sums: dict[Dimension, int],
    accounts: dict[AccountName, int],
    needed: dict[ConsumableName, int],
    before: Job | None,
    after: Job,
) -> None:
    if before is not None and _holds_as(before, after):
        return
    for job, sign in ((before, -1), (after if after.status in ACTIVE else None, 1)):
        if job is not None:
            for of, amount in _held_by(job).items():
                _count(sums, of, sign * amount)
            _count(accounts, job.spec.owner.account, sign * job.spec.resources.millicpus)
            for need in job.spec.needs:
                _count(needed, need.resource, sign)


def _count(sums: dict[T, int], of: T, by: int) -> None:
    """Add to a sum, and remove it at zero: environments and resources are created and deleted all the time."""
    left = sums.get(of, 0) + by
    if left:
        sums[of] = left
    else:
        sums.pop(of, None)
