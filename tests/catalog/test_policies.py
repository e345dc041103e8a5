"""Scheduling policies, and the queues that use them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.catalog import SchedulingPolicy, ShareWeight
from batchq.errors import Invalid, NotFound
from tests.catalog.making import disabled_queue, make_environment, make_policy, make_queue
from tests.support.builders import ADMIN, queue


def weights(*identifiers):
    return tuple(ShareWeight(identifier=it) for it in identifiers)


@pytest.mark.parametrize(
    "identifiers", [("a", "a"), ("a*", "a"), ("b", "a*", "a1"), ("a*", "c", "a1*"), ("a1*", "b*", "a*"), ("a*", "a*")]
)
async def test_shares_must_not_overlap(catalog, store, identifiers):
    with pytest.raises(Invalid, match="overlap"):
        await make_policy(catalog, shares=weights(*identifiers))

    assert await store.resources(SchedulingPolicy) == ()


@pytest.mark.parametrize("identifiers", [(), ("a",), ("a1*", "a2*", "a", "b"), ("a", "A", "aa*"), ("ab*", "a", "b*")])
async def test_shares_that_do_not_overlap_are_accepted(catalog, identifiers):
    made = await make_policy(catalog, shares=weights(*identifiers))

    assert made.shares == weights(*identifiers)


def overlap(one, other):
    covers = one.endswith("*") and other.startswith(one[:-1])
    return covers or one == other


@given(some.lists(some.from_regex(r"\A[ab]{1,3}\*?\Z"), max_size=6))
def test_a_share_that_covers_another_overlaps_it(identifiers):
    pairs = [(one, other) for at, one in enumerate(identifiers) for other in identifiers[:at] + identifiers[at + 1 :]]
    refused = False

    try:
        rules.require_disjoint_shares(weights(*identifiers))
    except Invalid:
        refused = True

    assert refused == any(overlap(one, other) for one, other in pairs)


async def test_an_invalid_update_changes_nothing(catalog):
    made = await make_policy(catalog)

    with pytest.raises(NotFound, match="SchedulingPolicy other not found"):
        await catalog.scheduling_policies.update("other", lambda it: it, caller=ADMIN)
    with pytest.raises(Invalid, match="overlap"):
        await catalog.scheduling_policies.update(
            "fair", lambda it: replace(it, shares=weights("a*", "a1")), caller=ADMIN
        )

    assert catalog.policies == {"fair": made}


# -------------------------------------------------------------------------------------------------------------- queues


@pytest.fixture
async def fair_queue(catalog):
    await make_environment(catalog)
    await make_policy(catalog)
    return await disabled_queue(catalog, policy="fair")


async def test_the_policy_of_a_queue_must_exist(catalog, reopened, fair_queue):
    with pytest.raises(NotFound, match="SchedulingPolicy other not found"):
        await make_queue(catalog, "another", policy="other")

    assert (await reopened()).queues == {"default": fair_queue}
    assert fair_queue.policy == "fair"


async def test_a_policy_in_use_cannot_be_deleted(catalog, fair_queue):
    with pytest.raises(Invalid, match=r"^Cannot delete, found existing JobQueue relationship$"):
        await catalog.scheduling_policies.delete("fair", caller=ADMIN)
    await catalog.job_queues.delete("default", caller=ADMIN)

    await catalog.scheduling_policies.delete("fair", caller=ADMIN)

    assert catalog.policies == {}


async def test_the_policy_of_a_queue_can_be_replaced_and_not_removed(catalog, fair_queue):
    await make_policy(catalog, "other")

    await catalog.job_queues.update("default", lambda it: replace(it, policy="other"), caller=ADMIN)
    with pytest.raises(Invalid, match="cannot be removed"):
        await catalog.job_queues.update("default", lambda it: replace(it, policy=None), caller=ADMIN)
    with pytest.raises(NotFound):
        await catalog.job_queues.update("default", lambda it: replace(it, policy="nothing"), caller=ADMIN)

    assert catalog.queues["default"] == replace(fair_queue, policy="other")


async def test_a_queue_created_without_a_policy_gets_none(catalog):
    await make_environment(catalog)
    await make_policy(catalog)
    await make_queue(catalog)

    with pytest.raises(Invalid, match="none can be added"):
        await catalog.job_queues.update("default", lambda it: replace(it, policy="fair"), caller=ADMIN)

    assert catalog.queues == {"default": queue()}
