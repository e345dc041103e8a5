"""Where messages wait to be read."""

import asyncio
from collections import deque

from batchq.engine.messages import CatalogChanged, JobEvent, Message, caller_of

ENOUGH = 64  # messages that share what a unit of work costs besides them
QUIET = 3  # rounds of the event loop: what has come in by then needs so many to become a message
AGAIN = 3  # rounds for each request of the last unit of work: whoever was answered may come again at once
LOW_PRIORITY_DELAY = 0.1  # seconds that news which nobody waits for lies until it has a turn of its own


class Mailbox:
    """Anybody may post; one reader takes. Nothing is refused: each message stands for something that did happen."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._mail = asyncio.Event()
        self._last = 0
        self._later: asyncio.TimerHandle | None = None

    def post(self, *messages: Message) -> None:
        """Those of one call lie together. What is at leisure is read with what comes next, or by itself before long."""
        self._messages.extend(messages)
        if not all(isinstance(it, JobEvent) and it.low_priority for it in messages):
            self._mail.set()
        elif messages and self._later is None and not self._mail.is_set():
            self._later = asyncio.get_running_loop().call_later(LOW_PRIORITY_DELAY, self._mail.set)

    def ground_changed(self) -> None:
        """Queues or environments are not what they were."""
        self.post(CatalogChanged())

    async def take(self, most: int) -> list[Message]:
        """All that waits, oldest first, at least one and at most so many.

        What is on its way is waited for, not what may come: a unit and its commit cost the same for one as for all.
        """
        await self._mail.wait()
        await self._settled()
        messages = [self._messages.popleft() for _ in range(min(len(self._messages), most))]
        self._last = min(sum(caller_of(it) is not None for it in messages), ENOUGH)
        if not self._messages:
            self._empty()
        return messages

    def _empty(self) -> None:
        self._mail.clear()
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def _settled(self) -> None:
        """Return when no message comes any more, or there are enough. No time passes but that of what is ready.

        As long as there are fewer than the last time it takes longer to say so.
        """
        quiet = 0
        while quiet < self._patience and len(self._messages) < ENOUGH:
            before = len(self._messages)
            await asyncio.sleep(0)  # noqa: TID251 - no time passes, what is ready goes first
            quiet = 0 if len(self._messages) > before else quiet + 1

    @property
    def _patience(self) -> int:
        return QUIET if len(self._messages) >= self._last else QUIET + AGAIN * self._last

    @property
    def empty(self) -> bool:
        return not self._messages
