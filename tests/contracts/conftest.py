"""The implementations that a contract is held on."""

import pytest

from batchq.store.memory import MemoryStore
from batchq.store.sqlite_store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else await SqliteStore.open(tmp_path)
    yield store
    await store.close()
