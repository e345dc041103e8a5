"""A circuit breaker for each container about which calls time out: one call at a time, with exponential backoff.

The engine does not reply to calls about a stuck container, but queues them. So they must not accumulate, nor occupy
the threads that calls about other containers need.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

from batchq.domain.ids import Tag
from batchq.ports.runtime import ContainerState, Inspection

INITIAL_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before the next call about a silent container

NOT_SILENT = nullcontext(enter_result=False)


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
        """Wait until the pause is over, or `hope` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pause):
                await self.probe_now.wait()
        self.probe_now.clear()


class SilentContainers:
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
        """A survey failed: the engine as a whole may be the cause of the silence."""
        self._survey_failed = True

    def survey_succeeded(self, found: Iterable[Inspection]) -> None:
        """A survey succeeded: close the breakers of containers that do not exist any more, and end some pauses.

        The pauses of containers that have exited end; those of all containers, if the last survey failed.
        """
        states = {it.tag: it.state for it in found}
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
