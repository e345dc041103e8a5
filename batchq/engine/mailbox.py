"""The mailbox: the queue of messages to the loop."""

import asyncio
from collections import deque

from batchq.engine.messages import CatalogChanged, JobEvent, Message, caller_of

ENOUGH_MESSAGES = 64  # messages among which the fixed cost of a unit of work is divided well enough
QUIET_ITERATIONS = 3  # iterations of the event loop that received input needs to become a message
ITERATIONS_PER_REQUEST = (
    3  # iterations for each request of the last unit of work: a client that was answered may send the next at once
)
LOW_PRIORITY_DELAY = 0.1  # seconds after which low-priority messages are handled without another message


class Mailbox:
    """Many writers, one reader. No message is refused: each reports something that has happened."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        #: Set when `take` should return.
        self._ready = asyncio.Event()
        #: The number of requests in the last batch, at most ENOUGH_MESSAGES.
        self._last_requests = 0
        #: The timer of waiting low-priority messages.
        self._low_priority_timer: asyncio.TimerHandle | None = None

    def post(self, *messages: Message) -> None:
        """Add messages; those of one call stay together.

        Low-priority messages are handled with the next other message, or after LOW_PRIORITY_DELAY.
        """
        self._messages.extend(messages)
        if not all(isinstance(it, JobEvent) and it.low_priority for it in messages):
            self._ready.set()
        elif messages and self._low_priority_timer is None and not self._ready.is_set():
            self._low_priority_timer = asyncio.get_running_loop().call_later(LOW_PRIORITY_DELAY, self._ready.set)

    def catalog_changed(self) -> None:
        """Report that the catalog has changed."""
        self.post(CatalogChanged())

    async def take(self, limit: int) -> list[Message]:
        """Wait for messages; returns the oldest, at least one and at most `most`.

        Waits also for messages that are about to arrive: the cost of a unit of work and its commit hardly depends on
        their number.
        """
        await self._ready.wait()
        await self._wait_until_quiet()
        messages = [self._messages.popleft() for _ in range(min(len(self._messages), limit))]
        self._last_requests = min(sum(caller_of(it) is not None for it in messages), ENOUGH_MESSAGES)
        if not self._messages:
            self._reset()
        return messages

    def _reset(self) -> None:
        self._ready.clear()
        if self._low_priority_timer is not None:
            self._low_priority_timer.cancel()
            self._low_priority_timer = None

    async def _wait_until_quiet(self) -> None:
        """Return when no further message is about to arrive, or ENOUGH_MESSAGES are waiting.

        Does not sleep: it only yields to ready tasks.

        While there are fewer messages than in the last batch, it yields more often.
        """
        quiet = 0
        while quiet < self._max_quiet and len(self._messages) < ENOUGH_MESSAGES:
            before = len(self._messages)
            await asyncio.sleep(0)  # noqa: TID251 - no time passes, what is ready goes first
            quiet = 0 if len(self._messages) > before else quiet + 1

    @property
    def _max_quiet(self) -> int:
        return (
            QUIET_ITERATIONS
            if len(self._messages) >= self._last_requests
            else QUIET_ITERATIONS + ITERATIONS_PER_REQUEST * self._last_requests
        )

    @property
    def is_empty(self) -> bool:
        return not self._messages
