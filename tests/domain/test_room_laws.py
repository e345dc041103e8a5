"""What holds of a room whatever is offered to it. The test keeps books of its own."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as some

from batchq.domain.catalog import State
from batchq.domain.container import Resources
from batchq.domain.job import Status
from batchq.domain.placement import Fits, Misfit, Room, Waits
from tests.support.builders import attempt, environment, job

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
    """`able` are the environments that could ever hold it, `free` those with room now, if the host has the rest."""

    names: list[str]
    able: set[str]
    free: set[str]
    host_has: bool
    outcome: Fits | Waits | Misfit


@some.composite
def offers(draw):
    """Some jobs under way, then one offer after another."""
    grounds = draw(environments)
    active = draw(some.lists(some.tuples(resources, some.sampled_from([*LIVING, DELETED])), max_size=2))
    room = Room(environments=grounds, host=HOST, active=[under_way(*it) for it in active])
    taken, made = list(active), []
    for wanted, names in draw(some.lists(some.tuples(resources, queues), min_size=1, max_size=12)):
        outcome = room.offer(wanted, names)
        made.append(judged(wanted, names, outcome, grounds=grounds, taken=taken))
        taken += [(wanted, outcome.environment)] if isinstance(outcome, Fits) else []
    return made


def under_way(wanted, name):
    asked = {"millicpus": wanted.millicpus, "memory_mib": wanted.memory_mib, "gpus": wanted.gpus}
    return job(status=Status.RUNNING, attempt=attempt(environment=name), **asked)


def judged(wanted, names, outcome, *, grounds, taken):
    vcpus = Counter()
    for it, name in taken:
        vcpus[name] += it.millicpus
    enabled = {name for name in names if name in grounds and grounds[name].state is State.ENABLED}
    possible = wanted.memory_mib <= HOST.memory_mib and wanted.gpus <= HOST.gpus
    able = {name for name in enabled if possible and wanted.millicpus <= grounds[name].max_millicpus}
    memory, gpus = sum(it.memory_mib for it, _ in taken), sum(it.gpus for it, _ in taken)
    return Offer(
        names=[name for name in names if name in enabled],
        able=able,
        free={name for name in able if vcpus[name] + wanted.millicpus <= grounds[name].max_millicpus},
        host_has=memory + wanted.memory_mib <= HOST.memory_mib and gpus + wanted.gpus <= HOST.gpus,
        outcome=outcome,
    )


LAWS = []


def law(holds):
    """Laws are held against the same offers, so that each sees many."""
    LAWS.append(holds)
    return holds


@settings(max_examples=300, deadline=None)
@given(offers())
def test_every_law_holds_whatever_is_offered(made):
    for holds in LAWS:
        holds(made)


@law
def nothing_is_placed_where_it_does_not_go_in(made):
    placed = [it for it in made if isinstance(it.outcome, Fits)]

    assert all(it.host_has and it.outcome.environment in it.free for it in placed)


@law
def a_misfit_is_what_no_enabled_environment_could_hold(made):
    judgeable = [it for it in made if it.names]

    assert [it for it in made if isinstance(it.outcome, Misfit)] == [it for it in judgeable if not it.able]


@law
def up_to_the_first_that_waits_everybody_gets_the_first_place_that_is_free(made):
    waits = [number for number, it in enumerate(made) if it.able and isinstance(it.outcome, Waits)]
    before = [it for it in made[: min(waits, default=len(made))] if it.able]

    assert [it.outcome.environment for it in before] == [
        next(name for name in it.names if name in it.free) for it in before
    ]
    assert not [made[number] for number in waits[:1] if made[number].free and made[number].host_has]


@law
def nobody_takes_what_somebody_before_waits_for(made):
    pairs = [(first, later) for number, first in enumerate(made) for later in made[number + 1 :]]
    passed = [
        (first, later)
        for first, later in pairs
        if first.able and isinstance(first.outcome, Waits) and isinstance(later.outcome, Fits)
    ]

    assert all(first.host_has and later.outcome.environment not in first.able for first, later in passed)
