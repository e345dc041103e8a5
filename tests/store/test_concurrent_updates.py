"""Two writers of the same jobs, interleaved in any order, lose no acknowledged write."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.errors import Conflict
from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import job, job_id
from tests.support.examples import examples
from tests.support.inline import InlineDatabase

ID = job_id(1)
STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=30)


class Writer:
    """Writes down its name and a number, after what it read."""

    def __init__(self, name, store):
        self._name, self._store = name, store
        self._read = None
        self.told = []

    async def step(self, *, reads):
        if reads or self._read is None:
            self._read = (await self._store.jobs([ID]))[ID]
            return
        mark = (self._name, str(len(self.told)))
        try:
            await self._store.commit(Changes(updated=(replace(self._read, tags=(*self._read.tags, mark)),)))
        except Conflict:
            return
        self.told.append(mark)


async def play(steps):
    """What is kept at the end, and what each writer was told is kept."""
    store = SqliteStore(InlineDatabase())
    await store.commit(Changes(inserted=(job(number=1),)))
    writers = {name: Writer(name, store) for name in "ab"}
    for name, reads in steps:
        await writers[name].step(reads=reads)
    kept = (await store.jobs([ID]))[ID].tags
    await store.close()
    return kept, [mark for it in writers.values() for mark in it.told]


@pytest.mark.fault("DB02")
@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_concurrent_updates_keep_exactly_the_acknowledged_writes(steps):
    kept, told = asyncio.run(play(steps))

    assert sorted(kept) == sorted(told)
