"""The history feed in memory: the newest entries of all jobs, and the readers that wait for the next one.

A commit appends its entries; nothing is held for a job. Waiting readers see them at the next publication to their user:
at once after a quiet time, else PAUSE later, and later still if this user has many readers, so that a busy server
spends a bounded part of its time on them. A reader that is further behind than RING_SIZE entries reads the store.
Decision 0054.
"""

import asyncio
from collections import deque
from itertools import takewhile

from batchq.domain.access.accounts import UserName
from batchq.engine.unit_of_work import Committed
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage, HistoryStore

RING_SIZE = 8192  # entries in memory
MAX_SCANNED = 5000  # stored entries that one page examines
PAUSE = 0.1  # seconds between two publications to a user, at least
MAX_WAKES = 250  # readers that publications wake in a second; users with waiting readers have equal shares
FEW_READERS = 4  # a user with at most so many waits MAX_PAUSE at most, however many other users there are
MAX_PAUSE = 0.2  # seconds
WOKEN_AT_ONCE = 5  # readers; the next ones follow after WAKE_INTERVAL, so that other requests are served between them
WAKE_INTERVAL = 0.005  # seconds

Waiter = asyncio.Future[None]


class HistoryFeed:
    """The entries that this server has saved, as last committed. Numbers ascend in the order of the commits."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        #: The highest number that was saved.
        self.last = 0
        #: The newest entries, with consecutive numbers through `last`.
        self._ring: deque[FeedEntry] = deque(maxlen=RING_SIZE)
        #: The users that have waiting readers, or had them a moment ago.
        self._users: dict[UserName, _Readers] = {}
        #: Whether the server shuts down: no reader waits.
        self.closed = False

    @property
    def waiting(self) -> int:
        """The number of readers that wait for the next publication."""
        return sum(len(readers.waiters) for readers in self._users.values())

    async def load(self) -> None:
        """Continue after the stored entries. Called before the first commit, and after one with an unknown outcome."""
        last = (await self._store.feed_ends()).last
        if last != self.last:
            self._ring.clear()
            self._advance(last)

    def on_committed(self, committed: Committed) -> None:
        """Append the entries of a saved unit of work, at least one."""
        entries = committed.history
        if entries[0].number != self.last + 1:  # a commit that was reported as failed was saved: the store has it
            self._ring.clear()
        self._ring.extend(entries)
        self._advance(entries[-1].number)

    def close(self) -> None:
        """Wake all waiting readers, at shutdown. From now on no reader waits."""
        self.closed = True
        for readers in self._users.values():
            readers.cancel_timer()
            for waiter in readers.waiters:
                _wake(waiter)

    async def page(self, after: int, wanted: FeedFilter, *, limit: int, wait: float, reader: UserName) -> FeedPage:
        """Entries above the number `after` that match: at once if there are any, else within `wait` seconds.

        With `wait`, entries of the last moments may be returned a little later, together with those that follow them;
        how much later depends on how many requests of the user `reader` wait. A page without entries ends a long scan,
        or the wait; the next one begins after `FeedPage.next`. Raises StoreFailed.
        """
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            through = self._published(reader) if wait > 0 and not self.closed else self.last
            page = await self._read(after, wanted, limit, through)
            if page.entries or page.gap or page.next < through:
                return page
            after = page.next
            if not await self._wait(reader, deadline):
                return page

    async def next_change(self, after: int, wanted: FeedFilter, *, deadline: float, reader: UserName) -> int | None:
        """Wait for an entry above the number `after` that matches; returns the number after which to continue.

        Also returns when entries are missing. None after `deadline`, in seconds of the event loop's clock, and at
        shutdown. Raises StoreFailed.
        """
        loop = asyncio.get_running_loop()
        while loop.time() < deadline and not self.closed:
            page = await self.page(after, wanted, limit=1, wait=deadline - loop.time(), reader=reader)
            if page.entries or page.gap:
                return page.next
            after = page.next
        return None

    async def _wait(self, reader: UserName, deadline: float) -> bool:
        """Wait for the next publication; False after the deadline, and if the feed is closed."""
        if self.closed or deadline <= asyncio.get_running_loop().time():
            return False
        waiter: Waiter = asyncio.get_running_loop().create_future()
        readers = self._readers_of(reader)
        readers.waiters[waiter] = None
        self._publish_if_due(readers)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            return False
        finally:
            readers.waiters.pop(waiter, None)
        return not self.closed

    def _published(self, reader: UserName) -> int:
        """The number through which waiting readers of this user may read."""
        readers = self._readers_of(reader)
        self._publish_if_due(readers)
        return readers.published

    def _readers_of(self, user: UserName) -> "_Readers":
        """The readers of a user. Users without readers are removed when another one's first reader comes."""
        if user not in self._users:
            self._users = {name: readers for name, readers in self._users.items() if readers.in_use}
            self._users[user] = _Readers()
        return self._users[user]

    def _publish_if_due(self, readers: "_Readers") -> None:
        """Let these readers see the entries through `last`, now or when the pause since the last time is over."""
        loop = asyncio.get_running_loop()
        if readers.published == self.last:
            return
        if loop.time() >= readers.due:
            self._publish(readers)
        elif readers.timer is None and readers.waiters:
            readers.timer = loop.call_at(readers.due, self._publish, readers)

    def _publish(self, readers: "_Readers") -> None:
        readers.cancel_timer()
        readers.published = self.last
        users = sum(user.in_use for user in self._users.values())
        waiters, readers.waiters = list(readers.waiters), {}
        pause = max(PAUSE, len(waiters) * users / MAX_WAKES)
        if len(waiters) <= FEW_READERS:
            pause = min(pause, MAX_PAUSE)
        readers.due = asyncio.get_running_loop().time() + pause
        _wake_some(waiters)

    async def _read(self, after: int, wanted: FeedFilter, limit: int, through: int) -> FeedPage:
        first = self.last + 1 - len(self._ring)
        if not first - 1 <= after <= self.last:
            return await self._store.feed(after, wanted, limit=limit, scan=MAX_SCANNED)
        newer = list(takewhile(lambda entry: entry.number > after, reversed(self._ring)))
        entries: list[FeedEntry] = []
        for saved in reversed(newer):
            if saved.number > through:
                break
            if wanted.matches(saved):
                entries.append(saved)
                if len(entries) == limit:
                    return FeedPage(entries=tuple(entries), next=saved.number, gap=False)
        return FeedPage(entries=tuple(entries), next=max(after, through), gap=False)

    def _advance(self, last: int) -> None:
        self.last = last
        for readers in self._users.values():
            self._publish_if_due(readers)


class _Readers:
    """The waiting readers of one user."""

    def __init__(self) -> None:
        #: The number through which they may read.
        self.published = 0
        #: When the next publication may be, in seconds of the event loop's clock.
        self.due = 0.0
        self.timer: asyncio.TimerHandle | None = None
        #: Those that wait for the next publication, as keys: the first one has waited longest.
        self.waiters: dict[Waiter, None] = {}

    @property
    def in_use(self) -> bool:
        """Whether a reader waits, or was woken by the last publication."""
        return bool(self.waiters) or self.due > asyncio.get_running_loop().time()

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _wake_some(waiters: list[Waiter]) -> None:
    """Wake the first of these readers, and the others soon after."""
    for waiter in waiters[:WOKEN_AT_ONCE]:
        _wake(waiter)
    if rest := waiters[WOKEN_AT_ONCE:]:
        asyncio.get_running_loop().call_later(WAKE_INTERVAL, _wake_some, rest)


def _wake(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_result(None)
