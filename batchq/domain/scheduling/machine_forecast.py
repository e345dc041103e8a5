"""On which machines a waiting job will start, and when at the latest. Pure. Decision 0092.

If enough running jobs have a known end, the job will start on the machines that have room first, and the time is known.
Otherwise its machines are those that lack least when it begins to wait. They stay the same while the job waits: jobs
that start behind the waiting job never take what its machines lack, so it starts at the latest when all other jobs
there have ended. It starts earlier on any other machine that has room.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from operator import attrgetter

from msgspec import Struct

from batchq.domain.catalog import EnvironmentName
from batchq.domain.scheduling.backfill import Ending
from batchq.domain.scheduling.machine_rooms import (
    NOTHING,
    FreeRooms,
    Kept,
    Room,
    covers,
    lack_of,
    largest_first,
    minus,
    plus,
    room_of,
)
from batchq.domain.scheduling.resources import Amounts, Dimension, add_amounts, fits
from batchq.domain.task import NodeRun

_at = attrgetter("at")


class MachinePlan(Struct, frozen=True, kw_only=True):
    """The machines that are reserved for a waiting job."""

    #: The latest start there; None: not known.
    starts: datetime | None
    #: For each node the index of its machine; empty: no open machine could hold the job.
    machines: tuple[int, ...]


class Demand(Struct, frozen=True, kw_only=True):
    """What a waiting job requests, and what is free for it."""

    #: The nodes of the job.
    runs: Sequence[NodeRun]
    #: The demand beside machines in each environment that could hold the job.
    amounts: Mapping[EnvironmentName, Amounts]
    free: FreeRooms
    #: What is reserved on machines for other jobs.
    kept: Kept
    #: What is free in the other dimensions, beside what is reserved for other jobs.
    unreserved_amounts: Mapping[Dimension, int]

    @property
    def is_single(self) -> bool:
        return len(self.runs) == 1 and self.runs[0].count == 1

    def unreserved(self, index: int) -> Room:
        """What is free on a machine beside what is reserved for other jobs."""
        return minus(self.free.room(index), self.kept.get(index, NOTHING))


def plan_machines(demand: Demand, endings: Sequence[Ending], known: tuple[int, ...]) -> MachinePlan:
    """The machines to be reserved for the job.

    `endings`: the running jobs with a known latest end. `known`: the machines of the last plan for the job; empty: the
    job has none.
    """
    if endings:
        first = _first_single if demand.is_single else _first_gang
        found = first(demand, sorted(endings, key=_at))
        if found is not None:
            return found
    if known and all(demand.free.is_open(index) for index in known):
        return MachinePlan(starts=None, machines=known)
    return MachinePlan(starts=None, machines=_least_lacking(demand))


def free_for_gang(
    runs: Sequence[NodeRun], environment: EnvironmentName, free: FreeRooms, kept: Kept
) -> tuple[int, ...] | None:
    """Machines with room for all nodes of a gang now, by another search than `FreeRooms.find`; None: not found."""
    demand = Demand(runs=runs, amounts={environment: {}}, free=free, kept=kept, unreserved_amounts={})
    found = _gang_of_pools(demand, free.machines.pools(environment))
    return found[1] if found is not None and found[0] == 0 else None


def reserved_rooms(runs: Sequence[NodeRun], machines: Sequence[int]) -> dict[int, Room]:
    """What the nodes need on each of their machines. `machines`: empty if no open machine could hold the job."""
    rooms: dict[int, Room] = {}
    nodes = (room_of(run.resources) for run in runs for _ in range(run.count))
    for index, room in zip(machines, nodes, strict=False):
        rooms[index] = plus(rooms.get(index, NOTHING), room)
    return rooms


def _first_single(demand: Demand, endings: Sequence[Ending]) -> MachinePlan | None:
    """The first machine that has room for a job of one node, because jobs have ended; None: not known."""
    node_room, free = room_of(demand.runs[0].resources), demand.free
    pools = {name: free.machines.pools(name) for name in demand.amounts}
    now = {name: free.find(demand.runs, name, demand.kept) for name in demand.amounts}
    machine_of = {name: machines[0] for name, machines in now.items() if machines is not None}
    rooms: dict[int, Room] = {}
    left = dict(demand.unreserved_amounts)
    for ending in endings:
        add_amounts(left, ending.amounts)
        for index, room in ending.rooms:
            rooms[index] = plus(rooms.get(index) or demand.unreserved(index), room)
            if len(machine_of) < len(pools) and free.is_open(index) and covers(rooms[index], node_room):
                holding = [name for name, ranges in pools.items() if any(index in pool for pool in ranges)]
                machine_of = dict.fromkeys(holding, index) | machine_of
        for name, index in machine_of.items():
            if fits(demand.amounts[name], left):
                return MachinePlan(starts=ending.at, machines=(index,))
    return None


def _first_gang(demand: Demand, endings: Sequence[Ending]) -> MachinePlan | None:
    """The machines that have room for all nodes first, because jobs have ended; None: not known.

    A binary search: what is free only grows with the number of jobs that have ended.
    """

    def after(count: int) -> tuple[int, ...] | None:
        left, rooms = dict(demand.unreserved_amounts), demand.free.copy()
        for ending in endings[:count]:
            add_amounts(left, ending.amounts)
            for index, room in ending.rooms:
                rooms.add(index, room)
        names = [name for name, amounts in demand.amounts.items() if fits(amounts, left)]
        found = (rooms.find(demand.runs, name, demand.kept) for name in names)
        return next((machines for machines in found if machines is not None), None)

    first = bisect_left(range(1, len(endings) + 1), 1, key=lambda count: int(after(count) is not None))
    machines = after(first + 1) if first < len(endings) else None
    return None if machines is None else MachinePlan(starts=endings[first].at, machines=machines)


def _least_lacking(demand: Demand) -> tuple[int, ...]:
    """The machines of one environment that lack least, one for each node; empty if open machines cannot hold the job.

    If the nodes do not fit on them, they are the machines on which the job would be placed if nothing ran.
    """
    machines = demand.free.machines
    environments = {tuple(machines.pools(name)): name for name in demand.amounts}
    of_pools = _single_of_pools if demand.is_single else _gang_of_pools
    found = [plan for pools in environments if (plan := of_pools(demand, pools)) is not None]
    if found:
        return min(found)[1]
    idle = FreeRooms(machines, {})
    plans = (idle.find(demand.runs, name, {}) for name in environments.values())
    return next((plan for plan in plans if plan is not None), ())


def _single_of_pools(demand: Demand, pools: Sequence[range]) -> tuple[int, tuple[int, ...]] | None:
    """As `_gang_of_pools`, for a job of one node."""
    node_room = room_of(demand.runs[0].resources)
    best = [found for pool in pools if (found := demand.free.least_lacking(node_room, pool, demand.kept)) is not None]
    lack, index = min(best, default=(0, -1))
    return None if index < 0 else (lack, (index,))


def _gang_of_pools(demand: Demand, pools: Sequence[range]) -> tuple[int, tuple[int, ...]] | None:
    """What the machines lack that lack least, and one for each node; None: not all nodes could fit that way."""
    free, taken, total = demand.free, dict(demand.kept), 0
    capacity = list(free.machines.capacity)  # without what nodes of this job take
    eligible = [index for pool in pools for index in pool if free.is_open(index)]
    chosen = [0] * sum(run.count for run in demand.runs)
    for first, run in largest_first(demand.runs):
        node_room = room_of(run.resources)
        rooms = ((index, minus(free.room(index), taken.get(index, NOTHING))) for index in eligible)
        heap = [(lack_of(room, node_room), index) for index, room in rooms if covers(capacity[index], node_room)]
        heapify(heap)
        for node in range(first, first + run.count):
            if not heap:
                return None
            lack, index = heap[0]
            chosen[node], total = index, total + lack
            taken[index] = plus(taken.get(index, NOTHING), node_room)
            capacity[index] = minus(capacity[index], node_room)
            if covers(capacity[index], node_room):
                heapreplace(heap, (lack_of(minus(free.room(index), taken[index]), node_room), index))
            else:
                heappop(heap)
    return total, tuple(chosen)
