"""Laws of machines for every sequence of jobs and gangs. The test does its own accounting.

A waiting job starts in bounded time (decision 0008): jobs end in any order, some by their timeouts at the latest, and
an endless stream of others needs the capacity.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from batchq.domain.container import Resources
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.machines import Machine, one_machine
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity, Insufficient
from batchq.domain.scheduling.machine_rooms import FreeRooms, MachineSet, covers, minus, room_of
from batchq.domain.scheduling.resources import Usage
from batchq.domain.task import NodeRange, NodeRun
from tests.support.builders import NOON, attempt, environment, gang, job, job_id, task, task_container
from tests.support.examples import examples

ENVIRONMENTS = {
    "a": environment("a", max_millicpus=1000, tags=((f"{LABEL_TAG}disk", "ssd"),)),
    "b": environment("b", max_millicpus=1000),
    "c": environment("c", max_millicpus=1000, tags=((ENGINE_TAG, "other"), (f"{LABEL_TAG}zone", "1"))),
}
NAMES = list(ENVIRONMENTS)
SMALL = {"a": environment("a", max_millicpus=8), "b": environment("b", max_millicpus=6)}
MINUTE = timedelta(minutes=1)
HEAD, RUNS = job_id(0), AttemptContainerState.RUNNING

sizes = some.builds(
    Resources, millicpus=some.integers(1, 8), memory_mib=some.integers(1, 10), gpus=some.sampled_from([0, 0, 0, 1])
)
gangs = some.lists(sizes, min_size=1, max_size=3).map(tuple)
machines = some.lists(
    some.builds(
        dict,
        resources=some.builds(
            Resources, millicpus=some.integers(4, 12), memory_mib=some.integers(4, 14), gpus=some.integers(0, 2)
        ),
        environment=some.sampled_from([None, None, "a"]),
        engine=some.sampled_from(["", "", "other"]),
        labels=some.lists(some.sampled_from([("disk", "ssd"), ("zone", "1")]), unique=True).map(tuple),
        max_nodes=some.none() | some.integers(1, 4),
        is_cordoned=some.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=5,
)


def named(fields) -> MachineSet:
    those = (Machine(name=f"m{number}", is_enforced=True, **other_field) for number, other_field in enumerate(fields))
    return MachineSet(those, ENVIRONMENTS.values())


def selects(name, machine):
    """Whether the environment selects the machine, written out for each environment."""
    if machine.environment not in (None, name):
        return False
    if name == "c":
        return machine.engine == "other" and ("zone", "1") in machine.labels
    return name == "b" or ("disk", "ssd") in machine.labels


@dataclass
class Cell:
    """Running jobs on machines, and a job that waits for them. Each job ends in a minute that the test knows."""

    machines: MachineSet
    environments: dict
    minute: int = 0
    number: int = 0
    promised: dict = field(default_factory=dict)
    planned: dict = field(default_factory=dict)
    runs: dict[str, tuple[Job, int]] = field(default_factory=dict)

    @property
    def now(self):
        return NOON + self.minute * MINUTE

    def room(self) -> FreeCapacity:
        site = Cluster(environments=self.environments, machines=self.machines, stocks={})
        usage = Usage(run for run, _ in self.runs.values()).after(())
        return FreeCapacity(cluster=site, usage=usage, now=self.now, promised=self.promised, planned=self.planned)

    def put(self, room, nodes, *, takes, most=None):
        """Offer a job behind the head; if it is placed it runs for as long as it takes, or its timeout."""
        self.number += 1
        outcome = room.place_if_no_delay(candidate(self.number, nodes, most), list(self.environments))
        if isinstance(outcome, Fits):
            self.run(nodes, outcome, ends=self.minute + min(takes, most or takes), most=most)
        return outcome

    def run(self, nodes, placed, *, ends, most):
        names = placed.machines or (None,) * len(nodes)  # an engine with one machine names none
        containers = [AttemptContainer(key=f"{node}/app", machine=name, state=RUNS) for node, name in enumerate(names)]
        under_way = attempt(environment=placed.environment, started_at=self.now, containers=tuple(containers))
        timeout = None if most is None else most * MINUTE
        made = job(number=self.number, status=Status.RUNNING, attempt=under_way, timeout=timeout, nodes=gang_of(nodes))
        self.runs[made.id] = (made, ends)
        self.check()

    def pass_a_minute(self):
        self.minute += 1
        self.runs = {key: pair for key, pair in self.runs.items() if pair[1] > self.minute}

    def check(self):
        """No machine has less than its jobs hold."""
        for machine in self.machines.machines:
            held = [
                made.spec.nodes.task(container.node).resources
                for made, _ in self.runs.values()
                for container in made.attempt.containers
                if container.machine == machine.name
            ]
            assert sum(resources.millicpus for resources in held) <= machine.resources.millicpus
            assert sum(resources.memory_mib for resources in held) <= machine.resources.memory_mib
            assert sum(resources.gpus for resources in held) <= machine.resources.gpus
            assert machine.max_nodes is None or len(held) <= machine.max_nodes
            assert not (held and machine.is_cordoned)
            attempts = [made.attempt for made, _ in self.runs.values()]
            on = {
                other_attempt.environment
                for other_attempt in attempts
                if machine.name in {part.machine for part in other_attempt.containers}
            }
            assert all(selects(name, machine) for name in on)


def gang_of(nodes):
    ranges = [
        task(task_container(millicpus=node.millicpus, memory_mib=node.memory_mib, gpus=node.gpus)) for node in nodes
    ]
    each = tuple(NodeRange(first=node, last=node, task=node_range) for node, node_range in enumerate(ranges))
    return replace(gang(len(nodes)), ranges=each)


def candidate(number, nodes, most=None):
    made = gang_of(nodes)
    return Candidate(
        job_id=job_id(number),
        sequence=number,
        resources=made.resources,
        nodes=made.runs if len(nodes) > 1 else (),
        timeout=None if most is None else most * MINUTE,
    )


works = some.tuples(gangs, some.integers(1, 40), some.none() | some.integers(4, 40))
#: Any machines in environments that are large enough, or one machine whose vCPUs the environments alone limit.
cells = some.builds(lambda fields: Cell(named(fields), ENVIRONMENTS), machines) | some.builds(
    lambda: Cell(MachineSet(one_machine(Resources(millicpus=0, memory_mib=10, gpus=1)), SMALL.values()), SMALL)
)


@settings(max_examples=examples(350), deadline=None)
@given(
    cell=cells,
    before=some.lists(works, min_size=1, max_size=6),
    head=gangs,
    stream=some.lists(works, min_size=1, max_size=6),
)
def test_a_waiting_job_starts_at_the_latest_when_all_running_ones_have_ended(cell, before, head, stream):
    for nodes, takes, most in before:
        cell.put(cell.room(), nodes, takes=takes, most=most)
    last = max((ends for _, ends in cell.runs.values()), default=0)

    while True:
        room = cell.room()
        outcome = room.place_or_reserve(candidate(0, head), list(cell.environments))
        if not isinstance(outcome, Insufficient) or (cell.environments is not SMALL and not room.plans.get(HEAD)):
            break  # the job starts, or no open machine could hold it
        cell.promised, cell.planned = room.promises, room.plans
        promise = cell.promised.get(HEAD)
        assert cell.minute < last or (promise is not None and cell.now < promise)
        for nodes, takes, most in stream:
            cell.put(room, nodes, takes=takes, most=most)
        cell.pass_a_minute()


@settings(max_examples=examples(200), deadline=None)
@given(fields=machines, taken=some.lists(some.tuples(some.integers(0, 4), sizes), max_size=12), wanted=sizes)
def test_the_first_machine_with_room_is_found_whatever_else_is_free(fields, taken, wanted):
    those = named(fields)
    free = FreeRooms(those, {})
    for index, size in taken:
        if index < len(those.machines):
            free.add(index, minus((0, 0, 0, 0), room_of(size)))

    found = free.find((NodeRun(resources=wanted),), "a", {})

    able = [
        index
        for pool in those.pools("a")
        for index in pool
        if free.is_open(index) and covers(free.room(index), room_of(wanted))
    ]
    assert found == ((able[0],) if able else None)


@settings(max_examples=examples(200), deadline=None)
@given(fields=machines, taken=some.lists(some.tuples(some.integers(0, 4), sizes), max_size=12))
def test_an_environment_counts_the_machines_that_it_selects_and_no_others(fields, taken):
    those = named(fields)
    free = FreeRooms(those, {})
    for index, size in taken:
        if index < len(those.machines):
            free.add(index, minus((0, 0, 0, 0), room_of(size)))

    for name in NAMES:
        indexes = [index for index, machine in enumerate(those.machines) if selects(name, machine)]
        rooms = [free.room(index) for index in indexes if free.is_open(index)]
        assert sorted(index for pool in those.pools(name) for index in pool) == indexes
        assert free.free_memory_and_gpus(name) == (sum(room[1] for room in rooms), sum(room[2] for room in rooms))
