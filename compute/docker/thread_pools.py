"""Threads for the calls of a runtime: a few for each kind, so that none waits for what another is stuck in."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from batchq.compute.docker.circuit_breaker import SilentContainers
from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.errors import unknown_unless_told, was_silent
from batchq.compute.docker.threads import Sizes, ThreadPool
from batchq.domain.ids import Tag
from batchq.errors import EngineError, EngineUnknown

CORES = os.cpu_count() or 1

Answer = TypeVar("Answer")


class Limits(Struct, frozen=True, kw_only=True):
    """Threads for each kind of call, and how many seconds the engine may be silent in one.

    More starts at once than twice the cores begin no more containers a second: docs/performance.md. They do not wait
    for those that are still to be made, nor a stop for either.
    A container that is stuck holds up each call about it: `patience_with_one` frees the thread for others, and after
    that it is in doubt: its calls have the `stuck` threads, until one of them is answered.
    Calls cannot be cut off, and a user can make a start or a pull last: so an account has half of each kind of threads
    (one of those for pulls), of `extra` ones where others hold the rest.
    """

    create: int = CORES
    start: int = 2 * CORES
    look: int = 2 * CORES
    survey: int = 1
    stop: int = 8
    kill: int = 8
    stuck: int = 4
    clear: int = 2 * CORES
    logs: int = 4
    pull: int = 4
    extra: int = 16
    patience: float = 60.0
    patience_with_one: float = 10.0
    patience_with_registry: float = 300.0
    #: Seconds for a pull as a whole, whatever progress it makes.
    deadline_of_pull: float = 3600.0
    patience_with_events: float = 300.0


LIMITS = Limits()


class OperationPools:
    def __init__(self, door: ClientFactory, limits: Limits, doubts: SilentContainers) -> None:
        self._door = door
        self._extra = limits.extra
        self._doubts = doubts
        with_one = min(limits.patience, limits.patience_with_one)
        self._crews = {
            "create": self._crew("create", limits.create, limits.patience),
            "start": self._crew("start", limits.start, limits.patience),
            "inspect": self._crew("look", limits.look, with_one),
            "stop": self._crew("stop", limits.stop, with_one),
            "kill": self._crew("kill", limits.kill, with_one),
            "remove": self._crew("remove", limits.clear, with_one),
            "sweep": self._crew("sweep", 1, limits.patience),
            "logs": self._crew("logs", limits.logs, limits.patience),
            "survey": self._crew("survey", limits.survey, limits.patience),
            "pull": self._crew("pull", limits.pull, limits.patience_with_registry, share=1),
        }
        self._stuck = self._crew("stuck", limits.stuck, with_one)

    async def about(self, tag: Tag, call: str, work: Callable[[Client], Answer], *, account: str = "") -> Answer:
        """A call about one container of an account, which may be stuck while all others are well."""
        async with self._doubts.turn(tag) as in_doubt:
            try:
                answer = await _ask(self._stuck if in_doubt else self._crews[call], call, work, account)
            except EngineError as error:
                self.learn(tag, error)
                raise
            self.learn(tag, answer)
            return answer

    def offer(
        self,
        tag: Tag,
        call: str,
        work: Callable[[Client], Answer],
        then: Callable[[Answer | BaseException], None],
    ) -> bool:
        """Whether a thread that has nothing to do makes such a call at once. Any thread may ask.

        What comes of it is passed on by that thread; it is for the loop to `learn` from it.
        """
        return tag not in self._doubts and self._crews[call].offer(_judged(call, work), then)

    def learn(self, tag: Tag, outcome: object) -> None:
        """From the answer of a call about a container, or its error."""
        if not isinstance(outcome, EngineUnknown):
            self._doubts.settle(tag)
        elif was_silent(outcome):
            self._doubts.grow(tag)

    async def ask(self, call: str, work: Callable[[Client], Answer], *, account: str = "") -> Answer:
        return await _ask(self._crews[call], call, work, account)

    async def close(self) -> None:
        await asyncio.gather(*(crew.close() for crew in {*self._crews.values(), self._stuck}))

    def _crew(self, name: str, size: int, patience: float, *, share: int | None = None) -> ThreadPool[Client]:
        def equip(before: Client | None) -> Client:
            with unknown_unless_told("connect"):
                return self._door.client(before, patience=patience)

        sizes = Sizes(all=size, account=share or max(1, size // 2), most=size + self._extra)
        return ThreadPool(f"docker-{name}", sizes=sizes, equip=equip)


async def _ask(crew: ThreadPool[Client], call: str, work: Callable[[Client], Answer], account: str) -> Answer:
    return await crew.run(_judged(call, work), account=account)


def _judged(call: str, work: Callable[[Client], Answer]) -> Callable[[Client], Answer]:
    def judged(client: Client) -> Answer:
        with unknown_unless_told(call):
            return work(client)

    return judged
