"""The store that the contracts are held on: the real one, in memory."""

import pytest

from tests.support.inline import InlineStore


@pytest.fixture
async def store():
    store = InlineStore()
    yield store
    await store.close()
