from itertools import count

import pytest

from batchq.domain import status_reasons
from batchq.domain.catalog import State
from batchq.domain.job import Status
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
from tests.support.builders import NOON, attempt, environment, job, job_id, resources

numbers = count(1)
HOST = resources(millicpus=64_000, memory_mib=8_000, gpus=2)
TOO_FAT = status_reasons.too_large([("MiB of memory", 8_001, 8_000)])


class Free:
    """A room, to which resources are offered as jobs."""

    def __init__(self, room):
        self.room = room

    def place_or_reserve(self, wanted, names, **asked):
        return self.room.place_or_reserve(wants(wanted, **asked), names)

    def place_if_no_delay(self, wanted, names, **asked):
        return self.room.place_if_no_delay(wants(wanted, **asked), names)

    def could_hold(self, wanted, names, **asked):
        return self.room.could_hold(wants(wanted, **asked), names)


def room(*environments, host=HOST, active=(), stocks=None, promised=None):
    site = Cluster(environments={it.name: it for it in environments}, host=host, stocks=stocks or {})
    return Free(FreeCapacity(cluster=site, usage=Usage(active).after(()), now=NOON, promised=promised))


def wants(wanted, **asked):
    return Candidate(**{"job_id": job_id(next(numbers)), "order": 0, "resources": wanted} | asked)


def waits(outcome):
    return isinstance(outcome, Insufficient)


def small(**changes):
    return resources(**{"millicpus": 1000, "memory_mib": 1} | changes)


def running(*, on="local", **asked):
    return job(status=Status.RUNNING, attempt=attempt(environment=on), **asked)


# -------------------------------------------------------------------------------------------------------- no overcommit


def test_exactly_fitting_jobs_fit_and_not_a_thousandth_more():
    free = room(environment("local", max_millicpus=2000))

    assert free.place_or_reserve(small(millicpus=1000), ["local"]) == Fits(environment="local")
    assert free.place_or_reserve(small(millicpus=1000), ["local"]) == Fits(environment="local")
    assert waits(free.place_or_reserve(small(millicpus=1), ["local"]))


def test_a_placed_job_uses_memory_of_the_host():
    free = room(environment("local", max_millicpus=64_000))

    assert free.place_or_reserve(small(memory_mib=8_000), ["local"]) == Fits(environment="local")
    assert waits(free.place_or_reserve(small(memory_mib=1), ["local"]))


def test_a_placed_job_uses_gpus_of_the_host():
    free = room(environment("local", max_millicpus=64_000))

    assert free.place_or_reserve(small(gpus=2), ["local"]) == Fits(environment="local")
    assert waits(free.place_or_reserve(small(gpus=1), ["local"]))


def test_memory_and_gpus_are_shared_by_all_environments():
    free = room(environment("a"), environment("b"))

    assert free.place_or_reserve(small(memory_mib=5_000, gpus=1), ["a"]) == Fits(environment="a")
    assert waits(free.place_or_reserve(small(memory_mib=5_000, gpus=1), ["b"]))


def test_each_environment_has_its_own_vcpus():
    free = room(environment("a", max_millicpus=1000), environment("b", max_millicpus=1000))

    assert free.place_or_reserve(small(), ["a"]) == Fits(environment="a")
    assert free.place_or_reserve(small(), ["b"]) == Fits(environment="b")


def test_active_jobs_hold_their_resources():
    free = room(
        environment("local", max_millicpus=4000),
        active=[running(millicpus=3000, memory_mib=100)],
    )

    assert waits(free.place_or_reserve(small(millicpus=2000), ["local"]))
    assert waits(free.place_or_reserve(small(millicpus=1000), ["local"]))  # it may not pass


def test_active_jobs_leave_the_rest():
    free = room(environment("local", max_millicpus=4000), active=[running(millicpus=3000)])

    assert free.place_or_reserve(small(millicpus=1000), ["local"]) == Fits(environment="local")


def test_jobs_of_a_deleted_environment_hold_memory():
    free = room(environment("local"), active=[running(on="deleted", millicpus=4000, memory_mib=7_999, gpus=2)])

    assert free.place_or_reserve(small(memory_mib=1), ["local"]) == Fits(environment="local")
    assert waits(free.place_or_reserve(small(memory_mib=1), ["local"]))


def test_an_environment_reduced_below_its_usage_takes_no_job():
    free = room(environment("local", max_millicpus=2000), active=[running(millicpus=3000)])

    assert waits(free.place_or_reserve(small(millicpus=1), ["local"]))


# ---------------------------------------------------------------------------------------------------------------- where


def test_environments_are_tried_in_the_order_of_the_queue():
    free = room(environment("a"), environment("b"))

    assert free.place_or_reserve(small(), ["b", "a"]) == Fits(environment="b")


