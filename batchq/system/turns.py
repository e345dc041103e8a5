"""Turns of users at one resource, such as a thread that reads the database.

A user has at most one turn in each round, however many requests of the user wait. So many requests of one user delay a
request of another one by two turns: the one under way, and the next. The server's own work comes before that of users.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

#: Stands for the server, where a user is expected.
SERVER = ""
#: Stands for all callers of requests that need no signature. No user can have this name.
UNSIGNED = "?"

#: The user for whom the present task works. Tasks inherit it from the task that creates them.
_USER: ContextVar[str] = ContextVar("working_for", default=SERVER)


@contextmanager
def working_for(user: str) -> Iterator[None]:
    """Take the turns of `user` in this block."""
    token = _USER.set(user)
    try:
        yield
    finally:
        _USER.reset(token)


def works_for_server() -> bool:
    """Whether the present task works for no user."""
    return _USER.get() == SERVER


class UserTurns:
    """A mutex whose holders are, in rounds, one of each user that waits; of one user first come, first served."""

    def __init__(self) -> None:
        self._is_taken = False
        #: Those who wait, by user. Users in the order of their next turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, begin: Callable[[], asyncio.Future[T]]) -> T:
        """Begin work in a turn of the user. The turn ends with the work, also if the caller is cancelled before."""
        await self.take()
        try:
            work = begin()
        except BaseException:
            self.release()
            raise
        work.add_done_callback(lambda _: self.release())
        return await asyncio.shield(work)

    async def take(self) -> None:
        """Wait for the next turn of the user. `release` ends it."""
        if not self._is_taken:
            self._is_taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(_USER.get(), deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn had begun
                self.release()
            raise

    def release(self) -> None:
        """Begin the next turn."""
        while self._waiting:
            user = SERVER if SERVER in self._waiting else next(iter(self._waiting))
            turns = self._waiting.pop(user)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns  # behind the other users
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
