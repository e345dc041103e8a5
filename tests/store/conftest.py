"""Fixtures: a store on disk, a data directory after a clean shutdown, and access to the store's threads."""

import asyncio
import threading

import pytest

from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import job


class Gate:
    """Stops a connection's thread before the n-th statement it comes to, until it is opened."""

    def __init__(self, connection, number=0):
        self._connection = connection
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._opened = threading.Event()
        self.reached = asyncio.Event()

    def __call__(self, statement):
        if self._number == 0:
            self._loop.call_soon_threadsafe(self.reached.set)
            assert self._opened.wait(10)
        self._number -= 1

    def open(self):
        self._opened.set()

    async def __aenter__(self):
        await self._connection.set_trace_callback(self)
        return self

    async def __aexit__(self, *why):
        self.open()
        await self._connection.set_trace_callback(None)


@pytest.fixture
async def store(tmp_path):
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def left(tmp_path):
    """A data directory with some jobs in it, as a server left it."""
    data = tmp_path / "data"
    store = await SqliteStore.open(data)
    await store.commit(Changes(inserted=tuple(job(number=number, name="x" * 500) for number in range(200))))
    await store.close()
    return data


@pytest.fixture
def writer(store):
    """The store's own connection to write by."""
    return store._database._writer
