"""The machines during a placement pass: each placed job and each reservation reduces what is free on them. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName
from batchq.domain.ids import JobId, MachineName
from batchq.domain.job import Job
from batchq.domain.machines import Machine
from batchq.domain.scheduling.backfill import Ending, Reservations, latest_start
from batchq.domain.scheduling.machine_forecast import Demand, free_for_gang, plan_machines, reserved_rooms
from batchq.domain.scheduling.machine_rooms import NOTHING, Kept, MachineSet, Room, minus
from batchq.domain.scheduling.resources import (
    GPUS,
    MEMORY,
    Amounts,
    Dimension,
    UsageSnapshot,
    held_rooms,
    shortfalls,
    vcpus,
)
from batchq.domain.task import NodeRun

#: The dimensions that machines have.
OF_MACHINES = frozenset({MEMORY, GPUS})

Rooms = Sequence[tuple[int, Room]]
"""What a job holds on machines, by their index."""

NO_RESERVATIONS: Kept = {}


class Waiting(Struct, frozen=True, kw_only=True):
    """A job that does not fit now, and what is free for it."""

    job_id: JobId
    runs: tuple[NodeRun, ...]
    #: What the job requests in each environment that could hold it.
    demands: Mapping[EnvironmentName, Amounts]
    #: What is free beside all reservations, without machines.
    unreserved: Mapping[Dimension, int]
    #: The running jobs with a known latest end.
    endings: Sequence[Ending]


class FreeMachines:
    """What is free on each machine. Of an engine with one machine, the sums of all dimensions are enough.

    `planned`: the machines that earlier passes reserved for blocked jobs.
    """

    def __init__(
        self, machines: MachineSet, usage: UsageSnapshot, planned: Mapping[JobId, Sequence[MachineName]]
    ) -> None:
        self._machines = machines
        self._planned = planned
        #: None: there is only one machine.
        self._rooms = None if machines.is_one else usage.free_rooms(machines)
        #: The reserved rooms by number of reservations.
        self._kept: dict[int, Kept] = {}
        #: The machines that this pass reserved for blocked jobs.
        self.plans: dict[JobId, tuple[MachineName, ...]] = {}

    @property
    def is_one(self) -> bool:
        """Whether the container engine has one machine, whose jobs name no machine."""
        return self._rooms is None

    def sums(self) -> dict[Dimension, int]:
        """What is free on all open machines together; empty if the container engine has one machine."""
        if self._rooms is None:
            return {}
        memory_mib, gpus = self._rooms.free_memory_and_gpus()
        return {MEMORY: memory_mib, GPUS: gpus}

    def lacking(self, environment: EnvironmentName, demand: Amounts, unreserved: Amounts) -> tuple[Dimension, ...]:
        """The dimensions in which the open machines of the environment together, and `unreserved`, have too little."""
        if self._rooms is None:
            return shortfalls(demand, unreserved)
        memory_mib, gpus = self._rooms.free_memory_and_gpus(environment)
        return shortfalls(demand, {**unreserved, MEMORY: memory_mib, GPUS: gpus})

    def find(
        self, job_id: JobId, runs: Sequence[NodeRun], environment: EnvironmentName, kept: Kept
    ) -> tuple[int, ...] | None:
        """A machine for each node, by index, beside what is reserved (`kept`); None: there is no room now.

        Empty if the container engine has one machine. The search may miss machines that could hold a gang of different
        nodes. So those with the least lack, and those that are reserved for it, are tried too.
        """
        if self._rooms is None:
            return ()
        found = self._rooms.find(runs, environment, kept)
        if found is not None or len(runs) == 1:
            return found
        planned = self._known(job_id)
        if planned and self._rooms.holds(reserved_rooms(runs, planned), environment, kept):
            return planned
        return free_for_gang(runs, environment, self._rooms, kept)

    def take(self, runs: Sequence[NodeRun], machines: Sequence[int]) -> Rooms:
        """Use the room on the machines that `find` returned. Returns what is free again when the job ends."""
        assert self._rooms is not None, "the jobs of the only machine name no machine"
        taken = tuple(reserved_rooms(runs, machines).items())
        for index, room in taken:
            self._rooms.add(index, minus(NOTHING, room))
        return taken

    def is_full(self, environments: Iterable[EnvironmentName], kept: Kept = NO_RESERVATIONS) -> bool:
        """Whether not even the smallest job fits on a machine of these environments beside what is reserved."""
        return self._rooms is not None and not self._rooms.has_room(environments, kept)

    def held_by(self, job: Job) -> Rooms:
        """What an active job holds. Its machine may have left."""
        if self._rooms is None:
            return ()
        index = self._machines.index
        return [(index[machine], room) for machine, room in held_rooms(job) if machine in index]

    def plan(self, job: Waiting, reservations: Reservations) -> tuple[datetime | None, Kept]:
        """The latest start of the job, None if it is not known, and what is reserved for it on machines."""
        if self._rooms is None:
            return latest_start(list(job.demands.values()), job.unreserved, job.endings), NO_RESERVATIONS
        demand = Demand(
            runs=job.runs,
            amounts={name: without_machines(amounts) for name, amounts in job.demands.items()},
            free=self._rooms,
            kept=self.reserved(reservations, reservations.before(None)),
            unreserved_amounts=job.unreserved,
        )
        plan = plan_machines(demand, job.endings, self._known(job.job_id))
        self._kept.clear()  # a reservation follows
        self.plans[job.job_id] = self._machines.names(plan.machines)
        return plan.starts, reserved_rooms(job.runs, plan.machines)

    def beside(self, environment: ComputeEnvironment, demand: Amounts) -> Amounts:
        """What is reserved of the demand beside machines. Machines may limit the vCPUs of the environment already."""
        if self._rooms is None:
            return demand
        amounts = without_machines(demand)
        if self._machines.millicpus(environment.name) <= environment.max_millicpus:
            amounts.pop(vcpus(environment.name), None)
        return amounts

    def _known(self, job_id: JobId) -> tuple[int, ...]:
        """The machines that were reserved for the job; empty if one has left."""
        index, names = self._machines.index, self._planned.get(job_id, ())
        return tuple([index[name] for name in names]) if all(name in index for name in names) else ()

    def reserved(self, reservations: Reservations, before: int) -> Kept:
        """What the first `before` reservations need on machines."""
        if self._rooms is None:
            return NO_RESERVATIONS
        if before not in self._kept:
            self._kept[before] = reservations.rooms_for(before) if before else NO_RESERVATIONS
        return self._kept[before]


def without_machines(demand: Amounts) -> dict[Dimension, int]:
    """The demand without the dimensions that machines have."""
    return {dimension: amount for dimension, amount in demand.items() if dimension not in OF_MACHINES}


def never_fits_reason(runs: Iterable[NodeRun], machines: Collection[Machine]) -> str:
    """The status reason of a job whose nodes these machines could not hold even if nothing else ran."""
    if not machines:
        return status_reasons.NO_MACHINE_SELECTED
    nodes = []
    for run in runs:
        size = run.resources
        parts = [f"{size.millicpus / 1000:g} vCPUs", f"{size.memory_mib} MiB of memory"]
        parts += [f"{size.gpus} GPUs"] if size.gpus else []
        nodes.append(f"{run.count} x ({', '.join(parts)})" if run.count > 1 else ", ".join(parts))
    return status_reasons.too_large_for_machines(" and ".join(nodes))
