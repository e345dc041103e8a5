"""Serialized writes: an asyncio mutex under which a change runs to its end even if its caller is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

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
