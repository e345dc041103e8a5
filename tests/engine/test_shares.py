"""A queue with a fair-share policy, after_placement by units of work from the store."""

import asyncio
from datetime import timedelta

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import Owner
from batchq.domain.catalog import SchedulingPolicy, ShareWeight
from batchq.domain.enums import Status
from batchq.domain.scheduling.fairshare import MAX_SHARES, ShareKey, ShareUse
from batchq.engine.account_limits import AccountPolicies
from batchq.errors import Invalid
from batchq.ports.jobs import Changes
from tests.domain.lives import after, exited, placed, runnable, running, submitted
from tests.engine.harness import (
    SURVEYED,
    after_placement,
    catalog_of,
    environments_of,
    harness_with,
    new_unit,
    run_placement,
    stored,
    submit,
)
from tests.support.builders import NOON, PEOPLE, environment, job_id, queue


def policy(reservation=0, **weights):
    shares = tuple(ShareWeight(identifier=name, weight=weight) for name, weight in weights.items())
    return SchedulingPolicy(
        name="fair", shares=shares, decay=timedelta(), reservation=reservation, document="{}", created_at=NOON
    )


def fair(*environments, reservation=0, **weights):
    """The queue named default goes by shares."""
    return catalog_of(
        queue(policy="fair"), environments=environments or None, policies=[policy(reservation, **weights)]
    )


def waiting(share, **fields):
    return runnable(share_identifier=share, **fields)


async def test_a_share_of_half_the_weight_gets_twice_as_much():
    first = [waiting("red", millicpus=500) for _ in range(8)]
    second = [waiting("blue", millicpus=500) for _ in range(8)]
    store = await stored(*first, *second)

    unit = await after_placement(store, fair(environment(max_millicpus=3000), red=1.0, blue=0.5))

    assert environments_of(unit, *first).count("local") == 2
    assert environments_of(unit, *second).count("local") == 4


async def test_the_share_with_less_usage_is_first():
    red, blue = waiting("red", millicpus=4000), waiting("blue", millicpus=4000)
    store = await stored(red, blue)

    unit = await after_placement(store, fair(), uses={ShareKey("default", "red"): ShareUse(used=1.0, as_of=NOON)})

    assert environments_of(unit, red, blue) == [None, "local"]


async def test_a_job_changed_in_this_unit_of_work_is_ordered_in_its_share():
    old = waiting("red", millicpus=4000)
    urgent = submitted(share_identifier="red", scheduling_priority=9, millicpus=4000)
    store = await stored(old)
    unit = new_unit()
    unit.insert(urgent, None)
    unit.step(urgent.id, on.DependenciesMet())

    await run_placement(unit, store, fair())

    assert environments_of(unit, old, urgent) == [None, "local"]


async def test_a_share_new_in_this_unit_of_work_is_considered():
    new, store = submitted(share_identifier="green"), await stored()
    unit = new_unit()
    unit.insert(new, None)
    unit.step(new.id, on.DependenciesMet())

    await run_placement(unit, store, fair())

    assert environments_of(unit, new) == ["local"]


async def test_a_job_of_another_share_does_not_pass_a_job_that_does_not_fit():
    runs = running(millicpus=2000)
    head, small = waiting("a", millicpus=3000), waiting("b", millicpus=1000)
    store = await stored(runs, head, small)

    unit = new_unit(runs)
    result = await run_placement(unit, store, fair())

    assert environments_of(unit, head, small) == [None, None]
    assert result.heads["default"].job_id == head.id


@pytest.mark.parametrize(("active", "placed_of_four"), [(1, 2), (2, 3)])
async def test_a_reservation_keeps_capacity_for_inactive_shares(active, placed_of_four):
    jobs = [waiting("red") for _ in range(4)]
    store = await stored(*jobs)
    uses = {ShareKey("default", str(number)): ShareUse(active=1, as_of=NOON) for number in range(active)}
    unit = new_unit()

    result = await run_placement(unit, store, fair(reservation=50), uses=uses)

    assert environments_of(unit, *jobs).count("local") == placed_of_four
    assert result.heads["default"].reason == status_reasons.KEPT_FOR_SHARES


async def test_capacity_reserved_for_shares_is_available_to_other_queues():
    jobs, other = [waiting("red") for _ in range(4)], runnable(queue="other", millicpus=2000)
    store = await stored(*jobs, other)
    catalog = catalog_of(queue(policy="fair"), queue("other", priority=0), policies=[policy(reservation=50)])
    uses = {ShareKey("default", "red"): ShareUse(active=4, as_of=NOON)}

    unit = await after_placement(store, catalog, uses=uses)

    assert environments_of(unit, other) == ["local"]


