"""Scheduling policies, and the queues that use them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.catalog import ShareWeight
from batchq.errors import Invalid, NotFound
from tests.catalog.making import disabled_queue, make_environment, make_policy
from tests.support.builders import ADMIN


def weights(*identifiers):
    return tuple(ShareWeight(identifier=it) for it in identifiers)


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


# -------------------------------------------------------------------------------------------------------------- queues


@pytest.fixture
async def fair_queue(catalog):
    await make_environment(catalog)
    await make_policy(catalog)
    return await disabled_queue(catalog, policy="fair")


async def test_the_policy_of_a_queue_can_be_replaced_and_not_removed(catalog, fair_queue):
    await make_policy(catalog, "other")

    await catalog.job_queues.update("default", lambda it: replace(it, policy="other"), caller=ADMIN)
    with pytest.raises(Invalid, match="cannot be removed"):
        await catalog.job_queues.update("default", lambda it: replace(it, policy=None), caller=ADMIN)
    with pytest.raises(NotFound):
        await catalog.job_queues.update("default", lambda it: replace(it, policy="nothing"), caller=ADMIN)

    assert catalog.queues["default"] == replace(fair_queue, policy="other")
