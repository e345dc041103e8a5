"""A table of named catalog resources, and the mutex that serializes their changes."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import Tags
from batchq.ports.catalog import CatalogStore, R

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=str)


class WriteLock:
    """Runs changes one at a time, in tasks that are shielded from the cancellation of their callers."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, name: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `change` once all earlier changes have ended, and return its result. `name`: the name of its task."""
        task = asyncio.create_task(self._in_turn(change), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await change()


class HasWriteLock(Protocol):
    """An object whose changes are serialized."""

    write_lock: WriteLock


S = TypeVar("S", bound=HasWriteLock)


def serialized(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Decorator for a method that changes its object: runs it under the object's WriteLock.

    The lock is not reentrant: a decorated method that calls another decorated method of the object deadlocks.
    """

    @wraps(method)
    async def through(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write_lock.run(method.__name__, partial(method, self, *args, **kwargs))

    return through


class ResourceTable(Generic[K, R]):
    """All resources of one kind by name, in memory. Each change is stored first and then applied to the table."""

    def __init__(
        self,
        kind: type[R],
        *,
        write_lock: WriteLock,
        store: CatalogStore,
        changed: Callable[[], None],
        check: Callable[[R | None, R], None] = lambda _before, _after: None,
        check_deletion: Callable[[R], Awaitable[None]] | None = None,
        tagged: Callable[[Tags, Tags], Tags] = rules.tagged,
    ) -> None:
        """`changed` is called after each change, to schedule again.

        `check` is called before a resource (None: a new one) is replaced, and `check_deletion` before it is deleted;
        both raise Invalid or NotFound. `tagged` merges new tags into existing ones; raises Invalid.
        """
        self.write_lock = write_lock
        self.known: dict[K, R] = {}
        self._kind: type[R] = kind
        self._store = store
        self._changed = changed
        self._check: Callable[[R | None, R], None] = check
        self._check_deletion: Callable[[R], Awaitable[None]] | None = check_deletion
        self._tagged = tagged

    async def load(self) -> None:
        """Read all resources from the store. The table is empty before."""
        self.known.update((cast("K", it.name), it) for it in await self._store.resources(self._kind))

    def get(self, name: K) -> R:
        """The resource with this name. Raises NotFound."""
        rules.require_existing(self._kind.__name__, [name], self.known)
        return self.known[name]

    @serialized
    async def create(self, resource: R, *, caller: Caller | None) -> R:
        """Store a new resource. Raises Invalid if the name is taken or there are too many tags; as `check`."""
        rules.require_free_name(resource.name, self.known)
        tagged = replace(resource, tags=self._tagged((), resource.tags))
        self._check(None, tagged)
        return await self.put(tagged, caller=caller)

    @serialized
    async def update(self, name: K, change: Callable[[R], R], *, caller: Caller) -> R:
        """Replace the resource by `change(resource)`, computed under the write lock. Raises NotFound; as `check`."""
        before = self.get(name)
        after = change(before)
        self._check(before, after)
        return await self.put(after, caller=caller)

    @serialized
    async def delete(self, name: K, *, caller: Caller) -> None:
        """Delete the resource. An unknown name is success. Raises as `check_deletion`."""
        if name not in self.known:
            return
        if self._check_deletion is not None:
            await self._check_deletion(self.known[name])
        await self._store.drop_resource(self._kind, name, caller=caller)
        del self.known[name]
        self._changed()

    @serialized
    async def tag(self, name: K, tags: Tags, *, caller: Caller) -> None:
        """Add or replace tags. Raises NotFound; Invalid if there would be too many tags."""
        before = self.get(name)
        await self.put(replace(before, tags=self._tagged(before.tags, tags)), caller=caller)

    @serialized
    async def untag(self, name: K, keys: Collection[str], *, caller: Caller) -> None:
        """Remove tags. Raises NotFound."""
        before = self.get(name)
        await self.put(replace(before, tags=rules.untagged(before.tags, keys)), caller=caller)

    async def put(self, resource: R, *, caller: Caller | None) -> R:
        """Store a resource, and apply it to the table. To be called under the write lock."""
        await self._store.put_resource(resource, caller=caller)
        return self.saved(resource)

    def saved(self, resource: R) -> R:
        """Apply a resource to the table that the store has already saved."""
        self.known[cast("K", resource.name)] = resource  # K is the type of R's names
        self._changed()
        return resource
