"""Which jobs may start before a waiting head, and which may not."""

from datetime import timedelta
from itertools import count

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.job import ConsumableRequirement
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.backfill import START_ALLOWANCE, STOP_ALLOWANCE
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity, Insufficient, Unschedulable
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Stock, Usage
from tests.domain.lives import after, at, running, terminate
from tests.support.builders import NOON, attempt, environment, job, job_id, resources

HOST = resources(millicpus=64_000, memory_mib=8_000, gpus=2)
LOCAL = Fits(environment="local")
ALLOWANCES = START_ALLOWANCE + STOP_ALLOWANCE
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)

numbers = count(1)


def room(*active, environments=None, now=NOON, promised=None, **stocks):
    """By default an environment with four vCPUs."""
    by_name = {
        other_environment.name: other_environment
        for other_environment in environments or [environment(max_millicpus=4000)]
    }
    site = Cluster(environments=by_name, machines=MachineSet(one_machine(HOST), by_name.values()), stocks=stocks)
    return FreeCapacity(cluster=site, usage=Usage(active).after(()), now=now, promised=promised)


def one(*needs, longest=None, number=None, **fields):
    return Candidate(
        job_id=job_id(next(numbers) if number is None else number),
        sequence=0,
        resources=resources(**{"memory_mib": 1} | fields),
        requirements=needs,
        timeout=longest,
    )


def under_way(*, started_at=NOON, on="local", **fields):
    """RUNNING since noon."""
    return job(status=Status.RUNNING, attempt=attempt(environment=on, started_at=started_at), **fields)


def need(quantity, resource="licence"):
    return ConsumableRequirement(resource=resource, quantity=quantity)


def licences(amount, *, returns=True):
    return Stock(amount=amount, returns=returns)


HEAD = one(millicpus=4000)
SOON = one(longest=MINUTE)
ENDS_IN_AN_HOUR = under_way(millicpus=1000, timeout=HOUR, stop_grace=timedelta())
TWO = [environment(), environment("other")]


def starts(room, candidate, names=("local",)):
    """Whether the candidate starts behind a waiting head."""
    return isinstance(room.place_if_no_delay(candidate, names), Fits)


@pytest.mark.parametrize(
    ("active", "head", "most"),
    [
        ([under_way(gpus=2)], one(millicpus=1000, gpus=1), one(millicpus=2000)),
        ([under_way(millicpus=1000)], None, one(millicpus=3000)),
    ],
    ids=["beside the reservation", "without a head"],
)
def test_capacity_beside_the_head_may_be_used_once(active, head, most):
    free = room(*active)
    if head is None:
        assert not starts(free, HEAD)
    else:
        assert isinstance(free.place_or_reserve(head, ["local"]), Insufficient)

    assert starts(free, most)
    assert not starts(free, one(millicpus=1))


def test_memory_of_the_head_is_reserved_in_all_environments():
    free = room(under_way(millicpus=4000, memory_mib=1), environments=TWO)
    assert isinstance(free.place_or_reserve(one(memory_mib=6_000), ["local"]), Insufficient)

    assert not starts(free, one(memory_mib=2_000), ["other"])
    assert starts(free, one(memory_mib=1_999), ["other"])


def test_reservations_of_two_heads_are_added():
    free = room(under_way(gpus=2))
    for _ in range(2):
        free.place_or_reserve(one(millicpus=1000, gpus=1), ["local"])

    assert not starts(free, one(millicpus=1001))
    assert starts(free, one(millicpus=1000))


@pytest.mark.parametrize(
    ("active", "longest", "expected"),
    [
        ([ENDS_IN_AN_HOUR], HOUR - ALLOWANCES - MINUTE, True),
        ([ENDS_IN_AN_HOUR], HOUR - ALLOWANCES, False),
        ([ENDS_IN_AN_HOUR], None, False),
        ([under_way(millicpus=1000, timeout=HOUR, stop_grace=2 * MINUTE)], HOUR - ALLOWANCES + MINUTE, True),
        ([under_way(millicpus=1000), ENDS_IN_AN_HOUR], MINUTE, False),
        ([after(running(stop_grace=HOUR), terminate())], MINUTE, True),
        ([job(status=Status.STARTING, timeout=HOUR)], HOUR - MINUTE, True),
        ([job(status=Status.STARTING, timeout=HOUR)], HOUR, False),
    ],
    ids=[
        "ends before the start of the head",
        "may end later",
        "has no timeout",
        "the grace period of a running job counts",
        "the start of the head is not known",
        "a stopping job ends within its grace period",
        "a job that has not started has its whole timeout",
        "a job that has not started ends before",
    ],
)
def test_a_job_that_ends_before_the_known_start_of_the_head_may_use_its_capacity(active, longest, expected):
    free = room(*active)
    free.place_or_reserve(HEAD, ["local"])

    assert starts(free, one(longest=longest)) is expected


def test_only_the_necessary_ends_are_counted():
    free = room(under_way(millicpus=1000), under_way(millicpus=2000, timeout=HOUR))
    free.place_or_reserve(one(millicpus=3000), ["local"])

    assert starts(free, SOON)


