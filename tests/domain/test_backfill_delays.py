"""The proof of decision 0008, tried: whatever comes behind a job that waits, it starts in bounded time.

Jobs end in any order, some by their timeouts at the latest, and an endless stream of others needs the capacity.
"""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as some

from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import NOON, attempt, environment, job, job_id
from tests.support.examples import examples

HOST = Resources(millicpus=0, memory_mib=10, gpus=1)
ENVIRONMENTS = {"a": environment("a", max_millicpus=8), "b": environment("b", max_millicpus=6)}
SITE = Cluster(environments=ENVIRONMENTS, machines=MachineSet(one_machine(HOST), ENVIRONMENTS.values()), stocks={})
NAMES = ["a", "b"]
MINUTE = timedelta(minutes=1)
HEAD = job_id(0)

resources = some.builds(
    Resources, millicpus=some.integers(1, 8), memory_mib=some.integers(1, 10), gpus=some.sampled_from([0, 0, 0, 1])
)
minutes = some.integers(1, 40)
longest = some.none() | some.integers(4, 40)


class Machine:
    """The running jobs, each with the minute of its end, and the waiting job."""

    def __init__(self, head):
        self.minute, self.promised, self.number = 0, {}, 0
        self.head = Candidate(job_id=HEAD, sequence=0, resources=head)
        self.runs = {}

    @property
    def now(self):
        return NOON + self.minute * MINUTE

    def room(self):
        active = [run for run, _ in self.runs.values()]
        return FreeCapacity(cluster=SITE, usage=Usage(active).after(()), now=self.now, promised=self.promised)

    def put(self, room, wanted, *, takes, most=None, squeezed=True):
        """Offer one; if it is placed it runs for as long as it takes, or its timeout."""
        self.number += 1
        timeout = None if most is None else most * MINUTE
        offered = Candidate(job_id=job_id(self.number), sequence=self.number, resources=wanted, timeout=timeout)
        outcome = (room.place_if_no_delay if squeezed else room.place_or_reserve)(offered, NAMES)
        if isinstance(outcome, Fits):
            fields = {"millicpus": wanted.millicpus, "memory_mib": wanted.memory_mib, "gpus": wanted.gpus}
            under_way = attempt(environment=outcome.environment, started_at=self.now)
            placed = job(number=self.number, status=Status.RUNNING, attempt=under_way, timeout=timeout, **fields)
            self.runs[placed.id] = (placed, self.minute + min(takes, most or takes))

    def try_all(self, others):
        """Whether the head starts now. Then the jobs behind it are offered."""
        room = self.room()
        started = isinstance(room.place_or_reserve(self.head, NAMES), Fits)
        self.promised = room.promises
        for wanted, takes, most in others:
            self.put(room, wanted, takes=takes, most=most)
        return started

    def pass_a_minute(self):
        self.minute += 1
        self.runs = {key: pair for key, pair in self.runs.items() if pair[1] > self.minute}


works = some.tuples(resources, minutes, longest)


@settings(max_examples=examples(150), deadline=None)
@given(
    before=some.lists(works, min_size=1, max_size=6), head=resources, stream=some.lists(works, min_size=1, max_size=8)
)
def test_a_waiting_job_starts_at_the_latest_when_all_running_ones_have_ended(before, head, stream):
    machine = Machine(head)
    full = machine.room()
    for wanted, takes, most in before:
        machine.put(full, wanted, takes=takes, most=most)
    ran = {key: ends for key, (_, ends) in machine.runs.items()}
    last = max(ran.values(), default=0)

    while not machine.try_all(stream):
        promise = machine.promised.get(HEAD)
        assert machine.minute < last or (promise is not None and machine.now < promise)
        machine.pass_a_minute()
