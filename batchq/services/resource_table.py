"""A table of named catalog resources, and the mutex that serializes their changes."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from msgspec.structs import replace

from batchq.domain import catalog_rules as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import ComputeEnvironment, ConsumableResource, JobQueue, SchedulingPolicy, Tags

P = ParamSpec("P")
T = TypeVar("T")


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


K = TypeVar("K", bound=str)
R = TypeVar("R", ComputeEnvironment, JobQueue, SchedulingPolicy, ConsumableResource)
R_contra = TypeVar("R_contra", contravariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class Put(Protocol[R_contra]):
    def __call__(self, resource: R_contra, /, *, caller: Caller | None) -> Awaitable[None]: ...


class Drop(Protocol[K_contra]):
    def __call__(self, name: K_contra, /, *, caller: Caller | None) -> Awaitable[None]: ...


class ResourceTable(Generic[K, R]):
    """All resources of one kind by name, in memory. Each change is stored first and then applied to the table."""

    def __init__(
        self,
        kind: str,
        *,
        write_lock: WriteLock,
        read: Callable[[], Awaitable[Sequence[R]]],
        put: Put[R],
        drop: Drop[K],
        changed: Callable[[], None],
        tagged: Callable[[Tags, Tags], Tags] = rules.tagged,
    ) -> None:
        """`changed` is called after each change. `tagged` merges new tags into existing ones; raises Invalid."""
        self.write_lock = write_lock
        self.known: dict[K, R] = {}
        self._kind = kind
        self._read: Callable[[], Awaitable[Sequence[R]]] = read
        self._put: Put[R] = put
        self._drop = drop
        self._changed = changed
        self._tagged = tagged

    async def load(self) -> None:
        """Read all resources from the store. The table is empty before."""
        self.known.update((cast("K", it.name), it) for it in await self._read())  # K is the type of R's names

    def get(self, name: K) -> R:
        """The resource with this name. Raises NotFound."""
        rules.require_existing(self._kind, [name], self.known)
        return self.known[name]

    async def put(self, resource: R, *, caller: Caller | None) -> R:
        await self._put(resource, caller=caller)
        return self.saved(resource)

    def saved(self, resource: R) -> R:
        """Apply a resource to the table that the store has already saved."""
        self.known[cast("K", resource.name)] = resource  # K is the type of R's names
        self._changed()
        return resource

    async def drop(self, name: K, *, caller: Caller) -> None:
        await self._drop(name, caller=caller)
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
