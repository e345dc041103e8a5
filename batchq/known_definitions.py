"""Job definitions as the store has them, the last thousand in memory: each SubmitJob and DescribeJobs asks for one."""

import asyncio
from typing import TypeVar

from batchq.domain.catalog import DefinitionStatus, JobDefinition
from batchq.domain.names import DefinitionRef
from batchq.domain.people import Caller
from batchq.ports import CatalogStore

MOST = 1000

K = TypeVar("K")
V = TypeVar("V")


class KnownDefinitions:
    """The store is read between two writes, so that memory never holds what has just been replaced."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._known: dict[DefinitionRef, JobDefinition] = {}
        self._newest: dict[str, int] = {}

    async def get(self, ref: DefinitionRef) -> JobDefinition | None:
        """Whatever its status."""
        return self._known.get(ref) or await self._read(ref)

    async def newest_active(self, name: str) -> JobDefinition | None:
        revision = self._newest.get(name)
        if revision is not None:
            return await self.get(DefinitionRef(name=name, revision=revision))
        return await self._read_newest(name)

    async def add(self, definition: JobDefinition, *, caller: Caller) -> JobDefinition:
        async with self._lock:
            made = await self._store.add_definition(definition, caller=caller)
            return self._keep(made, newest=made.status is DefinitionStatus.ACTIVE)

    async def put(self, definition: JobDefinition, *, caller: Caller) -> None:
        async with self._lock:
            await self._store.put_definition(definition, caller=caller)
            self._keep(definition, newest=False)
            self._newest.pop(definition.ref.name, None)

    async def _read(self, ref: DefinitionRef) -> JobDefinition | None:
        async with self._lock:
            found = await self._store.definition(ref)
            return found and self._keep(found, newest=False)

    async def _read_newest(self, name: str) -> JobDefinition | None:
        async with self._lock:
            found = await self._store.newest_active(name)
            return found and self._keep(found, newest=True)

    def _keep(self, definition: JobDefinition, *, newest: bool) -> JobDefinition:
        _remember(self._known, definition.ref, definition)
        if newest:
            _remember(self._newest, definition.ref.name, definition.ref.revision)
        return definition


def _remember(known: dict[K, V], key: K, value: V) -> None:
    """What was remembered longest ago makes room."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MOST:
        del known[next(iter(known))]