def test_the_next_environment_is_used_when_the_first_is_full():
    free = room(environment("a", max_millicpus=1000), environment("b", max_millicpus=1000))

    assert free.place_or_reserve(small(), ["a", "b"]) == Fits(environment="a")
    assert free.place_or_reserve(small(), ["a", "b"]) == Fits(environment="b")


def test_an_environment_too_small_for_the_job_is_skipped():
    free = room(environment("tiny", max_millicpus=500), environment("big"))

    assert free.place_or_reserve(small(), ["tiny", "big"]) == Fits(environment="big")


@pytest.mark.parametrize("names", [["off", "local"], ["gone", "local"]])
def test_a_disabled_or_deleted_environment_is_skipped(names):
    free = room(environment("off", state=State.DISABLED), environment("local"))

    assert free.place_or_reserve(small(), names) == Fits(environment="local")


@pytest.mark.parametrize("names", [["off"], ["gone"], []])
def test_without_an_enabled_environment_a_job_waits_and_blocks_no_other(names):
    free = room(environment("off", state=State.DISABLED), environment("local"))

    assert waits(free.place_or_reserve(small(millicpus=999_999), names))
    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")


# ------------------------------------------------------------------------------------------------------------ hold back


def test_a_smaller_job_does_not_pass_a_waiting_one():
    free = room(environment("local", max_millicpus=4000), active=[running(millicpus=1000)])

    assert waits(free.place_or_reserve(small(millicpus=4000), ["local"]))
    assert waits(free.place_or_reserve(small(millicpus=1000), ["local"]))


def test_a_waiting_job_blocks_every_environment_it_waits_for():
    full = [running(on="a", millicpus=4000), running(on="b", millicpus=1000)]
    free = room(environment("a"), environment("b"), active=full)

    assert waits(free.place_or_reserve(small(millicpus=4000), ["a", "b"]))
    assert waits(free.place_or_reserve(small(), ["b"]))


def test_other_environments_stay_open():
    free = room(environment("full"), environment("free"), active=[running(on="full", millicpus=4000)])

    assert waits(free.place_or_reserve(small(), ["full"]))
    assert free.place_or_reserve(small(), ["full", "free"]) == Fits(environment="free")


def test_a_job_that_waits_for_vcpus_leaves_environments_too_small_for_it_open():
    free = room(environment("big"), environment("tiny", max_millicpus=1000), active=[running(on="big")])

    assert waits(free.place_or_reserve(small(millicpus=4000), ["tiny", "big"]))
    assert free.place_or_reserve(small(), ["tiny"]) == Fits(environment="tiny")
    assert waits(free.place_or_reserve(small(), ["big"]))


def test_a_job_that_waits_for_memory_blocks_all_others():
    free = room(environment("a"), environment("b"), active=[running(on="a", memory_mib=100)])

    assert waits(free.place_or_reserve(small(memory_mib=8_000), ["a"]))
    assert waits(free.place_or_reserve(small(), ["b"]))


def test_a_job_that_waits_for_gpus_blocks_jobs_with_gpus():
    free = room(environment("a"), environment("b"), active=[running(on="a", gpus=1)])

    assert waits(free.place_or_reserve(small(gpus=2), ["a"]))
    assert waits(free.place_or_reserve(small(gpus=1), ["b"]))
    assert free.place_or_reserve(small(), ["b"]) == Fits(environment="b")


def test_a_second_waiting_job_blocks_its_environments_too():
    full = [running(on="a", millicpus=4000), running(on="b", millicpus=1000)]
    free = room(environment("a"), environment("b"), active=full)

    assert waits(free.place_or_reserve(small(millicpus=1000), ["a"]))
    assert waits(free.place_or_reserve(small(millicpus=4000), ["a", "b"]))
    assert waits(free.place_or_reserve(small(millicpus=1000), ["b"]))


def test_a_job_that_fits_blocks_no_other():
    free = room(environment("local", max_millicpus=2000))

    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")
    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")


# ---------------------------------------------------------------------------------------------------- unschedulable


def test_more_vcpus_than_any_environment_has_is_unschedulable():
    free = room(environment("a", max_millicpus=2000), environment("b", max_millicpus=4000))

    assert free.place_or_reserve(small(millicpus=4001), ["a", "b"]) == Unschedulable(
        reason=f"{status_reasons.TOO_MANY_VCPUS} It asks for 4.001 vCPUs, the largest CE has 4."
    )
    assert free.place_or_reserve(small(millicpus=4000), ["a", "b"]) == Fits(environment="b")


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


def test_an_unschedulable_job_blocks_no_other():
    free = room(environment("local"))

    assert free.place_or_reserve(small(millicpus=999_999), ["local"]) == Unschedulable(
        reason=status_reasons.too_many_vcpus(999_999, 4000)
    )
    assert free.place_or_reserve(small(memory_mib=8_001), ["local"]) == Unschedulable(reason=TOO_FAT)
    assert free.place_or_reserve(small(), ["local"]) == Fits(environment="local")


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
