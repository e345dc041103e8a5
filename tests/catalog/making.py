"""The catalog's long calls, in short."""

from datetime import timedelta

from batchq.domain.catalog import ResourceKind, State
from tests.support.builders import ADMIN


async def make_environment(catalog, name="local", **changes):
    asked = {"state": State.ENABLED, "max_millicpus": 4000, "document": "{}", "tags": ()} | changes
    return await catalog.create_environment(name=name, **asked, caller=ADMIN)


async def make_queue(catalog, name="default", **changes):
    asked = {"state": State.ENABLED, "priority": 1, "environments": ("local",), "document": "{}", "tags": ()} | changes
    return await catalog.create_queue(name=name, **asked, caller=ADMIN)


async def disabled_queue(catalog, name="default", **changes):
    return await make_queue(catalog, name, state=State.DISABLED, **changes)


async def make_policy(catalog, name="fair", **changes):
    asked = {"shares": (), "decay": timedelta(), "reservation": 0, "document": "{}", "tags": ()} | changes
    return await catalog.scheduling_policies.create(name=name, **asked, caller=ADMIN)


async def make_consumable(catalog, name="licences", **changes):
    asked = {"total": 10, "kind": ResourceKind.REPLENISHABLE, "tags": ()} | changes
    return await catalog.consumable_resources.create(name=name, **asked, caller=ADMIN)
