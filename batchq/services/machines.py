"""The machines of the container engine: their states, what jobs request of each, and the jobs on them.

The answers are from memory: the machines as the last survey reported them, and the active jobs as last saved. Jobs that
the caller may not see are neither counted nor named; what they request is part of the sums.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.enums import MachineState
from batchq.domain.ids import MachineName
from batchq.domain.job import Job
from batchq.domain.machines import LOCAL, Machine
from batchq.domain.scheduling.machine_rooms import NOTHING, Room
from batchq.engine.engine import Engine
from batchq.errors import Invalid

RANKS = {state: rank for rank, state in enumerate(MachineState)}
NOT_STARTED = datetime.max.replace(tzinfo=UTC)

Position = tuple[int, str]
"""The rank of a machine's state, and its name. Lists of machines are in this order."""


class MachineQuery(Struct, frozen=True, kw_only=True):
    """Which machines to list."""

    #: Only machines that run jobs of this compute environment; None: all.
    environment: EnvironmentName | None = None
    #: `MachinePage.next` of the page before; None: the list begins with the first machine.
    after: str | None = None
    #: The number of machines.
    limit: int
    #: The number of jobs of each machine.
    max_jobs: int


class MachineOverview(Struct, frozen=True, kw_only=True):
    """A machine with what jobs request of it."""

    #: Its resources are those that jobs may reserve.
    machine: Machine
    #: By active jobs of all users.
    requested: Resources
    #: The number of nodes of active jobs.
    nodes: int
    #: The first jobs that the caller sees; the one that started first comes first.
    jobs: tuple[Job, ...]
    #: The number of jobs that the caller sees.
    job_count: int


class MachinePage(Struct, frozen=True, kw_only=True):
    """A part of a list of machines: first those that are AWAY, then CORDONED, then READY, each by name."""

    machines: tuple[MachineOverview, ...] = ()
    #: The number of all machines of the list, by state; None: the container engine has not reported its machines yet.
    counts: Mapping[MachineState, int] | None = None
    #: The position behind which the list continues, as text; None: it ends.
    next: str | None = None


def machine_page(engine: Engine, query: MachineQuery, *, caller: Caller) -> MachinePage:
    """The machines that the query selects, with the jobs that the caller may see. Raises Invalid."""
    known = engine.machines()
    if known is None:
        return MachinePage()
    machines = known if query.environment is None else _of_environment(engine, query.environment)
    rest = sorted(machines, key=_position)
    if query.after is not None:
        after = _parsed(query.after)
        rest = [machine for machine in rest if _position(machine) > after]
    shown = rest[: query.limit]
    rank, last = _position(shown[-1]) if shown else (0, "")
    jobs, held = _jobs(engine.active_jobs(), shown, caller), engine.usage().held()
    return MachinePage(
        machines=tuple(
            _overview(machine, held.get(machine.name, NOTHING), jobs[machine.name], max_jobs=query.max_jobs)
            for machine in shown
        ),
        counts=Counter(machine.state for machine in machines),
        next=f"{rank} {last}" if len(rest) > len(shown) else None,
    )


def _overview(machine: Machine, held: Room, jobs: Sequence[Job], *, max_jobs: int) -> MachineOverview:
    millicpus, memory, gpus, nodes = held
    return MachineOverview(
        machine=machine,
        requested=Resources(millicpus=millicpus, memory_mib=memory, gpus=gpus),
        nodes=nodes,
        jobs=tuple(sorted(jobs, key=_start)[:max_jobs]),
        job_count=len(jobs),
    )


def _jobs(active: Iterable[Job], shown: Iterable[Machine], caller: Caller) -> Mapping[MachineName, list[Job]]:
    """The active jobs on each of these machines that the caller sees."""
    jobs: dict[MachineName, list[Job]] = {machine.name: [] for machine in shown}
    for job in active:
        if caller.reaches(job.spec.owner):
            for name in _machines_of(job):
                if name in jobs:
                    jobs[name].append(job)
    return jobs


def _of_environment(engine: Engine, environment: EnvironmentName) -> Sequence[Machine]:
    cluster = engine.cluster()
    return () if cluster is None else cluster.machines.selected([environment])


def _machines_of(job: Job) -> Iterable[MachineName]:
    """The machines of the attempt, each once."""
    containers = () if job.attempt is None else job.attempt.containers
    return {container.machine or LOCAL for container in containers}


def _position(machine: Machine) -> Position:
    return RANKS[machine.state], machine.name


def _parsed(text: str) -> Position:
    rank, _, name = text.partition(" ")
    if rank not in map(str, RANKS.values()):
        raise Invalid("The position in the list of machines is not valid.")
    return int(rank), name


def _start(job: Job) -> tuple[datetime, int]:
    return job.started_at or NOT_STARTED, job.sequence
