"""Containers that the engine is silent about: each is asked of one call at a time, and ever more seldom.

A call about a stuck container is not answered, and the engine keeps it all the same; so calls must not pile up there,
nor hold the threads that calls about other containers need.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

from batchq.domain.ids import Tag
from batchq.ports.runtime import ContainerState, Inspection

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the next call about one that is stuck

NO_DOUBT = nullcontext(enter_result=False)


class _Doubt:
    def __init__(self) -> None:
        self.pause = FIRST_PAUSE
        self.turn = asyncio.Lock()
        self.hope = asyncio.Event()

    async def wait(self) -> None:
        """Its pause, or until there is reason to hope for an answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pause):
                await self.hope.wait()
        self.hope.clear()


class SilentContainers:
    """They belong to the event loop."""

    def __init__(self) -> None:
        self._about: dict[Tag, _Doubt] = {}
        self._of_all = False

    def turn(self, tag: Tag) -> AbstractAsyncContextManager[bool]:
        """Whether the container is in doubt when the turn of this call has come."""
        doubt = self._about.get(tag)
        return NO_DOUBT if doubt is None else self._turn(tag, doubt)

    def __contains__(self, tag: Tag) -> bool:
        """Any thread may ask."""
        return tag in self._about

    def grow(self, tag: Tag) -> None:
        """It was silent, for the first time or again."""
        doubt = self._about.get(tag)
        if doubt is None:
            self._about[tag] = _Doubt()
        else:
            doubt.pause = min(2 * doubt.pause, LONGEST_PAUSE)

    def settle(self, tag: Tag) -> None:
        """It was answered for."""
        doubt = self._about.pop(tag, None)
        if doubt is not None:
            doubt.hope.set()

    def engine_silent(self) -> None:
        self._of_all = True

    def engine_told(self, found: Iterable[Inspection]) -> None:
        """What is over, and all where the engine as a whole was silent, may be answered for now."""
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
