"""Laws of capacity for every sequence of jobs. The test does its own accounting."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as some

from batchq.domain.container import Resources
from batchq.domain.enums import State, Status
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.backfill import Reservation, Reservations
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity, Insufficient, Unschedulable
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Usage
from tests.domain.lives import at
from tests.support.builders import NOON, attempt, environment, job, job_id
from tests.support.examples import examples

HOST = Resources(millicpus=10, memory_mib=10, gpus=2)
LIVING, DELETED = ["a", "b", "c"], "deleted"

resources = some.builds(
    Resources, millicpus=some.integers(0, 7), memory_mib=some.integers(0, 11), gpus=some.sampled_from([0, 0, 0, 1, 3])
)
queues = some.lists(some.sampled_from([*LIVING, DELETED]), unique=True, max_size=3)
environments = some.fixed_dictionaries(
    {
        name: some.builds(
            environment, some.just(name), max_millicpus=some.integers(1, 6), state=some.sampled_from(State)
        )
        for name in LIVING
    }
)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """`able` are the environments that could ever hold it, `free` those with room now, if the host has the rest.

    `beside` are those of the free ones that have it beside all that is set aside.
    """

    names: list[str]
    able: set[str]
    free: set[str]
    beside: set[str]
    outcome: Fits | Insufficient | Unschedulable


@some.composite
def offers(draw):
    """Active jobs, and then one candidate after another."""
    by_name = draw(environments)
    active = draw(some.lists(some.tuples(resources, some.sampled_from([*LIVING, DELETED])), max_size=2))
    site = Cluster(environments=by_name, machines=MachineSet(one_machine(HOST), by_name.values()), stocks={})
    room = FreeCapacity(cluster=site, usage=Usage(under_way(*job) for job in active).after(()), now=NOON)
    taken, aside, made = list(active), [], []
    for number, (wanted, names) in enumerate(draw(some.lists(some.tuples(resources, queues), min_size=1, max_size=12))):
        outcome = room.place_or_reserve(Candidate(job_id=job_id(number), sequence=number, resources=wanted), names)
        made.append(offer_of(wanted, names, outcome, by_name=by_name, taken=taken, aside=aside))
        taken += [(wanted, outcome.environment)] if isinstance(outcome, Fits) else []
        aside += [(wanted, made[-1].able)] if made[-1].able and isinstance(outcome, Insufficient) else []
    return made


def under_way(wanted, name):
    fields = {"millicpus": wanted.millicpus, "memory_mib": wanted.memory_mib, "gpus": wanted.gpus}
    return job(status=Status.RUNNING, attempt=attempt(environment=name), **fields)


def offer_of(wanted, names, outcome, *, by_name, taken, aside):
    enabled = [name for name in names if name in by_name and by_name[name].state is State.ENABLED]
    able = {name for name in enabled if fits_in(wanted, HOST, by_name[name].max_millicpus)}
    free = {name for name in able if fits_in(wanted, *left(name, by_name, taken))}
    kept = [(candidate, name) for candidate, names in aside for name in names]
    hosts = [(candidate, None) for candidate, _ in aside]
    return Offer(
        names=enabled,
        able=able,
        free=free,
        beside={name for name in free if fits_in(wanted, *left(name, by_name, [*taken, *kept], [*taken, *hosts]))},
        outcome=outcome,
    )


def left(name, by_name, on_environments, on_host=None):
    """The free resources of the host, and the free vCPUs of this environment."""
    on_host = on_environments if on_host is None else on_host
    memory, gpus = (
        sum(resources.memory_mib for resources, _ in on_host),
        sum(resources.gpus for resources, _ in on_host),
    )
    vcpus = sum(job.millicpus for job, where in on_environments if where == name)
    host = Resources(millicpus=0, memory_mib=HOST.memory_mib - memory, gpus=HOST.gpus - gpus)
    return host, by_name[name].max_millicpus - vcpus


def fits_in(wanted, host, millicpus):
    """A resource that is not requested need not be free."""
    pairs = (wanted.millicpus, millicpus), (wanted.memory_mib, host.memory_mib), (wanted.gpus, host.gpus)
    return all(amount == 0 or amount <= there for amount, there in pairs)


LAWS = []


def law(holds):
    """Laws are held against the same offers, so that each sees many."""
    LAWS.append(holds)
    return holds


@settings(max_examples=examples(300), deadline=None)
@given(offers())
def test_every_law_holds_for_every_sequence_of_jobs(made):
    for holds in LAWS:
        holds(made)


@law
def a_job_is_placed_only_where_it_fits(made):
    placed = [decision for decision in made if isinstance(decision.outcome, Fits)]

    assert all(decision.outcome.environment in decision.free for decision in placed)


@law
def a_job_is_unschedulable_if_no_enabled_environment_could_hold_it(made):
    with_environments = [candidate for candidate in made if candidate.names]

    assert [decision for decision in made if isinstance(decision.outcome, Unschedulable)] == [
        other_environment for other_environment in with_environments if not other_environment.able
    ]


@law
def a_job_is_placed_in_the_first_environment_with_unreserved_capacity(made):
    able = [found for found in made if found.able]
    places = [[name for name in candidate.names if name in candidate.beside] for candidate in able]

    assert [decision.outcome for decision in able if isinstance(decision.outcome, Fits)] == [
        Fits(environment=names[0]) for names in places if names
    ]
    assert [isinstance(decision.outcome, Insufficient) for decision in able] == [not names for names in places]


MINUTES = some.none() | some.integers(0, 9)
AMOUNTS = some.dictionaries(
    some.sampled_from(["memory", "GPUs", "vCPUs of compute environment local"]), some.integers(1, 9)
)


def moment(minute):
    return None if minute is None else at(60 * minute)


@given(listed=some.lists(some.tuples(MINUTES, AMOUNTS), max_size=6), minute=MINUTES)
def test_capacity_is_reserved_for_jobs_that_may_start_before_the_job_ends(listed, minute):
    asides = Reservations()
    for start, amounts in listed:
        asides.add(Reservation(amounts=amounts, starts=moment(start)))

    kept = asides.reserved_for(asides.before(moment(minute)))

    mine = [amounts for start, amounts in listed if start is None or minute is None or start <= minute]
    assert {of: amount for of, amount in kept.items() if amount} == {
        of: sum(job.get(of, 0) for job in mine) for each in mine for of in each
    }
