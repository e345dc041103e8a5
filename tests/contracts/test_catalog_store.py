"""The contract of every store: the catalog."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    DefinitionStatus,
    JobQueue,
    QuantityOperation,
    ResourceKind,
    SchedulingPolicy,
    ShareWeight,
    TimeLimit,
)
from batchq.domain.enums import State
from batchq.domain.ids import DefinitionRef
from batchq.errors import Conflict
from tests.support.builders import NOON, consumable, definition, environment, policy, queue


def names(found):
    return [str(other_definition.ref) for other_definition in found]


async def page(store, *, name=None, status=None, limit=100, after=None):
    return names(await store.definitions(name=name, status=status, limit=limit, after=after))


@pytest.fixture
async def shelf(store):
    """Definitions b:1, a:1, a:2 (INACTIVE), ab:1 and b:2, registered in this order."""
    for name in ("b", "a", "a", "ab", "b"):
        await store.add_definition(definition(name=name), caller=None)
    await store.put_definition(definition(name="a", revision=2, status=DefinitionStatus.INACTIVE), caller=None)
    return store


LIMITS = (TimeLimit(reason="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", most=timedelta(minutes=10)),)
WEIGHTS = (ShareWeight(identifier="a*", weight=0.125), ShareWeight(identifier="b"))
#: For each kind: a builder, and members that differ from their defaults.
RESOURCES = {
    ComputeEnvironment: (environment, {"document": '{"x":"é☃"}', "state": State.DISABLED, "max_millicpus": 1}),
    JobQueue: (queue, {"environments": ("local", "other"), "priority": -3, "policy": "fair", "time_limits": LIMITS}),
    SchedulingPolicy: (policy, {"shares": WEIGHTS, "decay": timedelta(seconds=604800), "reservation": 50}),
    ConsumableResource: (consumable, {"total": 2**70, "kind": ResourceKind.NON_REPLENISHABLE}),
}


@pytest.mark.parametrize("kind", RESOURCES, ids=lambda value: value.__name__)
async def test_a_resource_is_read_as_saved_last_until_it_is_deleted(store, kind):
    build, members = RESOURCES[kind]
    changed = build("a", **members, tags=(("k", "v"),))
    await store.put_resource(build("b"), caller=None)
    await store.put_resource(build("a"), caller=None)

    await store.put_resource(changed, caller=None)
    both = await store.resources(kind)
    await store.drop_resource(kind, "b", caller=None)
    await store.drop_resource(kind, "never was", caller=None)

    assert both == (changed, build("b"))
    assert await store.resources(kind) == (changed,)
    assert [await store.resources(resource) for resource in RESOURCES if resource is not kind] == [()] * 3


async def test_definitions_are_numbered_by_name_from_one(store):
    given = definition(name="a", revision=77, image="x", document='{"y":1}', tags=(("k", "v"),))

    first = await store.add_definition(given, caller=None)
    second = await store.add_definition(given, caller=None)
    other = await store.add_definition(definition(name="b"), caller=None)

    assert first == replace(given, ref=DefinitionRef(name="a", revision=1))
    assert (second.ref.revision, other.ref.revision) == (2, 1)
    assert await store.definition(first.ref) == first


@pytest.mark.fault("IN24")
async def test_concurrent_definitions_have_consecutive_revisions(store):
    made = await asyncio.gather(*(store.add_definition(definition(name="a"), caller=None) for _ in range(50)))

    assert sorted(other_definition.ref.revision for other_definition in made) == list(range(1, 51))
    assert len(await page(store, name="a")) == 50


async def test_a_definition_is_replaced_under_its_own_revision(shelf):
    await shelf.put_definition(definition(name="a", revision=1, image="other"), caller=None)

    assert (await shelf.definition(DefinitionRef(name="a", revision=1))).nodes.leading.spec.image == "other"
    assert await page(shelf, name="a") == ["a:2", "a:1"]


async def test_an_unknown_definition_cannot_be_replaced(shelf):
    with pytest.raises(Conflict):
        await shelf.put_definition(definition(name="a", revision=3), caller=None)

    assert await page(shelf, name="a") == ["a:2", "a:1"]


async def test_the_newest_active_revision_is_the_last_that_is_not_inactive(shelf):
    assert str((await shelf.newest_active("a")).ref) == "a:1"
    assert str((await shelf.newest_active("b")).ref) == "b:2"


async def test_an_unknown_definition_is_none(shelf):
    assert await shelf.definition(DefinitionRef(name="a", revision=3)) is None
    assert await shelf.definition(DefinitionRef(name="\ud800", revision=2**70)) is None
    assert await shelf.newest_active("c") is None
    assert await shelf.newest_active("A") is None


async def test_definitions_are_listed_by_name_and_those_of_a_name_newest_first(shelf):
    assert await page(shelf) == ["a:2", "a:1", "ab:1", "b:2", "b:1"]
    assert await page(shelf, status="ACTIVE") == ["a:1", "ab:1", "b:2", "b:1"]
    assert await page(shelf, name="a") == ["a:2", "a:1"]
    assert await page(shelf, name="a", status="INACTIVE") == ["a:2"]
    assert await page(shelf, name="a*", status="what") == []


async def test_pages_of_definitions_continue_after_the_last(shelf):
    assert await page(shelf, limit=2) == ["a:2", "a:1"]
    assert await page(shelf, limit=2, after=DefinitionRef(name="a", revision=1)) == ["ab:1", "b:2"]
    assert await page(shelf, status="ACTIVE", after=DefinitionRef(name="a", revision=1)) == ["ab:1", "b:2", "b:1"]
    assert await page(shelf, name="b", after=DefinitionRef(name="b", revision=2)) == ["b:1"]
    assert await page(shelf, name="b", after=DefinitionRef(name="a", revision=9)) == ["b:2", "b:1"]
    assert await page(shelf, name="a", after=DefinitionRef(name="b", revision=1)) == []
    assert await page(shelf, name="b", status="ACTIVE", after=DefinitionRef(name="b", revision=2)) == ["b:1"]


async def test_a_flag_is_set_permanently(store):
    assert await store.flag("done") is False

    await store.set_flag("done")
    await store.set_flag("done")

    assert await store.flag("done") is True
    assert await store.flag("other") is False


# ---------------------------------------------------------------------------------------------- policies, consumables


def update(token="a-token", *, at=NOON, **changes):
    return ConsumableUpdate(**{"token": token, "operation": QuantityOperation.ADD, "quantity": 1, "at": at} | changes)


async def test_an_update_is_stored_with_its_result(store):
    await store.put_resource(consumable(total=1), caller=None)

    await store.update_consumable(consumable(total=2), update(), forget_before=NOON, caller=None)

    assert await store.resources(ConsumableResource) == (consumable(total=2),)
    assert await store.consumable_update("licences", "a-token") == update()
    assert await store.consumable_update("licences", "another") is None
    assert await store.consumable_update("other", "a-token") is None


async def test_old_updates_are_deleted(store):
    hour = timedelta(hours=1)
    for number in range(3):
        await store.update_consumable(
            consumable(), update(f"{number}", at=NOON + number * hour), forget_before=NOON, caller=None
        )

    await store.update_consumable(
        consumable(), update("new", at=NOON + 9 * hour), forget_before=NOON + hour, caller=None
    )

    assert await store.consumable_update("licences", "0") is None
    assert await store.consumable_update("licences", "1") == update("1", at=NOON + hour)
    assert await store.consumable_update("licences", "new") == update("new", at=NOON + 9 * hour)


async def test_a_reused_token_is_stored_with_its_last_use(store):
    await store.update_consumable(consumable(), update(), forget_before=NOON, caller=None)
    await store.update_consumable(consumable(), update(quantity=7), forget_before=NOON, caller=None)

    assert await store.consumable_update("licences", "a-token") == update(quantity=7)


async def test_updates_are_deleted_with_their_resource(store):
    await store.update_consumable(consumable(), update(), forget_before=NOON, caller=None)
    await store.update_consumable(consumable("other"), update(), forget_before=NOON, caller=None)

    await store.drop_resource(ConsumableResource, "licences", caller=None)

    assert await store.consumable_update("licences", "a-token") is None
    assert await store.consumable_update("other", "a-token") == update()