async def test_a_job_larger_than_the_unreserved_capacity_is_placed_when_its_queue_is_idle():
    large = waiting("red", millicpus=3000)
    store = await stored(large)
    uses = {ShareKey("default", "red"): ShareUse(active=1, as_of=NOON)}

    unit = await after_placement(store, fair(reservation=50), uses=uses)

    assert environments_of(unit, large) == ["local"]


async def test_running_jobs_of_the_queue_count_against_the_reservation():
    runs = after(waiting("red", millicpus=2000), placed())
    waits = waiting("red", millicpus=1000)
    store = await stored(runs, waits)
    uses = {ShareKey("default", "red"): ShareUse(active=2, millicpus=2000, as_of=NOON)}

    unit = await after_placement(store, fair(environment(max_millicpus=5000), reservation=50), uses=uses)

    assert environments_of(unit, waits) == [None]


async def test_disabled_environments_do_not_count_for_the_reservation():
    jobs = [waiting("red") for _ in range(4)]
    store = await stored(*jobs)
    catalog = catalog_of(
        queue(policy="fair", environments=("local", "off")),
        environments=[environment(), environment("off", state="DISABLED")],
        policies=[policy(reservation=50)],
    )
    uses = {ShareKey("default", "red"): ShareUse(active=1, as_of=NOON)}

    unit = await after_placement(store, catalog, uses=uses)

    assert environments_of(unit, *jobs).count("local") == 2


@pytest.mark.fault("TM07")
async def test_a_retried_job_is_placed_before_younger_jobs_of_its_share():
    again = running(share_identifier="red", attempts=2, millicpus=4000)
    waits = waiting("red", millicpus=4000)
    store = await stored(again, waits)
    unit = new_unit(again)
    unit.step(again.id, exited(1))

    await run_placement(unit, store, fair())

    assert environments_of(unit, again, waits) == ["local", None]
    assert unit.get(again.id).status is Status.STARTING


async def test_one_active_share_too_many_is_refused():
    catalog = fair()
    harness = await harness_with(catalog=catalog)
    uses = {ShareKey("default", str(number)): ShareUse(active=1, as_of=NOON) for number in range(MAX_SHARES - 1)}
    await harness.store.commit(Changes(shares=tuple(uses.items())))
    await harness.loop.load()
    last, known, more = (
        submit(job_id(number), share_identifier=name) for number, name in ((1, "new"), (2, "7"), (3, "more"))
    )

    await harness.process(last, known, more)

    assert (last.answer.exception(), known.answer.exception()) == (None, None)
    assert isinstance(more.answer.exception(), Invalid)


@pytest.mark.fault("SE94")
async def test_one_user_does_not_take_all_shares_of_a_queue():
    harness = await harness_with(catalog=fair(), accounts=AccountPolicies(directory=lambda: PEOPLE, enforced=True))
    ann, bob = Owner(account="lab", user="ann"), Owner(account="lab", user="bob")
    own = [submit(job_id(number), share_identifier=str(number), owner=ann) for number in range(MAX_SHARES // 2 + 1)]
    of_bob, further = (
        submit(job_id(number), share_identifier=str(number), owner=who) for number, who in ((1000, bob), (1001, ann))
    )

    await harness.process(*own)
    await harness.process(of_bob)
    await harness.loop.load()
    await harness.process(further)

    assert [made.answer.exception() for made in (own[-2], of_bob)] == [None, None]
    assert "The other 250 are left for other users" in str(own[-1].answer.exception())
    assert isinstance(further.answer.exception(), Invalid)


async def test_an_unschedulable_job_does_not_wait_for_its_share():
    runs, huge, small = running(millicpus=1000), waiting("red", millicpus=9000), waiting("red")
    store = await stored(runs, huge, small)
    uses = {ShareKey("default", "red"): ShareUse(active=3, millicpus=1000, as_of=NOON)}
    unit = new_unit(runs)

    await run_placement(unit, store, fair(reservation=50), uses=uses)

    assert unit.get(huge.id).unschedulable
    assert environments_of(unit, small) == ["local"]


async def test_the_order_of_shares_follows_the_decay_of_usage():
    runs = running(share_identifier="red", millicpus=2000)
    red, blue = waiting("red", millicpus=4000), waiting("blue", millicpus=1000)
    harness = await harness_with(runs, red, blue, catalog=fair())
    uses = {"red": ShareUse(active=2, millicpus=2000, as_of=NOON), "blue": ShareUse(active=1, used=6e5, as_of=NOON)}
    await harness.store.commit(Changes(shares=tuple((ShareKey("default", key), use) for key, use in uses.items())))
    await harness.loop.load()
    await harness.process(SURVEYED)
    assert await harness.status(blue) is Status.RUNNABLE
    following = asyncio.create_task(harness.loop.revisit_shares())

    while await harness.status(blue) is Status.RUNNABLE:
        await harness.process(*await harness.mailbox.take(10))

    following.cancel()
    assert harness.loop._clock.now() - NOON < timedelta(minutes=20)
