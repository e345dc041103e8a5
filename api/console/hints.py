"""Hints of changed jobs, for open pages: the queues and jobs that changed, never their content.

Hints are made once for all callers who see the same jobs, at most one each INTERVAL.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import msgspec
from msgspec import Struct

from batchq.api.console.pressure import Pressure
from batchq.api.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Visibility
from batchq.errors import Unavailable
from batchq.ports.clock import Clock
from batchq.ports.history import FeedFilter, FeedPage
from batchq.services.records import EventService

log = logging.getLogger(__name__)

INTERVAL = 0.25  # seconds between two hints
MAX_JOBS = 50  # that a hint names
MAX_CHANGES = 5000  # that a hint summarizes
WAIT = 20  # seconds of one wait for changes
MAX_STREAMS = 64
MAX_SESSION_STREAMS = 3
MAX_UNREAD = 16  # frames; a stream that is further behind gets one that concerns every page


class Hint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has changed."""

    #: The number of the newest change.
    n: int
    #: The queues of the changed jobs; None: any queue, any job.
    queues: tuple[str, ...] | None = None
    #: Changed jobs, children and nodes included.
    jobs: tuple[str, ...]
    #: Whether further jobs have changed.
    more: bool = False
    #: Seconds that a page waits between two fetches of its live part, at least.
    calm: int = 0

    @property
    def frame(self) -> bytes:
        """The hint as an event of text/event-stream. A client that connects again sends its id."""
        return b"id: %d\ndata: %s\n\n" % (self.n, msgspec.json.encode(self))


class HintStream:
    """The hints for one client."""

    def __init__(self, group: "_Group", *, after: int | None) -> None:
        """`after`: the number of the last change that the client knows of; None: it knows of all."""
        self._group = group
        self._made = group.made
        self._missed = after is not None and after != group.number

    async def next(self) -> bytes | None:
        """Wait for the next frames; None when the server shuts down, or cannot read the changes."""
        group = self._group
        while self._made == group.made and not self._missed and not group.closed:
            await group.changed.wait()
        unread, self._made = group.made - self._made, group.made
        if group.closed:
            return None
        if self._missed or unread > len(group.frames):
            self._missed = False
            return Hint(n=group.number, jobs=()).frame
        return b"".join(list(group.frames)[-unread:])


class Hints:
    """The streams of all clients."""

    def __init__(self, *, events: EventService, clock: Clock, pressure: Pressure) -> None:
        self._events = events
        self._clock = clock
        self._pressure = pressure
        self._groups: dict[Visibility | None, _Group] = {}
        #: For each stream its session, and whether its client is connected.
        self._clients: dict[HintStream, tuple[str, Callable[[], bool]]] = {}

    @contextmanager
    def stream(
        self, caller: Caller, *, session: str, after: int | None, is_connected: Callable[[], bool]
    ) -> Iterator[HintStream]:
        """Open a stream. Raises HttpRefusal (503) when too many are open: the client then fetches at intervals."""
        connected = [of_session for of_session, is_open in self._clients.values() if is_open()]
        if len(connected) >= MAX_STREAMS or connected.count(session) >= MAX_SESSION_STREAMS:
            raise HttpRefusal("Too many pages are live.", status=HTTPStatus.SERVICE_UNAVAILABLE)
        group = self._group_of(caller)
        stream = HintStream(group, after=after)
        self._clients[stream] = session, is_connected
        group.streams += 1
        try:
            yield stream
        finally:
            del self._clients[stream]
            group.streams -= 1
            if not group.streams:
                group.task.cancel()

    def _group_of(self, caller: Caller) -> "_Group":
        group = self._groups.get(caller.visibility)
        if group is None or group.closed or group.task.cancelling():
            group = self._groups[caller.visibility] = _Group(self._events.last)
            group.task = asyncio.create_task(self._follow(group, caller), name=f"hints for {caller.user}")
        return group

    async def _follow(self, group: "_Group", caller: Caller) -> None:
        """Make hints of the changes that the caller may see, until no stream is left or the server shuts down."""
        try:
            while not self._events.closed:
                page = await self._events.page(group.number, FeedFilter(), limit=MAX_CHANGES, wait=WAIT, caller=caller)
                group.number = page.next
                if page.entries or page.gap:
                    group.add(_hint(page, self._pressure.calm).frame)
                    await self._clock.sleep(INTERVAL)
        except Unavailable as why:
            log.info("the hints for %s end: %s", caller.user, why)
        finally:
            group.close()
            if self._groups.get(caller.visibility) is group:
                del self._groups[caller.visibility]


class _Group:
    """The newest hints for callers who see the same jobs."""

    task: asyncio.Task[None]

    def __init__(self, number: int) -> None:
        #: The number of the newest change that the hints include.
        self.number = number
        #: How many frames were made; `frames` has the newest of them.
        self.made = 0
        self.frames: deque[bytes] = deque(maxlen=MAX_UNREAD)
        self.changed = asyncio.Event()
        self.closed = False
        self.streams = 0

    def add(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.made += 1
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        """Wake the streams that wait; a stream that waits from now on waits for the next change."""
        self.changed.set()
        self.changed.clear()


def _hint(page: FeedPage, calm: int) -> Hint:
    if page.gap:
        return Hint(n=page.next, jobs=(), calm=calm)
    queues = sorted({it.queue for it in page.entries})
    jobs = tuple(dict.fromkeys(it.entry.job_id for it in page.entries))
    return Hint(n=page.next, queues=tuple(queues), jobs=jobs[:MAX_JOBS], more=len(jobs) > MAX_JOBS, calm=calm)
