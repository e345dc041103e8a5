"""A catalog on a store in memory, and functions that create resources in it."""

import asyncio

import pytest

from batchq.domain.enums import State
from batchq.services.catalog import CatalogService
from tests.support import builders
from tests.support.builders import ADMIN, NOON
from tests.support.inline import InlineStore
from tests.support.stubs import BOTTOMLESS


class NoonClock:
    def now(self):
        return NOON

    async def sleep(self, seconds):
        raise NotImplementedError


class SlowStore(InlineStore):
    """Takes a moment to save, in which others may act."""

    async def put_resource(self, resource, *, caller):
        await asyncio.sleep(0)
        await super().put_resource(resource, caller=caller)

    async def update_consumable(self, resource, update, *, forget_before, caller):
        await asyncio.sleep(0)
        await super().update_consumable(resource, update, forget_before=forget_before, caller=caller)

    async def put_definition(self, definition, *, caller):
        await asyncio.sleep(0)
        await super().put_definition(definition, caller=caller)


class Changes:
    """Counts the notifications of changes of the catalog."""

    count = 0

    def __call__(self):
        self.count += 1


@pytest.fixture
def changed():
    return Changes()


@pytest.fixture
def store():
    return SlowStore()


@pytest.fixture
async def reopened(store, changed):
    """The catalog as the next server finds it."""

    async def reopen():
        catalog = CatalogService(store=store, jobs=store, clock=NoonClock(), disk_guard=BOTTOMLESS, changed=changed)
        await catalog.load()
        return catalog

    return reopen


@pytest.fixture
async def catalog(reopened):
    return await reopened()


async def make_environment(catalog, name="local", **changes):
    return await catalog.compute_environments.create(builders.environment(name, **changes), caller=ADMIN)


async def make_queue(catalog, name="default", **changes):
    return await catalog.job_queues.create(builders.queue(name, **changes), caller=ADMIN)


async def disabled_queue(catalog, name="default", **changes):
    return await make_queue(catalog, name, state=State.DISABLED, **changes)


async def make_policy(catalog, name="fair", **changes):
    return await catalog.scheduling_policies.create(builders.policy(name, **changes), caller=ADMIN)


async def make_consumable(catalog, name="licences", **changes):
    return await catalog.consumable_resources.create(builders.consumable(name, **changes), caller=ADMIN)
