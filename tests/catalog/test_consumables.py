"""Consumable resources: their totals, units that jobs consumed, and repeated updates."""

import asyncio
from datetime import timedelta

import pytest

from batchq.domain.catalog import QuantityOperation, ResourceKind
from batchq.errors import Invalid
from batchq.services import catalog as catalog_service
from batchq.services.catalog import CatalogService, Quantities
from tests.catalog.conftest import make_consumable
from tests.support.builders import ADMIN, NOON
from tests.support.stubs import BOTTOMLESS, FixedUsage

LICENCES = "licences"
MOST = 2**63 - 1


class HandClock:
    now_is = NOON

    def now(self):
        return self.now_is


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
async def catalog(store, changed, clock):
    catalog = CatalogService(store=store, jobs=store, clock=clock, disk_guard=BOTTOMLESS, changed=changed)
    await catalog.load()
    return catalog


@pytest.fixture
def update(catalog):
    async def update(operation, quantity, token=None):
        operation = QuantityOperation(operation)
        await catalog.consumable_resources.change_total(
            LICENCES, operation=operation, quantity=quantity, token=token, caller=ADMIN
        )
        return total(catalog)

    return update


def total(catalog):
    return catalog.consumable_resources.quantities(catalog.consumables[LICENCES]).total


async def test_the_number_of_resources_is_limited_as_in_aws(catalog, monkeypatch):
    monkeypatch.setattr(catalog_service, "MAX_RESOURCES", 2)
    await make_consumable(catalog, "a")
    await make_consumable(catalog, "b")

    with pytest.raises(Invalid, match="at most 2"):
        await make_consumable(catalog, "c")

    assert sorted(catalog.consumables) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (("SET", 0), 0),
        (("SET", MOST), MOST),
        (("ADD", 0), 10),
        (("ADD", MOST - 10), MOST),
        (("REMOVE", 3), 7),
        (("REMOVE", 10), 0),
    ],
)
async def test_a_total_is_set_increased_and_decreased(catalog, reopened, update, change, left):
    await make_consumable(catalog)

    assert await update(*change) == left
    assert (await reopened()).consumables[LICENCES].total == left


async def test_concurrent_changes_are_all_applied(catalog, update):
    await make_consumable(catalog)

    await asyncio.gather(*(update("ADD", 1, f"token-{number}") for number in range(20)))

    assert total(catalog) == 30


# --------------------------------------------------------------------------------------------------- the same again


async def test_a_token_is_known_after_a_restart(catalog, reopened, update):
    await make_consumable(catalog)
    await update("ADD", 5, "token")

    again = await reopened()
    await again.consumable_resources.change_total(
        LICENCES, operation=QuantityOperation.ADD, quantity=5, token="token", caller=ADMIN
    )

    assert total(again) == 15


async def test_a_token_is_known_for_eight_hours(catalog, clock, update):
    await make_consumable(catalog)
    catalog.consumable_resources.usage = FixedUsage(steady_since=NOON)
    await update("ADD", 1, "token")

    clock.now_is = NOON + timedelta(hours=8)
    within = await update("ADD", 1, "token")
    clock.now_is += timedelta(milliseconds=1)
    beyond = await update("ADD", 1, "token")

    assert (within, beyond) == (11, 12)


async def test_no_token_expires_before_the_clock_has_counted_eight_hours_without_a_jump(catalog, clock, update):
    await make_consumable(catalog)
    catalog.consumable_resources.usage = FixedUsage(steady_since=NOON)
    await update("ADD", 1, "token")

    clock.now_is = jumped = NOON + timedelta(days=1)
    catalog.consumable_resources.usage = FixedUsage(steady_since=jumped)
    await update("ADD", 100, "another")
    within = await update("ADD", 1, "token")
    clock.now_is = jumped + timedelta(hours=8)
    beyond = await update("ADD", 1, "token")

    assert (within, beyond) == (111, 112)


async def test_a_refused_update_does_not_use_its_token(catalog, update):
    await make_consumable(catalog)

    with pytest.raises(Invalid):
        await update("REMOVE", 11, "token")

    assert await update("REMOVE", 1, "token") == 9


async def test_a_token_belongs_to_its_resource_and_is_deleted_with_it(catalog, update):
    await make_consumable(catalog)
    await update("ADD", 1, "token")

    await catalog.consumable_resources.delete(LICENCES, caller=ADMIN)
    await make_consumable(catalog)

    assert await update("ADD", 1, "token") == 11


# ------------------------------------------------------------------------------------------------- what jobs took


async def test_with_a_total_below_what_jobs_hold_nothing_is_available(catalog, update):
    await make_consumable(catalog)
    catalog.consumable_resources.usage = FixedUsage(in_use=4)

    await update("SET", 3)

    made = catalog.consumables[LICENCES]
    assert catalog.consumable_resources.quantities(made) == Quantities(total=3, in_use=4, available=0)


@pytest.mark.parametrize(("operation", "quantity", "left"), [("SET", 4, 4), ("ADD", 4, 11), ("REMOVE", 7, 0)])
async def test_a_total_includes_consumed_units_when_it_is_changed(catalog, update, operation, quantity, left):
    await make_consumable(catalog, kind=ResourceKind.NON_REPLENISHABLE)
    catalog.consumable_resources.usage = FixedUsage(used_up=3)

    assert await update(operation, quantity) == left


async def test_a_total_below_the_consumed_units_is_zero(catalog, update):
    await make_consumable(catalog, total=2, kind=ResourceKind.NON_REPLENISHABLE)
    catalog.consumable_resources.usage = FixedUsage(used_up=3)  # as after a SET to 2 while jobs took 3

    overtaken = total(catalog)

    assert (overtaken, await update("ADD", 4)) == (0, 4)


async def test_no_more_units_are_removed_than_are_left(catalog, update):
    await make_consumable(catalog, kind=ResourceKind.NON_REPLENISHABLE)
    catalog.consumable_resources.usage = FixedUsage(used_up=3)

    with pytest.raises(Invalid, match="The total quantity is 7"):
        await update("REMOVE", 8)
