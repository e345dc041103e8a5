"""Where changes pass one at a time, each to its end: a caller that goes away half way stops nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WriteLock:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._inside: set[asyncio.Task[Any]] = set()

    async def through(self, name: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.create_task(self._in_turn(change), name=name)
        self._inside.add(task)
        task.add_done_callback(self._inside.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await change()


class HasWriteLock(Protocol):
    turnstile: WriteLock


S = TypeVar("S", bound=HasWriteLock)


def one_at_a_time(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The methods of an object that change it. One that is so guarded must not call another."""

    @wraps(method)
    async def through(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.turnstile.through(method.__name__, partial(method, self, *args, **kwargs))

    return through
