"""The mailbox: the queue of messages to the loop."""

import asyncio
from collections import deque

from batchq.engine.messages import CatalogChanged, JobEvent, Message, caller_of

ENOUGH = 64  # messages among which the fixed cost of a unit of work is divided well enough
QUIET = 3  # iterations of the event loop that received input needs to become a message
AGAIN = 3  # iterations for each request of the last unit of work: a client that was answered may send the next at once
LOW_PRIORITY_DELAY = 0.1  # seconds after which low-priority messages are handled without another message


class Mailbox:
    """Many writers, one reader. No message is refused: each reports something that has happened."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        #: Set when `take` should return.
        self._mail = asyncio.Event()
        #: The number of requests in the last batch, at most ENOUGH.
        self._last = 0
        #: The timer of waiting low-priority messages.
        self._later: asyncio.TimerHandle | None = None

    def post(self, *messages: Message) -> None:
        """Add messages; those of one call stay together.

        Low-priority messages are handled with the next other message, or after LOW_PRIORITY_DELAY.
        """
        self._messages.extend(messages)
        if not all(isinstance(it, JobEvent) and it.low_priority for it in messages):
            self._mail.set()
        elif messages and self._later is None and not self._mail.is_set():
            self._later = asyncio.get_running_loop().call_later(LOW_PRIORITY_DELAY, self._mail.set)

    def ground_changed(self) -> None:
        """Report that the catalog has changed."""
        self.post(CatalogChanged())

    async def take(self, most: int) -> list[Message]:
        """Wait for messages; returns the oldest, at least one and at most `most`.

        Waits also for messages that are about to arrive: the cost of a unit of work and its commit hardly depends on
        their number.
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
        """Return when no further message is about to arrive, or ENOUGH are waiting.

        Does not sleep: it only yields to ready tasks.

        While there are fewer messages than in the last batch, it yields more often.
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
