"""The resources that jobs hold, updated as they change."""

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchq.domain import status_reasons
from batchq.domain.catalog import State
from batchq.domain.job import ConsumableRequirement, Status
from batchq.domain.scheduling.capacity import (
    Candidate,
    Cluster,
    Fits,
    FreeCapacity,
    Insufficient,
    Unschedulable,
    usable,
)
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import NOON, attempt, environment, job, job_id, resources, stop

numbers = count(1)
HOST = resources(millicpus=64_000, memory_mib=8_000, gpus=2)
TOO_FAT = status_reasons.too_large([("MiB of memory", 8_001, 8_000)])


class Free:
    """A room, to which resources are offered as jobs."""

    def __init__(self, room):
        self.room = room

    def place_or_reserve(self, wanted, names, **fields):
        return self.room.place_or_reserve(wants(wanted, **fields), names)

    def place_if_no_delay(self, wanted, names, **fields):
        return self.room.place_if_no_delay(wants(wanted, **fields), names)

    def could_hold(self, wanted, names, **fields):
        return self.room.could_hold(wants(wanted, **fields), names)


def room(*environments, host=HOST, active=(), stocks=None, promised=None):
    site = Cluster(environments={it.name: it for it in environments}, host=host, stocks=stocks or {})
    return Free(FreeCapacity(cluster=site, usage=Usage(active).after(()), now=NOON, promised=promised))


def wants(wanted, **fields):
    return Candidate(**{"job_id": job_id(next(numbers)), "order": 0, "resources": wanted} | fields)


def waits(outcome):
    return isinstance(outcome, Insufficient)


def small(**changes):
    return resources(**{"millicpus": 1000, "memory_mib": 1} | changes)


def running(*, on="local", **fields):
    return job(status=Status.RUNNING, attempt=attempt(environment=on), **fields)


# -------------------------------------------------------------------------------------------------------- no overcommit


def test_an_environment_reduced_below_its_usage_takes_no_job():
    free = room(environment("local", max_millicpus=2000), active=[running(millicpus=3000)])

    assert waits(free.place_or_reserve(small(millicpus=1), ["local"]))


# ---------------------------------------------------------------------------------------------------------------- where


@pytest.mark.parametrize("names", [["off"], ["gone"], []])
def test_without_an_enabled_environment_a_job_waits_and_blocks_no_other(names):
    free = room(environment("off", state=State.DISABLED), environment("local"))

    assert waits(free.place_or_reserve(small(millicpus=999_999), names))
    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")


# ------------------------------------------------------------------------------------------------------------ hold back


# ---------------------------------------------------------------------------------------------------- unschedulable


@pytest.mark.parametrize(
    ("wanted", "figures"),
    [
        ({"memory_mib": 8_001}, "8001 MiB of memory (there are 8000)"),
        ({"gpus": 3}, "3 GPUs (there are 2)"),
        ({"memory_mib": 8_001, "gpus": 3}, "8001 MiB of memory (there are 8000), 3 GPUs (there are 2)"),
    ],
)
def test_more_memory_or_gpus_than_the_host_has_is_unschedulable_with_figures(wanted, figures):
    free = room(environment("local"))

    assert free.place_or_reserve(small(**wanted), ["local"]) == Unschedulable(
        reason=f"{status_reasons.TOO_LARGE} It asks for {figures}."
    )


def test_lacking_vcpus_are_reported_before_lacking_memory():
    free = room(environment("local", max_millicpus=4000))

    assert free.place_or_reserve(small(millicpus=4001, memory_mib=8_001), ["local"]) == Unschedulable(
        reason=status_reasons.too_many_vcpus(4001, 4000)
    )


@pytest.mark.parametrize("millicpus", [3000, 4000])
def test_vcpus_are_not_reported_if_one_environment_has_them(millicpus):
    free = room(environment("a", max_millicpus=2000), environment("b", max_millicpus=4000))

    assert free.place_or_reserve(small(millicpus=millicpus, memory_mib=8_001), ["a", "b"]) == Unschedulable(
        reason=TOO_FAT
    )


def test_a_disabled_environment_makes_no_job_schedulable():
    free = room(environment("big", max_millicpus=9000, state=State.DISABLED), environment("local"))

    assert free.place_or_reserve(small(millicpus=9000), ["big", "local"]) == Unschedulable(
        reason=status_reasons.too_many_vcpus(9000, 4000)
    )


# ----------------------------------------------------------------------------------------------------------- could hold


def test_a_full_environment_could_hold_the_job():
    free = room(environment("local"), active=[running(millicpus=4000, memory_mib=8_000, gpus=2)])

    assert free.could_hold(small(millicpus=4000, memory_mib=8_000, gpus=2), ["local"])


@pytest.mark.parametrize("wanted", [{"millicpus": 4001}, {"memory_mib": 8_001}, {"gpus": 3}])
def test_an_environment_or_host_too_small_could_not_hold_it(wanted):
    assert not room(environment("local")).could_hold(small(**wanted), ["local"])


def test_a_disabled_or_deleted_environment_could_not_hold_it():
    free = room(environment("off", state=State.DISABLED))

    assert not free.could_hold(small(), ["off", "gone"])


# ---------------------------------------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(("has", "gives"), [(8_000, 7_200), (20_480, 18_432), (20_490, 18_442), (64_000, 61_952)])
def test_the_machine_reserves_a_tenth_of_its_memory_and_at_most_2_gib(has, gives):
    assert usable(resources(millicpus=4000, memory_mib=has, gpus=1)) == resources(
        millicpus=4000, memory_mib=gives, gpus=1
    )


NEEDS = ((), (ConsumableRequirement(resource="licences", quantity=2),))


@st.composite
def moments(draw):
    """A few jobs, each several times, as they might be one after another."""
    return job(
        number=draw(st.integers(0, 4)),
        status=draw(st.sampled_from(Status)),
        attempt=attempt(environment=draw(st.sampled_from(["east", "west"]))),
        millicpus=draw(st.sampled_from([250, 1000])),
        needs=draw(st.sampled_from(NEEDS)),
        timeout=draw(st.sampled_from([None, timedelta(hours=1)])),
    )


def rebuilt(turns):
    held = Usage()
    for jobs in turns:
        held.update(jobs)
    return held


def result(holding):
    return dict(holding.sums), dict(holding.accounts), sorted(holding.needed), sorted(it.id for it in holding.timed())


def turns(**most):
    """The jobs that each unit of work changed, each once."""
    return st.lists(moments(), unique_by=lambda it: it.id, **most)


@given(st.lists(turns()), turns(max_size=3))
def test_the_usage_updated_by_changes_equals_the_usage_of_all_jobs(before, changed):
    held = rebuilt(before)
    last = {it.id: it for turn in (*before, changed) for it in turn}

    counted = held.after(changed)

    assert result(counted) == result(Usage(last.values()).after(()))


def test_a_unit_of_work_that_is_not_saved_has_changed_nothing():
    runs = job(number=1, status=Status.RUNNING)
    held = Usage([runs])
    before = result(held.after(()))

    held.after([job(number=1, status=Status.SUCCEEDED), job(number=2, status=Status.STARTING)])

    assert result(held.after(())) == before


def test_a_stopping_job_has_a_known_end():
    stops = job(number=1, status=Status.RUNNING, stop_orders=(stop(),))

    assert list(Usage([stops]).after(()).timed()) == [stops]