def test_ends_in_other_environments_do_not_count():
    free = room(under_way(millicpus=1000, timeout=HOUR, on="other"), under_way(), environments=TWO)
    free.place_or_reserve(HEAD, ["local"])

    assert not starts(free, SOON)


def test_the_first_environment_with_capacity_counts():
    free = room(under_way(timeout=HOUR, on="other"), under_way(timeout=3 * HOUR), environments=TWO)
    free.place_or_reserve(HEAD, ["local", "other"])

    assert not starts(free, one(longest=2 * HOUR))
    assert starts(free, one(longest=HOUR / 2))


def test_a_job_past_its_timeout_may_end_at_once():
    free = room(under_way(millicpus=1000, timeout=MINUTE), now=at(3600))
    free.place_or_reserve(HEAD, ["local"])

    assert not starts(free, one(longest=timedelta(seconds=1)))


def test_a_second_head_does_not_count_on_reserved_capacity():
    free = room(ENDS_IN_AN_HOUR)
    free.place_or_reserve(HEAD, ["local"])
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert not starts(free, SOON)


def test_a_promised_start_is_never_postponed():
    slow = job(status=Status.STARTING, timeout=HOUR)
    first = room(slow)
    first.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    later = room(slow, now=at(1800), promised=first.promises)
    later.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    assert later.promises == first.promises
    assert not starts(later, one(longest=HOUR / 2))


def test_a_promised_start_may_become_earlier():
    first = room(under_way(millicpus=1000, timeout=3 * HOUR))
    first.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    later = room(under_way(millicpus=1000, timeout=HOUR), promised=first.promises)
    later.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    assert later.promises[job_id(7)] < first.promises[job_id(7)]


# ------------------------------------------------------------------------------------------------- consumable resources


def test_units_in_use_are_not_available():
    free = room(under_way(needs=(need(2),)), licence=licences(3))

    assert [starts(free, one(need(quantity))) for quantity in (2, 1, 1)] == [False, True, False]


def test_consumed_units_are_counted_once():
    assert starts(room(under_way(needs=(need(2),)), licence=licences(1, returns=False)), one(need(1)))


def test_a_job_with_more_units_than_exist_is_unschedulable():
    free = room(licence=licences(3))

    for needs in ([need(4)], [need(2), need(2)]):
        assert free.place_or_reserve(one(*needs), ["local"]) == Unschedulable(
            reason=status_reasons.too_many_units("licence", 4, 3)
        )


def test_a_job_with_an_unknown_resource_is_unschedulable():
    assert room().place_or_reserve(one(need(1)), ["local"]) == Unschedulable(
        reason=status_reasons.no_such_resource("licence")
    )


def test_a_job_is_unschedulable_when_all_units_were_consumed():
    free = room(token=licences(3, returns=False))

    assert free.place_or_reserve(one(need(2, "token")), ["local"]) == LOCAL
    assert free.place_or_reserve(one(need(2, "token")), ["local"]) == Unschedulable(
        reason=status_reasons.too_many_units("token", 2, 1)
    )


def test_reserved_units_do_not_block_jobs_without_units():
    free = room(under_way(needs=(need(2),)), licence=licences(3))
    free.place_or_reserve(one(need(2), millicpus=1000), ["local"])

    assert not starts(free, one(need(1)))
    assert starts(free, one(millicpus=2000))


def test_units_are_released_at_the_timeout():
    free = room(under_way(needs=(need(2),), timeout=HOUR), licence=licences(3))
    free.place_or_reserve(one(need(3)), ["local"])

    assert starts(free, one(need(1), longest=MINUTE))


# -------------------------------------------------------------------------------------------------------------- reasons


@pytest.mark.parametrize(
    ("fields", "waits_for"),
    [
        ({"millicpus": 4000}, "vCPUs of compute environment local"),
        ({"memory_mib": 8_000}, "memory"),
        ({"gpus": 2}, "GPUs"),
        ({"millicpus": 4000, "gpus": 2}, "vCPUs of compute environment local, GPUs"),
    ],
)
def test_the_reason_names_the_lacking_resources(fields, waits_for):
    outcome = room(under_way(millicpus=1000, gpus=1)).place_or_reserve(one(**fields), ["local"])

    text = f"CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for {waits_for}."
    assert outcome == Insufficient(reason=text)


def test_the_reason_names_the_lacking_consumable_resource():
    outcome = room(under_way(needs=(need(2),)), licence=licences(3)).place_or_reserve(one(need(2)), ["local"])

    assert outcome == Insufficient(reason=status_reasons.no_room("consumable resource licence"))


def test_the_reason_names_that_no_environment_is_enabled():
    assert room().place_or_reserve(one(), ["gone"]) == Insufficient(reason=status_reasons.NO_ENVIRONMENT)


# --------------------------------------------------------------------------------------------------------------- closed


def test_a_full_environment_is_closed():
    assert room(under_way(millicpus=4000)).closed(["local"])
    assert not room(under_way(millicpus=3999)).closed(["local"])


def test_a_reservation_for_a_known_start_keeps_the_environment_open():
    known, unknown = room(under_way(timeout=HOUR)), room(under_way())
    known.place_or_reserve(one(millicpus=4000), ["local"])
    unknown.place_or_reserve(one(millicpus=4000), ["local"])

    assert not known.closed(["local"])
    assert unknown.closed(["local"])
