"""A circuit breaker for each container about which calls time out: one call at a time, with exponential backoff.

The engine does not reply to calls about a stuck container, but queues them. So they must not accumulate, nor occupy
the threads that calls about other containers need.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

from batchq.domain.ids import Tag
from batchq.ports.runtime import ContainerState, Inspection

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the next call about a silent container

NO_DOUBT = nullcontext(enter_result=False)


class _Doubt:
    """The open circuit breaker of one container."""

    def __init__(self) -> None:
        #: Seconds before the next call.
        self.pause = FIRST_PAUSE
        #: Held during a call.
        self.turn = asyncio.Lock()
        #: Set to end the pause, when a reply has become likely.
        self.hope = asyncio.Event()

    async def wait(self) -> None:
        """Wait until the pause is over, or `hope` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pause):
                await self.hope.wait()
        self.hope.clear()


class SilentContainers:
    """The containers whose last call timed out. For the event loop only, except `in`."""

    def __init__(self) -> None:
        self._about: dict[Tag, _Doubt] = {}
        #: Whether the last survey failed, so that the engine as a whole may be the cause.
        self._of_all = False

    def turn(self, tag: Tag) -> AbstractAsyncContextManager[bool]:
        """The context of one call about the container; its value is whether the container is silent.

        Entering waits for other calls about a silent container, and then for its pause.
        """
        doubt = self._about.get(tag)
        return NO_DOUBT if doubt is None else self._turn(tag, doubt)

    def __contains__(self, tag: Tag) -> bool:
        """Whether the container is silent. Thread-safe."""
        return tag in self._about

    def grow(self, tag: Tag) -> None:
        """A call about the container timed out: open its breaker, or double its pause."""
        doubt = self._about.get(tag)
        if doubt is None:
            self._about[tag] = _Doubt()
        else:
            doubt.pause = min(2 * doubt.pause, LONGEST_PAUSE)

    def settle(self, tag: Tag) -> None:
        """The engine replied to a call about the container: close its breaker."""
        doubt = self._about.pop(tag, None)
        if doubt is not None:
            doubt.hope.set()

    def engine_silent(self) -> None:
        """A survey failed: the engine as a whole may be the cause of the silence."""
        self._of_all = True

    def engine_told(self, found: Iterable[Inspection]) -> None:
        """A survey succeeded: close the breakers of containers that do not exist any more, and end some pauses.

        The pauses of containers that have exited end; those of all containers, if the last survey failed.
        """
        states = {it.tag: it.state for it in found}
        for tag, doubt in tuple(self._about.items()):
            if tag not in states:
                self.settle(tag)
            elif self._of_all or states[tag] is ContainerState.EXITED:
                doubt.hope.set()
        self._of_all = False

    @asynccontextmanager
    async def _turn(self, tag: Tag, doubt: _Doubt) -> AsyncIterator[bool]:
        async with doubt.turn:
            if self._about.get(tag) is doubt:
                await doubt.wait()
            yield self._about.get(tag) is doubt
