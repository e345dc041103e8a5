"""Bulkheads: a thread pool for each kind of call to the engine, so that a call that hangs delays only its own kind.

The engine does not reply to calls about a stuck container, but queues them. So each container about which a call timed
out, a silent container, has a circuit breaker: threads of their own execute the calls about silent containers, one at a
time for each container, with exponential backoff.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import TypeVar

from msgspec import Struct

from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.errors import is_timeout, translate_errors
from batchq.compute.docker.thread_pool import PoolSizes, ThreadPool
from batchq.domain.ids import Tag
from batchq.errors import ContainerRuntimeError, RuntimeUnknown
from batchq.ports.runtime import ContainerState, Inspection

INITIAL_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before the next call about a silent container

NOT_SILENT = nullcontext(enter_result=False)

CORES = os.cpu_count() or 1

Result = TypeVar("Result")


class _Breaker:
    """The open circuit breaker of one container."""

    def __init__(self) -> None:
        #: Seconds before the next call.
        self.pause = INITIAL_PAUSE
        #: Held during a call.
        self.call_lock = asyncio.Lock()
        #: Set to end the pause, when a reply has become likely.
        self.probe_now = asyncio.Event()

    async def wait_for_probe(self) -> None:
        """Wait until the pause is over, or `probe_now` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pause):
                await self.probe_now.wait()
        self.probe_now.clear()


class UnresponsiveContainers:
    """The containers whose last call timed out. For the event loop only, except `in`."""

    def __init__(self) -> None:
        self._breakers: dict[Tag, _Breaker] = {}
        #: Whether the last survey failed, so that the engine as a whole may be the cause.
        self._survey_failed = False

    def call_slot(self, tag: Tag) -> AbstractAsyncContextManager[bool]:
        """The context of one call about the container; its value is whether the container is silent.

        Entering waits for other calls about a silent container, and then for its pause.
        """
        breaker = self._breakers.get(tag)
        return NOT_SILENT if breaker is None else self._wait_for_slot(tag, breaker)

    def __contains__(self, tag: Tag) -> bool:
        """Whether the container is silent. Thread-safe."""
        return tag in self._breakers

    def trip(self, tag: Tag) -> None:
        """A call about the container timed out: open its breaker, or double its pause."""
        breaker = self._breakers.get(tag)
        if breaker is None:
            self._breakers[tag] = _Breaker()
        else:
            breaker.pause = min(2 * breaker.pause, MAX_PAUSE)

    def reset(self, tag: Tag) -> None:
        """The engine replied to a call about the container: close its breaker."""
        breaker = self._breakers.pop(tag, None)
        if breaker is not None:
            breaker.probe_now.set()

    def survey_failed(self) -> None:
        """A survey failed: perhaps the engine as a whole does not answer, and not the calls about single containers."""
        self._survey_failed = True

    def survey_succeeded(self, found: Iterable[Inspection]) -> None:
        """A survey succeeded: close the breakers of containers that do not exist any more, and end some pauses.

        The pauses of containers that have exited end; those of all containers, if the last survey failed.
        """
        states = {inspection.tag: inspection.state for inspection in found}
        for tag, breaker in tuple(self._breakers.items()):
            if tag not in states:
                self.reset(tag)
            elif self._survey_failed or states[tag] is ContainerState.EXITED:
                breaker.probe_now.set()
        self._survey_failed = False

    @asynccontextmanager
    async def _wait_for_slot(self, tag: Tag, breaker: _Breaker) -> AsyncIterator[bool]:
        async with breaker.call_lock:
            if self._breakers.get(tag) is breaker:
                await breaker.wait_for_probe()
            yield self._breakers.get(tag) is breaker


class Limits(Struct, frozen=True, kw_only=True):
    """The number of threads for each kind of call, and timeouts in seconds.

    A call cannot be aborted, and a user can prolong a start or a pull. So each account has a share of the threads of
    each kind: half of them, for pulls one. If other accounts occupy them, further threads are started, up to `extra`.
    """

    #: Threads for create calls.
    create: int = CORES
    #: Threads for start calls. More do not start more containers a second: docs/performance.md.
    start: int = 2 * CORES
    #: Threads for inspections.
    inspect: int = 2 * CORES
    #: Threads for surveys, and for questions about the engine itself.
    survey: int = 1
    #: Threads for stop signals.
    stop: int = 8
    #: Threads for kills.
    kill: int = 8
    #: Threads for calls about silent containers.
    silent: int = 4
    #: Threads for removals.
    remove: int = 2 * CORES
    #: Threads for reading logs.
    logs: int = 4
    #: Threads for the short calls about commands in containers.
    exec: int = 2
    #: Threads for pulls.
    pull: int = 4
    #: The maximum of further threads of each kind, for accounts that have fewer than their share.
    extra: int = 16
    #: The timeout of each receive.
    receive_timeout: float = 60.0
    #: The timeout of short calls about one container; after it the thread is free, and the container counts as silent.
    container_timeout: float = 10.0
    #: The timeout of each receive in a pull.
    pull_receive_timeout: float = 300.0
    #: The timeout of a whole pull, whatever progress it makes.
    pull_timeout: float = 3600.0
    #: The timeout of each receive in the event stream.
    events_timeout: float = 300.0


