"""Which jobs may start before a waiting head, and which may not."""

from datetime import timedelta
from itertools import count

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import ConsumableRequirement, Status
from batchq.domain.scheduling.backfill import START_ALLOWANCE, STOP_ALLOWANCE
from batchq.domain.scheduling.capacity import (
    Candidate,
    Cluster,
    Fits,
    FreeCapacity,
    Insufficient,
    Unschedulable,
)
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
    by_name = {it.name: it for it in environments or [environment(max_millicpus=4000)]}
    site = Cluster(environments=by_name, host=HOST, stocks=stocks)
    return FreeCapacity(cluster=site, usage=Usage(active).after(()), now=now, promised=promised)


def one(*needs, longest=None, number=None, **fields):
    return Candidate(
        job_id=job_id(next(numbers) if number is None else number),
        order=0,
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


# ----------------------------------------------------------------------------------------------------------- beside it


def test_capacity_beside_the_head_may_be_used():
    free = room(under_way(gpus=2))
    assert isinstance(free.place_or_reserve(one(millicpus=1000, gpus=1), ["local"]), Insufficient)

    assert free.place_if_no_delay(one(millicpus=2000), ["local"]) == LOCAL
    assert isinstance(free.place_if_no_delay(one(millicpus=1), ["local"]), Insufficient)


def test_memory_of_the_head_is_reserved_too():
    free = room(under_way(millicpus=4000, memory_mib=1), environments=[environment(), environment("other")])
    assert isinstance(free.place_or_reserve(one(memory_mib=6_000), ["local"]), Insufficient)

    assert isinstance(free.place_if_no_delay(one(memory_mib=2_000), ["other"]), Insufficient)
    assert free.place_if_no_delay(one(memory_mib=1_999), ["other"]) == Fits(environment="other")


def test_a_backfill_candidate_that_does_not_fit_reserves_nothing():
    free = room(under_way(millicpus=1000))

    assert isinstance(free.place_if_no_delay(one(millicpus=4000), ["local"]), Insufficient)
    assert free.place_if_no_delay(one(millicpus=3000), ["local"]) == LOCAL


def test_reservations_of_two_heads_are_added():
    free = room(under_way(gpus=2))
    free.place_or_reserve(one(millicpus=1000, gpus=1), ["local"])
    free.place_or_reserve(one(millicpus=1000, gpus=1), ["local"])

    assert isinstance(free.place_if_no_delay(one(millicpus=1001), ["local"]), Insufficient)
    assert free.place_if_no_delay(one(millicpus=1000), ["local"]) == LOCAL


# ----------------------------------------------------------------------------------------------- before its known start


def test_a_job_that_ends_before_the_known_start_may_use_reserved_capacity():
    free = room(under_way(millicpus=1000, timeout=HOUR, stop_grace=timedelta()))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert free.place_if_no_delay(one(longest=HOUR - ALLOWANCES - MINUTE), ["local"]) == LOCAL


@pytest.mark.parametrize("longest", [None, HOUR - ALLOWANCES])
def test_a_job_that_may_end_later_may_not_use_reserved_capacity(longest):
    free = room(under_way(millicpus=1000, timeout=HOUR, stop_grace=timedelta()))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert isinstance(free.place_if_no_delay(one(longest=longest), ["local"]), Insufficient)


def test_the_grace_period_of_running_jobs_counts():
    free = room(under_way(millicpus=1000, timeout=HOUR, stop_grace=2 * MINUTE))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert free.place_if_no_delay(one(longest=HOUR - ALLOWANCES + MINUTE), ["local"]) == LOCAL


def test_without_timeouts_the_start_is_unknown():
    free = room(under_way(millicpus=1000), under_way(millicpus=1000, timeout=HOUR))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert isinstance(free.place_if_no_delay(one(longest=MINUTE), ["local"]), Insufficient)


def test_only_the_necessary_ends_are_counted():
    free = room(under_way(millicpus=1000), under_way(millicpus=2000, timeout=HOUR))
    free.place_or_reserve(one(millicpus=3000), ["local"])

    assert free.place_if_no_delay(one(longest=MINUTE), ["local"]) == LOCAL


def test_ends_in_other_environments_do_not_count():
    environments = [environment(), environment("other")]
    free = room(under_way(millicpus=1000, timeout=HOUR, on="other"), under_way(), environments=environments)
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert isinstance(free.place_if_no_delay(one(longest=MINUTE), ["local"]), Insufficient)


def test_the_first_environment_with_capacity_counts():
    environments = [environment(), environment("other")]
    soon, late = under_way(timeout=HOUR, on="other"), under_way(timeout=3 * HOUR)
    free = room(soon, late, environments=environments)
    free.place_or_reserve(one(millicpus=4000), ["local", "other"])

    assert isinstance(free.place_if_no_delay(one(longest=2 * HOUR), ["local"]), Insufficient)
    assert free.place_if_no_delay(one(longest=HOUR / 2), ["local"]) == LOCAL


def test_a_job_past_its_timeout_may_end_at_once():
    free = room(under_way(millicpus=1000, timeout=MINUTE), now=at(3600))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert isinstance(free.place_if_no_delay(one(longest=timedelta(seconds=1)), ["local"]), Insufficient)


def test_a_stopping_job_ends_within_its_grace_period():
    free = room(after(running(stop_grace=HOUR), terminate()))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert free.place_if_no_delay(one(longest=MINUTE), ["local"]) == LOCAL


def test_a_job_that_has_not_started_has_its_whole_timeout():
    free = room(job(status=Status.STARTING, timeout=HOUR))
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert free.place_if_no_delay(one(longest=HOUR - MINUTE), ["local"]) == LOCAL
    assert isinstance(free.place_if_no_delay(one(longest=HOUR), ["local"]), Insufficient)


def test_a_second_head_does_not_count_on_reserved_capacity():
    free = room(under_way(millicpus=1000, timeout=HOUR))
    free.place_or_reserve(one(millicpus=4000), ["local"])
    free.place_or_reserve(one(millicpus=4000), ["local"])

    assert isinstance(free.place_if_no_delay(one(longest=MINUTE), ["local"]), Insufficient)


def test_a_promised_start_is_never_postponed():
    slow = job(status=Status.STARTING, timeout=HOUR)
    first = room(slow)
    first.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    later = room(slow, now=at(1800), promised=first.promises)
    later.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    assert later.promises == first.promises
    assert isinstance(later.place_if_no_delay(one(longest=HOUR / 2), ["local"]), Insufficient)


def test_a_promised_start_may_become_earlier():
    first = room(under_way(millicpus=1000, timeout=3 * HOUR))
    first.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    later = room(under_way(millicpus=1000, timeout=HOUR), promised=first.promises)
    later.place_or_reserve(one(millicpus=4000, number=7), ["local"])

    assert later.promises[job_id(7)] < first.promises[job_id(7)]


# ------------------------------------------------------------------------------------------------- consumable resources


def test_units_in_use_are_not_available():
    free = room(under_way(needs=(need(2),)), licence=licences(3))

    assert isinstance(free.place_if_no_delay(one(need(2)), ["local"]), Insufficient)
    assert free.place_if_no_delay(one(need(1)), ["local"]) == LOCAL
    assert isinstance(free.place_if_no_delay(one(need(1)), ["local"]), Insufficient)


def test_consumed_units_are_counted_once():
    free = room(under_way(needs=(need(2),)), licence=licences(1, returns=False))

    assert free.place_if_no_delay(one(need(1)), ["local"]) == LOCAL


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

    assert isinstance(free.place_if_no_delay(one(need(1)), ["local"]), Insufficient)
    assert free.place_if_no_delay(one(millicpus=2000), ["local"]) == LOCAL


def test_units_are_released_at_the_timeout():
    free = room(under_way(needs=(need(2),), timeout=HOUR), licence=licences(3))
    free.place_or_reserve(one(need(3)), ["local"])

    assert free.place_if_no_delay(one(need(1), longest=MINUTE), ["local"]) == LOCAL


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
