"""Resources as vectors, and the resources that active jobs hold. Pure.

Dimensions: vCPUs of an environment or account, the host's memory and GPUs, consumable resources. A dimension's name is
the text that status reasons show to users. The usage is kept as running sums, so a unit of work costs what it changes,
not all jobs. Jobs whose latest end is known, because they have a timeout or a stop order, are also listed one by one
for backfill.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NewType, TypeVar

from msgspec import Struct, field

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import ConsumableResource, EnvironmentName, ResourceKind
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE
from batchq.domain.ids import ConsumableName, JobId, MachineName
from batchq.domain.job import ConsumableRequirement, Job
from batchq.domain.machines import LOCAL
from batchq.domain.scheduling.machine_rooms import NOTHING, FreeRooms, MachineSet, Room, minus, plus, room_of

Dimension = NewType("Dimension", str)

#: Thousandths of a vCPU, MiB of memory, GPUs, or units, by dimension.
Amounts = Mapping[Dimension, int]

MAX_CACHED = 1024  # demands, and names of dimensions: the jobs of a definition request the same

MEMORY, GPUS = Dimension("memory"), Dimension("GPUs")


@lru_cache(maxsize=MAX_CACHED)
def vcpus(environment: EnvironmentName) -> Dimension:
    """The vCPUs of a compute environment, in thousandths."""
    return Dimension(f"vCPUs of compute environment {environment}")


def vcpus_of(account: AccountName) -> Dimension:
    """The vCPUs that an account and all accounts below it may use over all environments."""
    return Dimension(f"vCPUs of account {account}")


def units(resource: ConsumableName) -> Dimension:
    """The units of a consumable resource."""
    return Dimension(f"consumable resource {resource}")


@lru_cache(maxsize=MAX_CACHED)
def demand(resources: Resources, needs: tuple[ConsumableRequirement, ...], environment: EnvironmentName) -> Amounts:
    """What a job uses in each dimension on this environment, without dimensions that it does not use."""
    amounts = {vcpus(environment): resources.millicpus, MEMORY: resources.memory_mib, GPUS: resources.gpus}
    for need in needs:
        dimension = units(need.resource)
        amounts[dimension] = amounts.get(dimension, 0) + need.quantity
    return {dimension: amount for dimension, amount in amounts.items() if amount > 0}


def fits(amounts: Amounts, free: Amounts) -> bool:
    """Whether `free` has enough in each dimension of `amounts`; a dimension that `free` lacks counts as 0."""
    return not [dimension for dimension, amount in amounts.items() if amount > free.get(dimension, 0)]


def shortfalls(amounts: Amounts, free: Amounts) -> tuple[Dimension, ...]:
    """The dimensions in which `free` has less than `amounts`."""
    return tuple([dimension for dimension, amount in amounts.items() if amount > free.get(dimension, 0)])


def add_amounts(to: dict[Dimension, int], amounts: Amounts) -> None:
    """Add `amounts` to the sums in place."""
    for dimension, amount in amounts.items():
        to[dimension] = to.get(dimension, 0) + amount


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


class Held(Struct, frozen=True, kw_only=True):
    """Sums of what jobs hold. Sums of zero are left out: environments and resources are created and deleted often."""

    sums: dict[Dimension, int] = field(default_factory=dict)
    #: Thousandths of a vCPU in use, by account.
    accounts: dict[AccountName, int] = field(default_factory=dict)
    #: By consumable resource, how many active jobs need it.
    needed: dict[ConsumableName, int] = field(default_factory=dict)

    def copy(self) -> "Held":
        """A copy that changes independently."""
        return Held(sums=self.sums.copy(), accounts=self.accounts.copy(), needed=self.needed.copy())

    def move(self, before: Job | None, after: Job) -> dict[MachineName, Room]:
        """Replace what a job holds. Returns what the change takes on machines; what it returns there is negative."""
        rooms: dict[MachineName, Room] = {}
        if before is not None and _holds_as(before, after):
            return rooms
        for job, sign in ((before, -1), (after if after.status in ACTIVE else None, 1)):
            if job is not None:
                self._count(job, sign)
                for machine, room in held_rooms(job):
                    rooms[machine] = (plus if sign > 0 else minus)(rooms.get(machine, NOTHING), room)
        return rooms

    def _count(self, job: Job, sign: int) -> None:
        assert job.attempt is not None, f"{job.id} is active and has no attempt"
        resources = job.spec.nodes.resources
        held = demand(resources, job.spec.needs, EnvironmentName(job.attempt.environment))
        for dimension, amount in held.items():
            _count(self.sums, dimension, sign * amount)
        _count(self.accounts, job.spec.owner.account, sign * resources.millicpus)
        for need in job.spec.needs:
            _count(self.needed, need.resource, sign)


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
    #: What each of those changes takes on machines; what it returns there is negative.
    rooms: Sequence[Mapping[MachineName, Room]]

    def timed(self) -> Iterator[Job]:
        """The active jobs with a timeout or a stop order."""
        yield from (job for job_id, job in self.base.timed.items() if job_id not in self.changed)
        yield from (job for job in self.changed.values() if job.status in ACTIVE and _is_timed(job))

    def free_rooms(self, machines: MachineSet) -> FreeRooms:
        """What is free on each machine. The caller may change it."""
        free = self.base.free_rooms(machines).copy()
        for taken in self.rooms:
            _take(free, taken)
        return free

    def held(self) -> Mapping[MachineName, Room]:
        """What active jobs hold on each machine; without machines that have no job."""
        held = dict(self.base.rooms)
        for taken in self.rooms:
            for machine, room in taken.items():
                held[machine] = plus(held.get(machine, NOTHING), room)
        return held


class Usage:
    """The resources that the active jobs hold, as last saved."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self.timed: dict[JobId, Job] = {}
        self._jobs: dict[JobId, Job] = {}
        self._held = Held()
        #: What active jobs hold on each machine; without machines that have no job.
        self.rooms: dict[MachineName, Room] = {}
        #: What is free on the machines of the last call of `free_rooms`; None before the first call.
        self._free: FreeRooms | None = None
        self.update(jobs)

    def update(self, jobs: Iterable[Job]) -> None:
        """Replace these jobs. A job that is not active, and was not as last saved, holds nothing."""
        for job in jobs:
            if job.status not in ACTIVE and job.id not in self._jobs:
                continue
            self.timed.pop(job.id, None)
            taken = self._held.move(self._jobs.pop(job.id, None), job)
            if taken:
                self._take_rooms(taken)
            if job.status in ACTIVE:
                self._jobs[job.id] = job
                if _is_timed(job):
                    self.timed[job.id] = job

    def after(self, jobs: Iterable[Job]) -> UsageSnapshot:
        """The usage with these jobs in place of the saved ones. This object does not change."""
        held = self._held.copy()
        changed: dict[JobId, Job] = {}
        rooms: list[Mapping[MachineName, Room]] = []
        for job in jobs:
            if job.status in ACTIVE or job.id in self._jobs:
                changed[job.id] = job
                if taken := held.move(self._jobs.get(job.id), job):
                    rooms.append(taken)
        return UsageSnapshot(
            sums=held.sums,
            accounts=held.accounts,
            needed=held.needed,
            base=self,
            changed=changed,
            rooms=rooms,
        )

    def free_rooms(self, machines: MachineSet) -> FreeRooms:
        """What is free on each machine, as last saved. It changes with this object; the caller may not change it."""
        if self._free is None or self._free.machines is not machines:
            self._free = FreeRooms(machines, self.rooms)
        return self._free

    def _take_rooms(self, taken: Mapping[MachineName, Room]) -> None:
        for machine, room in taken.items():
            self.rooms[machine] = plus(self.rooms.get(machine, NOTHING), room)
            if self.rooms[machine] == NOTHING:
                del self.rooms[machine]
        if self._free is not None:
            _take(self._free, taken)


