"""A catalog on a store in memory."""

import asyncio

import pytest

from batchq.services.catalog import CatalogService
from tests.support.builders import NOON
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
