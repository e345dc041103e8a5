"""The room on each machine, and the machines on which a job is placed. Pure. Decision 0092.

A node of a job is placed on one machine: all its containers are there. Machines are tried in a fixed order, and a node
is placed on the first one with room (first fit). Those with few GPUs, little memory and few vCPUs come first, so that
the large ones stay free for large jobs. A gang is placed with all its nodes or not at all, the largest nodes first.

The search is a tree over the machines in this order. Each inner node has the largest free amount of its machines in
each dimension, so a search passes over whole groups of machines without room.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from batchq.domain.catalog import ComputeEnvironment, EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.ids import MachineName
from batchq.domain.machines import Machine, MachineSelection, machine_selection
from batchq.domain.task import NodeRun, total

#: Thousandths of a vCPU, MiB of memory, GPUs, and nodes of jobs.
Room = tuple[int, int, int, int]

Kept = Mapping[int, Room]
"""What a job must leave free, by the index of the machine."""

Pool = tuple[MachineSelection, ...]
"""Machines that the same compute environments select."""

NOTHING: Room = (0, 0, 0, 0)
SMALLEST: Room = (1, 1, 0, 1)
UNLIMITED = 2**48
WHOLE = 1_000_000  # the lack of a machine without anything that a node requests in one dimension
_CLOSED = -(2**60)  # the free amounts of a machine that takes no jobs, whatever ends there


def room_of(resources: Resources) -> Room:
    """The room that one node needs."""
    return resources.millicpus, resources.memory_mib, resources.gpus, 1


def plus(first: Room, second: Room) -> Room:
    """The sum in each dimension."""
    return first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3]


def minus(first: Room, second: Room) -> Room:
    """The difference in each dimension."""
    return first[0] - second[0], first[1] - second[1], first[2] - second[2], first[3] - second[3]


def covers(free: Room, demand: Room) -> bool:
    """Whether `free` is enough. A dimension that is not requested need not be free."""
    return not any(amount > 0 and amount > available for amount, available in zip(demand, free, strict=True))


def times_in(free: Room, demand: Room) -> int:
    """How many times `demand` fits."""
    return max(0, min(available // amount for amount, available in zip(demand, free, strict=True) if amount > 0))


def lack_of(free: Room, demand: Room) -> int:
    """How much is not free of what a node requests, as the sum of its parts in all dimensions."""
    return sum(
        (amount - available) * WHOLE // amount
        for amount, available in zip(demand, free, strict=True)
        if amount > 0 and available < amount
    )


class MachineSet:
    """The machines of the server in the order in which placement tries them, and the environments that select them.

    It does not change. The resources of each machine are those that jobs may reserve.
    """

    def __init__(self, machines: Iterable[Machine], environments: Iterable[ComputeEnvironment]) -> None:
        listed = list(machines)
        reserved = {machine.environment for machine in listed}
        selections = {environment.name: machine_selection(environment, reserved) for environment in environments}
        pool_of = _pool_of(listed, list(dict.fromkeys(selections.values())))
        #: In order; those of each pool are neighbours.
        self.machines = tuple(sorted(listed, key=lambda machine: _preference(machine, pool_of[machine.name])))
        #: The position of each machine.
        self.index = {machine.name: index for index, machine in enumerate(self.machines)}
        self.by_name = {machine.name: machine for machine in self.machines}
        #: What jobs may use of each machine.
        self.capacity = tuple(_capacity(machine) for machine in self.machines)
        #: The sum of what jobs may reserve of all machines, open or not.
        self.total = total(machine.resources for machine in self.machines)
        #: The container engine of environments that name no engine.
        self.first_engine = next((machine.engine for machine in listed if machine.is_of_first_engine), "")
        #: Whether the container engine has one machine, whose memory and GPUs are the only limits. Its jobs name no
        #: machine.
        self.is_one = len(self.machines) == 1 and _is_plain(self.machines[0])
        ranges: dict[Pool, range] = {}
        for index, machine in enumerate(self.machines):
            known = ranges.get(pool_of[machine.name])
            ranges[pool_of[machine.name]] = range(known.start if known else index, index + 1)
        #: The number of the pool of each machine.
        self.pool_numbers = tuple([number for number, each in enumerate(ranges.values()) for _ in each])
        self._pools = {
            name: [(number, each) for number, (pool, each) in enumerate(ranges.items()) if selection in pool]
            for name, selection in selections.items()
        }
        unknown = [machine for machine in listed if machine.is_whole_engine]
        #: Whether the resources of some machines are not known.
        self.is_partly_unknown = bool(unknown)
        self._of_unknown_size = {name for name, each in selections.items() if any(map(each.includes, unknown))}
        self._millicpus: dict[EnvironmentName, int] = {}
        self._idle: FreeRooms | None = None

    def pools(self, environment: EnvironmentName) -> list[range]:
        """The machines that run jobs of the environment: those that fewer other environments select come first."""
        return [each for _, each in self._pools.get(environment, ())]

    def numbers(self, environment: EnvironmentName) -> list[int]:
        """The numbers of the pools of the environment."""
        return [number for number, _ in self._pools.get(environment, ())]

    def selected(self, environments: Iterable[EnvironmentName]) -> list[Machine]:
        """The machines that run jobs of these environments."""
        indexes = {index for name in environments for pool in self.pools(name) for index in pool}
        return [self.machines[index] for index in sorted(indexes)]

    def millicpus(self, environment: EnvironmentName) -> int:
        """The vCPUs of all machines that run jobs of the environment, in thousandths; UNLIMITED or more: no limit."""
        if environment not in self._millicpus:
            pools = self.pools(environment)
            self._millicpus[environment] = sum(self.capacity[index][0] for pool in pools for index in pool)
        return self._millicpus[environment]

    def could_hold(self, runs: Sequence[NodeRun], environment: EnvironmentName) -> bool:
        """Whether the machines, if they were all open and nothing else ran, could hold these nodes."""
        if self.is_one:
            return bool(self._pools.get(environment))
        if environment in self._of_unknown_size:
            return True
        if self._idle is None:
            self._idle = FreeRooms(self, {}, ignores_state=True)
        return self._idle.find(runs, environment, {}) is not None

    def names(self, indexes: Iterable[int]) -> tuple[MachineName, ...]:
        return tuple([self.machines[index].name for index in indexes])


class FreeRooms:
    """What is free on each machine. Machines that are not open have no room."""

    def __init__(self, machines: MachineSet, held: Mapping[MachineName, Room], *, ignores_state: bool = False) -> None:
        """`held`: what active jobs hold, by machine. `ignores_state`: whether all machines count as open."""
        self.machines = machines
        self._size = 1
        while self._size < len(machines.machines):
            self._size *= 2
        #: For each dimension, the largest amounts of the tree: its root has index 1, the first machine `_size`.
        self._amounts: tuple[list[int], ...] = tuple([_CLOSED] * (2 * self._size) for _ in NOTHING)
        #: The MiB of memory and the GPUs that are free on all open machines of each pool together.
        self._free_memory_mib, self._free_gpus = Counter[int](), Counter[int]()
        for index, machine in enumerate(machines.machines):
            if machine.is_open or ignores_state:
                free = minus(machines.capacity[index], held.get(machine.name, NOTHING))
                for amounts, amount in zip(self._amounts, free, strict=True):
                    amounts[self._size + index] = amount
                self._free_memory_mib[machines.pool_numbers[index]] += free[1]
                self._free_gpus[machines.pool_numbers[index]] += free[2]
        for amounts in self._amounts:
            for node in range(self._size - 1, 0, -1):
                amounts[node] = max(amounts[2 * node], amounts[2 * node + 1])

    def copy(self) -> "FreeRooms":
        """A copy that changes independently."""
        made = object.__new__(FreeRooms)
        made.machines, made._size = self.machines, self._size
        made._amounts = tuple([amounts.copy() for amounts in self._amounts])
        made._free_memory_mib, made._free_gpus = self._free_memory_mib.copy(), self._free_gpus.copy()
        return made

    def room(self, index: int) -> Room:
        """The free resources of a machine; negative if the machine is not open."""
        node = self._size + index
        millicpus, memory, gpus, nodes = self._amounts
        return millicpus[node], memory[node], gpus[node], nodes[node]

    def is_open(self, index: int) -> bool:
        """Whether jobs may be placed on the machine."""
        return self._amounts[3][self._size + index] > _CLOSED // 2

    def free_millicpus(self, environment: EnvironmentName) -> int:
        """The vCPUs that are free on all open machines of the environment together, in thousandths."""
        indexes = (index for pool in self.machines.pools(environment) for index in pool if self.is_open(index))
        return sum(self.room(index)[0] for index in indexes)

    def free_memory_and_gpus(self, environment: EnvironmentName | None = None) -> tuple[int, int]:
        """The MiB of memory and the GPUs that are free on all open machines of the environment; None: on all."""
        if environment is None:
            return self._free_memory_mib.total(), self._free_gpus.total()
        pools = self.machines.numbers(environment)
        return sum(self._free_memory_mib[pool] for pool in pools), sum(self._free_gpus[pool] for pool in pools)

    def add(self, index: int, change: Room) -> None:
        """Add to what is free on a machine; a negative amount is taken from it."""
        if self.is_open(index):
            self._free_memory_mib[self.machines.pool_numbers[index]] += change[1]
            self._free_gpus[self.machines.pool_numbers[index]] += change[2]
        for amounts, amount in zip(self._amounts, change, strict=True):
            if amount == 0:
                continue
            node = self._size + index
            amounts[node] += amount
            while node > 1:
                node >>= 1
                left, right = amounts[2 * node], amounts[2 * node + 1]
                largest = max(right, left)
                if amounts[node] == largest:
                    break
                amounts[node] = largest

    def find(self, runs: Sequence[NodeRun], environment: EnvironmentName, kept: Kept) -> tuple[int, ...] | None:
        """A machine for each node, by index in the order of the nodes; None: they do not all fit."""
        pools = self.machines.pools(environment)
        if len(runs) == 1 and runs[0].count == 1:
            index = self._first(room_of(runs[0].resources), pools, kept)
            return None if index is None else (index,)
        taken = dict(kept)
        chosen = [0] * sum(run.count for run in runs)
        for first, run in largest_first(runs):
            placed = first
            demand = room_of(run.resources)
            for index, count in self._share_out(demand, run.count, pools, taken):
                chosen[placed : placed + count] = [index] * count
                placed += count
            if placed < first + run.count:
                return None
        return tuple(chosen)

    def least_lacking(self, demand: Room, pool: range, kept: Kept) -> tuple[int, int] | None:
        """The least that an open machine of the pool lacks for one node, and the machine; None: it is too small.

        Written for speed: it visits all machines whenever another job becomes the first of its queue.
        """
        cpus, memory, gpus, nodes = self._amounts
        millicpus, mib, devices, _ = demand
        capacity = self.machines.capacity
        least, best = -_CLOSED, -1
        for index in pool:
            node = self._size + index
            lack = 0 if nodes[node] > 0 else (1 - nodes[node]) * WHOLE
            if cpus[node] < millicpus:
                lack += (millicpus - cpus[node]) * WHOLE // millicpus
            if memory[node] < mib:
                lack += (mib - memory[node]) * WHOLE // mib
            if devices and gpus[node] < devices:
                lack += (devices - gpus[node]) * WHOLE // devices
            if lack < least and index in kept:
                lack = lack_of(minus(self.room(index), kept[index]), demand)
            if lack < least and covers(capacity[index], demand) and self.is_open(index):
                least, best = lack, index
        return None if best < 0 else (least, best)

    def holds(self, demand: Mapping[int, Room], environment: EnvironmentName, kept: Kept) -> bool:
        """Whether each of these machines runs jobs of the environment and has the room."""
        pools = self.machines.pools(environment)
        return all(
            any(index in pool for pool in pools)
            and self.is_open(index)
            and covers(minus(self.room(index), kept.get(index, NOTHING)), room)
            for index, room in demand.items()
        )

    def has_room(self, environments: Iterable[EnvironmentName], kept: Kept) -> bool:
        """Whether the smallest possible job fits on a machine of one of these environments."""
        return any(self._first(SMALLEST, self.machines.pools(name), kept) is not None for name in environments)

    def _share_out(
        self, demand: Room, count: int, pools: Iterable[range], taken: dict[int, Room]
    ) -> Iterator[tuple[int, int]]:
        """Machines for `count` equal nodes, and how many each gets; fewer if not all fit. Adds them to `taken`."""
        for pool in pools:
            index = self._first_in(demand, pool, taken)
            while index is not None and count > 0:
                most = times_in(minus(self.room(index), taken.get(index, NOTHING)), demand)
                many = min(count, most)
                taken[index] = plus(taken.get(index, NOTHING), _times(demand, many))
                yield index, many
                count -= many
                index = self._first_in(demand, range(index + 1, pool.stop), taken)

    def _first(self, demand: Room, pools: Iterable[range], kept: Kept) -> int | None:
        """The first machine of the pools that has room beside what is kept free."""
        for pool in pools:
            index = self._first_in(demand, pool, kept)
            if index is not None:
                return index
        return None

    def _first_in(self, demand: Room, pool: range, kept: Kept) -> int | None:
        index = self._next(demand, pool.start) if pool else None
        while index is not None and index < pool.stop:
            if index not in kept or covers(minus(self.room(index), kept[index]), demand):
                return index
            index = self._next(demand, index + 1) if index + 1 < pool.stop else None
        return None

    def _next(self, demand: Room, start: int) -> int | None:
        """The first machine from `start` on that has room. A walk through the tree, from left to right."""
        cpus, memory, gpus, nodes = self._amounts
        millicpus, mib, devices, count = demand
        size = self._size
        node = size + start
        while True:
            # A dimension that is not requested need not be free: its amount may be negative on an open machine.
            if (
                nodes[node] >= count
                and (memory[node] >= mib or not mib)
                and (cpus[node] >= millicpus or not millicpus)
                and (gpus[node] >= devices or not devices)
            ):
                if node >= size:
                    return node - size
                node *= 2
                continue
            while node & 1:
                node >>= 1
            if node == 0:
                return None
            node += 1


def largest_first(runs: Sequence[NodeRun]) -> list[tuple[int, NodeRun]]:
    """The runs, each with the index of its first node, the largest nodes first."""
    firsts, first = [], 0
    for run in runs:
        firsts.append((first, run))
        first += run.count
    return sorted(firsts, key=lambda item: _size(item[1].resources), reverse=True)


def _times(room: Room, count: int) -> Room:
    return room[0] * count, room[1] * count, room[2] * count, room[3] * count


def _size(resources: Resources) -> tuple[int, int, int]:
    return resources.gpus, resources.memory_mib, resources.millicpus


def _pool_of(machines: Iterable[Machine], selections: Sequence[MachineSelection]) -> dict[MachineName, Pool]:
    """The selections that include each machine. They are compared once for machines with the same relevant labels."""
    keys = {key for selection in selections for key, _ in selection.labels}
    known: dict[tuple[object, ...], Pool] = {}
    pools = {}
    for machine in machines:
        labels = tuple([label for label in machine.labels if label[0] in keys])
        alike = (machine.engine, machine.is_of_first_engine, machine.is_whole_engine, machine.environment, labels)
        if alike not in known:
            known[alike] = tuple([selection for selection in selections if selection.includes(machine)])
        pools[machine.name] = known[alike]
    return pools


def _preference(machine: Machine, pool: Pool) -> tuple[int, str, tuple[int, int, int], str]:
    return len(pool), repr(pool), _size(machine.resources), machine.name


def _capacity(machine: Machine) -> Room:
    resources = machine.resources
    millicpus = resources.millicpus if machine.is_enforced else UNLIMITED
    nodes = UNLIMITED if machine.max_nodes is None else machine.max_nodes
    return millicpus, resources.memory_mib, resources.gpus, nodes


def _is_plain(machine: Machine) -> bool:
    return machine.is_open and not machine.is_enforced and machine.environment is None and machine.max_nodes is None
