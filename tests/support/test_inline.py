"""Databases in memory that tests use one after the other."""

import pytest

from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes
from tests.support.builders import job
from tests.support.inline import InlineStore


async def used_store():
    store = InlineStore()
    await store.commit(Changes(inserted=(job(),)))
    return store


async def test_the_next_store_has_the_database_of_a_closed_one_without_its_rows():
    store = await used_store()
    database = store.connection
    await store.close()

    following = InlineStore()

    assert following.connection is database
    assert not any(following.rows().values())
    await following.close()


async def test_a_database_whose_schema_a_test_has_changed_is_not_used_again():
    store = await used_store()
    database = store.connection
    database.execute("CREATE TABLE other (name TEXT)")
    await store.close()

    assert InlineStore().connection is not database


async def test_a_closed_store_fails():
    store = await used_store()
    await store.close()

    with pytest.raises(StoreFailed):
        await store.active()