LIMITS = Limits()


class OperationPools:
    """The thread pools of a runtime, by kind of call, with separate threads for calls about silent containers."""

    def __init__(self, factory: ClientFactory, limits: Limits, silent_containers: UnresponsiveContainers) -> None:
        self._factory = factory
        self._extra = limits.extra
        self._silent_containers = silent_containers
        for_container = min(limits.receive_timeout, limits.container_timeout)
        self._pools = {
            "create": self._new_pool("create", limits.create, limits.receive_timeout),
            "start": self._new_pool("start", limits.start, limits.receive_timeout),
            "inspect": self._new_pool("inspect", limits.inspect, for_container),
            "stop": self._new_pool("stop", limits.stop, for_container),
            "kill": self._new_pool("kill", limits.kill, for_container),
            "remove": self._new_pool("remove", limits.remove, for_container),
            "sweep": self._new_pool("sweep", 1, limits.receive_timeout),
            "exec": self._new_pool("exec", limits.exec, for_container),
            "logs": self._new_pool("logs", limits.logs, limits.receive_timeout),
            "survey": self._new_pool("survey", limits.survey, limits.receive_timeout),
            "pull": self._new_pool("pull", limits.pull, limits.pull_receive_timeout, share=1),
        }
        self._silent_pool = self._new_pool("silent", limits.silent, for_container)

    async def run_for_container(
        self, tag: Tag, call: str, work: Callable[[Client], Result], *, account: str = ""
    ) -> Result:
        """Execute a call about one container of an account, by the `silent` threads if the container is silent.

        `call` is the kind of call, a key of the pools.
        """
        async with self._silent_containers.call_slot(tag) as is_silent:
            try:
                result = await _run_in(self._silent_pool if is_silent else self._pools[call], call, work, account)
            except ContainerRuntimeError as error:
                self.record_outcome(tag, error)
                raise
            self.record_outcome(tag, result)
            return result

    def offer(
        self, tag: Tag, call: str, work: Callable[[Client], Result], then: Callable[[Result | BaseException], None]
    ) -> bool:
        """Execute a call about one container in an idle thread, which then calls `then` with the outcome. Thread-safe.

        Returns False if no thread is idle, or the container is silent. The event loop passes the outcome to
        `record_outcome`.
        """
        return tag not in self._silent_containers and self._pools[call].offer(_with_translated_errors(call, work), then)

    def record_outcome(self, tag: Tag, outcome: object) -> None:
        """Update the circuit breaker of the container by the result or error of a call about it."""
        if not isinstance(outcome, RuntimeUnknown):
            self._silent_containers.reset(tag)
        elif is_timeout(outcome):
            self._silent_containers.trip(tag)

    async def run(self, call: str, work: Callable[[Client], Result], *, account: str = "") -> Result:
        """Execute a call that is not about one container. `call` is the kind of call, a key of the pools."""
        return await _run_in(self._pools[call], call, work, account)

    async def close(self) -> None:
        await asyncio.gather(*(pool.close() for pool in {*self._pools.values(), self._silent_pool}))

    def _new_pool(
        self, name: str, size: int, receive_timeout: float, *, share: int | None = None
    ) -> ThreadPool[Client]:
        def prepare_tool(current: Client | None) -> Client:
            with translate_errors("connect"):
                return self._factory.get_client(current, receive_timeout=receive_timeout)

        sizes = PoolSizes(normal=size, per_account=share or max(1, size // 2), max=size + self._extra)
        return ThreadPool(f"docker-{name}", sizes=sizes, prepare_tool=prepare_tool)


async def _run_in(pool: ThreadPool[Client], call: str, work: Callable[[Client], Result], account: str) -> Result:
    return await pool.run(_with_translated_errors(call, work), account=account)


def _with_translated_errors(call: str, work: Callable[[Client], Result]) -> Callable[[Client], Result]:
    def translated(client: Client) -> Result:
        with translate_errors(call):
            return work(client)

    return translated
