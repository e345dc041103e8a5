"""The history feed in memory: the newest entries of all jobs, and the readers that wait for the next one.

A commit appends its entries and sets one event for all waiting readers; nothing is held for a job or for a reader. A
reader that is further behind than RING_SIZE entries reads the store.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from batchq.engine.unit_of_work import Committed
from batchq.ports.clock import Clock
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage, HistoryStore

RING_SIZE = 8192  # entries in memory
MAX_SCANNED = 5000  # stored entries that one page examines
PAUSE = 0.1  # seconds between two looks of a waiting reader whose filter matched nothing


class HistoryFeed:
    """The entries that this server has saved, as last committed. Numbers ascend in the order of the commits."""

    def __init__(self, store: HistoryStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        #: The highest number that was saved.
        self.last = 0
        #: The newest entries, with consecutive numbers through `last`.
        self._ring: deque[FeedEntry] = deque(maxlen=RING_SIZE)
        self._more = asyncio.Event()
        #: Whether the server shuts down: no reader waits.
        self.closed = False

    async def load(self) -> None:
        """Continue after the stored entries. Called before the first commit, and after one with an unknown outcome."""
        last = (await self._store.feed_ends()).last
        if last != self.last:
            self._ring.clear()
            self._advance(last)

    def on_committed(self, committed: Committed) -> None:
        """Append the entries of a saved unit of work."""
        self._append(committed.history)

    def close(self) -> None:
        """Wake all waiting readers, at shutdown. From now on no reader waits."""
        self.closed = True
        self._more.set()

    async def page(self, after: int, wanted: FeedFilter, *, limit: int, wait: float) -> FeedPage:
        """Entries above the number `after` that match: at once if there are any, else within `wait` seconds.

        A page without entries ends a long scan, or the wait; the next one begins after `FeedPage.next`. Raises
        StoreFailed.
        """
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            page = await self._read(after, wanted, limit)
            if page.entries or page.gap or page.next < self.last:
                return page
            after = page.next
            if not await self.wait_for_more(after, deadline=deadline):
                return page

    async def wait_for_more(self, after: int, *, deadline: float) -> bool:
        """Wait for any entry above `after`; False after the deadline, in seconds of the event loop's clock."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self.last <= after and not self.closed:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._more.wait()
            except TimeoutError:
                return False
        pause = min(began + PAUSE, deadline) - loop.time()
        if pause > 0:  # entries that follow at once are examined together
            await self._clock.sleep(pause)
        return self.last > after and not self.closed

    async def _read(self, after: int, wanted: FeedFilter, limit: int) -> FeedPage:
        first = self.last + 1 - len(self._ring)
        if not first - 1 <= after <= self.last:
            return await self._store.feed(after, wanted, limit=limit, scan=MAX_SCANNED)
        newer = list(takewhile(lambda it: it.number > after, reversed(self._ring)))
        entries: list[FeedEntry] = []
        for saved in reversed(newer):
            if wanted.matches(saved):
                entries.append(saved)
                if len(entries) == limit:
                    break
        return FeedPage(
            entries=tuple(entries), next=entries[-1].number if len(entries) == limit else self.last, gap=False
        )

    def _append(self, entries: Sequence[FeedEntry]) -> None:
        if not entries:
            return
        if entries[0].number != self.last + 1:  # a commit that was reported as failed was saved: the store has it
            self._ring.clear()
        self._ring.extend(entries)
        self._advance(entries[-1].number)

    def _advance(self, last: int) -> None:
        self.last = last
        more, self._more = self._more, asyncio.Event()
        more.set()
