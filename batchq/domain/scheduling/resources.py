"""Resources as vectors, and the resources that active jobs hold. Pure.

Dimensions: vCPUs of an environment or account, the host's memory and GPUs, consumable resources. A dimension's name is
the text that status reasons show to users. The usage is kept as running sums, so a unit of work costs what it changes,
not all jobs. Jobs whose latest end is known, because they have a timeout or a stop order, are also listed one by one
for backfill.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NewType, TypeVar

from msgspec import Struct

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import ConsumableResource, EnvironmentName, ResourceKind
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import ConsumableRequirement, Job

Dimension = NewType("Dimension", str)

#: Thousandths of a vCPU, MiB of memory, GPUs, or units, by dimension.
Amounts = Mapping[Dimension, int]

MEMORY, GPUS = Dimension("memory"), Dimension("GPUs")


def vcpus(environment: EnvironmentName) -> Dimension:
    """The vCPUs of a compute environment, in thousandths."""
    return Dimension(f"vCPUs of compute environment {environment}")


def vcpus_of(account: AccountName) -> Dimension:
    """The vCPUs that an account and all accounts below it may use over all environments."""
    return Dimension(f"vCPUs of account {account}")


def units(resource: ConsumableName) -> Dimension:
    """The units of a consumable resource."""
    return Dimension(f"consumable resource {resource}")


def demand(
    resources: Resources, needs: Iterable[ConsumableRequirement], environment: EnvironmentName
) -> dict[Dimension, int]:
    """What a job uses in each dimension on this environment, without dimensions that it does not use."""
    wanted = {vcpus(environment): resources.millicpus, MEMORY: resources.memory_mib, GPUS: resources.gpus}
    for need in needs:
        of = units(need.resource)
        wanted[of] = wanted.get(of, 0) + need.quantity
    return {of: amount for of, amount in wanted.items() if amount > 0}


def fits(wanted: Amounts, there: Amounts) -> bool:
    """Whether `there` has enough in each dimension of `wanted`; a dimension that `there` lacks counts as 0."""
    return not [of for of, amount in wanted.items() if amount > there.get(of, 0)]


def shortfalls(wanted: Amounts, there: Amounts) -> tuple[Dimension, ...]:
    """The dimensions in which `there` has less than `wanted`."""
    return tuple([of for of, amount in wanted.items() if amount > there.get(of, 0)])


class Stock(Struct, frozen=True, kw_only=True):
    """The units of a consumable resource that jobs may hold."""

    #: Units, without those that were used up.
    amount: int
    #: Whether a job returns its units when it ends.
    returns: bool


class Stocks(Mapping[ConsumableName, Stock]):
    """The stock of each consumable resource, computed on access: of thousands of resources, jobs need few.

    `used_up`: the units of NON_REPLENISHABLE resources that jobs have used.
    """

    def __init__(
        self, resources: Mapping[ConsumableName, ConsumableResource], used_up: Mapping[ConsumableName, int]
    ) -> None:
        self._resources = resources
        self._used_up = used_up

    def __getitem__(self, name: ConsumableName) -> Stock:
        """Never negative: a total may be set below what is used up already."""
        resource = self._resources[name]
        if resource.kind is ResourceKind.REPLENISHABLE:
            return Stock(amount=resource.total, returns=True)
        return Stock(amount=max(0, resource.total - self._used_up.get(name, 0)), returns=False)

    def __iter__(self) -> Iterator[ConsumableName]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


def newly_consumed(before: Job | None, after: Job) -> tuple[ConsumableRequirement, ...]:
    """The consumable resources that a change of a job takes: all that it requires if an attempt begins, else none."""
    if after.attempt is None or not after.spec.needs:
        return ()
    under_way = None if before is None or before.attempt is None else before.attempt.number
    return after.spec.needs if after.attempt.number != under_way else ()


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
        """The usage with these jobs in place of the saved ones. This object does not change."""
        changed = {job.id: job for job in jobs if self._concerns(job)}
        sums, accounts, needed = self._sums.copy(), self._accounts.copy(), self._needed.copy()
        for job in changed.values():
            _move(sums, accounts, needed, self._jobs.get(job.id), job)
        return UsageSnapshot(sums=sums, accounts=accounts, needed=needed, base=self, changed=changed)

    def _concerns(self, job: Job) -> bool:
        """Whether the job holds resources, or did as last saved."""
        return job.status in ACTIVE or job.id in self._jobs


def _holds_as(before: Job, after: Job) -> bool:
    """Whether both versions hold the same, by a cheap check for the common case. False if that is not certain."""
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
            assert job.attempt is not None, f"{job.id} is active and has no attempt"
            held = demand(job.spec.resources, job.spec.needs, EnvironmentName(job.attempt.environment))
            for of, amount in held.items():
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
