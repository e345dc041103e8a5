"""Bulkheads: a thread pool for each kind of call to the engine, so that a call that hangs delays only its own kind."""

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
    """The number of threads for each kind of call, and timeouts in seconds.

    A call cannot be aborted, and a user can prolong a start or a pull. So each account has a share of half the threads
    of each kind (of one for pulls), which are taken from `extra` if other accounts occupy the rest.
    """

    #: Threads for create calls.
    create: int = CORES
    #: Threads for start calls. More do not start more containers a second: docs/performance.md.
    start: int = 2 * CORES
    #: Threads for inspections.
    look: int = 2 * CORES
    #: Threads for surveys, and for questions about the engine itself.
    survey: int = 1
    #: Threads for stop signals.
    stop: int = 8
    #: Threads for kills.
    kill: int = 8
    #: Threads for calls about silent containers, until the engine replies to one: see circuit_breaker.py.
    stuck: int = 4
    #: Threads for removals.
    clear: int = 2 * CORES
    #: Threads for reading logs.
    logs: int = 4
    #: Threads for pulls.
    pull: int = 4
    #: Additional threads of each kind for accounts that have fewer than their share.
    extra: int = 16
    #: The timeout of each receive.
    patience: float = 60.0
    #: The timeout of short calls about one container; after it the thread is free, and the container counts as silent.
    patience_with_one: float = 10.0
    #: The timeout of each receive in a pull.
    patience_with_registry: float = 300.0
    #: The timeout of a whole pull, whatever progress it makes.
    deadline_of_pull: float = 3600.0
    #: The timeout of each receive in the event stream.
    patience_with_events: float = 300.0


LIMITS = Limits()


class OperationPools:
    """The thread pools of a runtime, by kind of call, with separate threads for calls about silent containers."""

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
        """Execute a call about one container of an account, by the `stuck` threads if the container is silent.

        `call` is the kind of call, a key of the pools.
        """
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
        """Execute a call about one container in an idle thread, which then calls `then` with the outcome. Thread-safe.

        Returns False if no thread is idle, or the container is silent. The event loop passes the outcome to `learn`.
        """
        return tag not in self._doubts and self._crews[call].offer(_judged(call, work), then)

    def learn(self, tag: Tag, outcome: object) -> None:
        """Update the circuit breaker of the container by the result or error of a call about it."""
        if not isinstance(outcome, EngineUnknown):
            self._doubts.settle(tag)
        elif was_silent(outcome):
            self._doubts.grow(tag)

    async def ask(self, call: str, work: Callable[[Client], Answer], *, account: str = "") -> Answer:
        """Execute a call that is not about one container. `call` is the kind of call, a key of the pools."""
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
