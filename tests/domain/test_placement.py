"""Where jobs are placed, and the resources that they hold, updated as they change."""

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import State, Status
from batchq.domain.job import ConsumableRequirement
from batchq.domain.machines import one_machine, usable
from batchq.domain.scheduling.capacity import (
    Candidate,
    Cluster,
    Fits,
    FreeCapacity,
    Insufficient,
    Unschedulable,
)
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import NOON, attempt, environment, job, job_id, resources, stop

numbers = count(1)
HOST = resources(millicpus=64_000, memory_mib=8_000, gpus=2)


def room(*environments, active=()):
    machines = MachineSet(one_machine(HOST), environments)
    site = Cluster(
        environments={other_environment.name: other_environment for other_environment in environments},
        machines=machines,
        stocks={},
    )
    return FreeCapacity(cluster=site, usage=Usage(active).after(()), now=NOON)


def small(**changes):
    """A candidate that requests one vCPU and 1 MiB."""
    wanted = resources(**{"millicpus": 1000, "memory_mib": 1} | changes)
    return Candidate(job_id=job_id(next(numbers)), sequence=0, resources=wanted)


def running(**fields):
    return job(status=Status.RUNNING, attempt=attempt(environment="local"), **fields)


@pytest.mark.parametrize("names", [["off"], ["gone"], []])
def test_without_an_enabled_environment_a_job_waits_and_blocks_no_other(names):
    free = room(environment("off", state=State.DISABLED), environment("local"))

    assert isinstance(free.place_or_reserve(small(millicpus=999_999), names), Insufficient)
    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")


LOCAL, SMALL = environment("local"), environment("small", max_millicpus=2000)
BIG_BUT_OFF = environment("big", max_millicpus=9000, state=State.DISABLED)
MEMORY, GPUS = ("MiB of memory", 8_001, 8_000), ("GPUs", 3, 2)


@pytest.mark.parametrize(
    ("environments", "wanted", "reason"),
    [
        ([LOCAL], {"memory_mib": 8_001}, status_reasons.too_large([MEMORY])),
        ([LOCAL], {"gpus": 3}, status_reasons.too_large([GPUS])),
        ([LOCAL], {"memory_mib": 8_001, "gpus": 3}, status_reasons.too_large([MEMORY, GPUS])),
        ([LOCAL], {"millicpus": 4001, "memory_mib": 8_001}, status_reasons.too_many_vcpus(4001, 4000)),
        ([SMALL, LOCAL], {"millicpus": 3000, "memory_mib": 8_001}, status_reasons.too_large([MEMORY])),
        ([SMALL, LOCAL], {"millicpus": 4000, "memory_mib": 8_001}, status_reasons.too_large([MEMORY])),
        ([BIG_BUT_OFF, LOCAL], {"millicpus": 9000}, status_reasons.too_many_vcpus(9000, 4000)),
    ],
)
def test_a_job_that_no_enabled_environment_could_hold_is_unschedulable_with_figures(environments, wanted, reason):
    free, names = room(*environments), [other_environment.name for other_environment in environments]

    assert not free.could_hold(small(**wanted), names)
    assert free.place_or_reserve(small(**wanted), names) == Unschedulable(reason=reason)


def test_the_figures_are_in_the_status_reason():
    assert status_reasons.too_large([MEMORY, GPUS]) == (
        f"{status_reasons.TOO_LARGE} It asks for 8001 MiB of memory (there are 8000), 3 GPUs (there are 2)."
    )


def test_a_full_environment_could_hold_the_job():
    most = {"millicpus": 4000, "memory_mib": 8_000, "gpus": 2}

    assert room(LOCAL, active=[running(**most)]).could_hold(small(**most), ["local"])


def test_a_disabled_or_deleted_environment_could_not_hold_it():
    assert not room(environment("off", state=State.DISABLED)).could_hold(small(), ["off", "gone"])


@pytest.mark.parametrize(("has", "gives"), [(8_000, 7_200), (20_480, 18_432), (20_490, 18_442), (64_000, 61_952)])
def test_the_machine_reserves_a_tenth_of_its_memory_and_at_most_2_gib(has, gives):
    machine = resources(millicpus=4000, memory_mib=has, gpus=1)

    assert usable(machine) == replace(machine, memory_mib=gives)


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


def rebuilt(units):
    held = Usage()
    for jobs in units:
        held.update(jobs)
    return held


def result(holding):
    return (
        dict(holding.sums),
        dict(holding.accounts),
        sorted(holding.needed),
        sorted(other_job.id for other_job in holding.timed()),
    )


def units_of_work(**most):
    """The jobs that each unit of work changed, each once."""
    return st.lists(moments(), unique_by=lambda moment: moment.id, **most)


@given(st.lists(units_of_work()), units_of_work(max_size=3))
def test_the_usage_updated_by_changes_equals_the_usage_of_all_jobs(before, changed):
    held = rebuilt(before)
    last = {other_job.id: other_job for jobs in (*before, changed) for other_job in jobs}

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