def _holds_as(before: Job, after: Job) -> bool:
    """Whether both versions hold the same, by a cheap check for the common case. False if that is not certain."""
    if before.attempt is None or after.attempt is None or before.spec is not after.spec:
        return False
    return before.attempt.number == after.attempt.number and before.attempt.environment == after.attempt.environment


def held_rooms(job: Job) -> Sequence[tuple[MachineName, Room]]:
    """What an active job holds on each of its machines. A node holds its room until the attempt ends.

    A container without a machine is on LOCAL.
    """
    assert job.attempt is not None, f"{job.id} is active and has no attempt"
    containers = job.attempt.containers
    first = containers[0].machine
    nodes = job.spec.nodes
    if nodes.count == 1 or first is None:
        return ((first or LOCAL, (*room_of(nodes.resources)[:3], nodes.count)),)
    of_node = {container.node: container.machine or LOCAL for container in containers}
    return tuple((machine, room_of(nodes.task(node).resources)) for node, machine in of_node.items())


def _is_timed(job: Job) -> bool:
    return job.spec.timeout is not None or (bool(job.stop_orders) and job.stop is not None)


def _take(free: FreeRooms, rooms: Mapping[MachineName, Room]) -> None:
    """Take what jobs hold from the free room. A machine may have left with its last jobs."""
    for machine, room in rooms.items():
        index = free.machines.index.get(machine)
        if index is not None:
            free.add(index, minus(NOTHING, room))


T = TypeVar("T")


def _count(sums: dict[T, int], key: T, by: int) -> None:
    """Add to a sum, and remove it at zero."""
    left = sums.get(key, 0) + by
    if left:
        sums[key] = left
    else:
        sums.pop(key, None)
