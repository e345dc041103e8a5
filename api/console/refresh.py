"""What keeps open pages up to date at little cost: notices of changes, shared fragments, and the load on the server.

A notice names the queues and jobs that changed, never their content. Notices are made once for all callers who see
the same jobs, at most one each INTERVAL. A fragment is rendered at most once a second for all requests of its users. A
request after a change waits for the next rendering: its page has read the notice of that change, and would not fetch
the fragment again. While the server is busy, pages fetch less often, because the engine comes first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from math import ceil

import msgspec
from msgspec import Struct, field

from batchq.api.http.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Visibility
from batchq.errors import Unavailable
from batchq.ports.clock import Clock
from batchq.ports.history import FeedFilter, FeedPage
from batchq.services.records import EventService

log = logging.getLogger(__name__)

INTERVAL = 0.25  # seconds between two notices
MAX_JOBS = 50  # that a notice names
MAX_CHANGES = 5000  # that a notice summarizes
WAIT = 20  # seconds of one wait for changes
MAX_STREAMS = 512
MAX_USER_STREAMS = 32
MAX_SESSION_STREAMS = 3
MAX_UNREAD = 16  # frames; a stream that is further behind gets one that concerns every page
WINDOW = 5.0  # seconds over which rendering is measured
MAX_SHARE = 0.05  # of a core, for rendering
MAX_DELAY = timedelta(seconds=0.1)  # of the event loop
FIRST_BUSY_INTERVAL, MAX_BUSY_INTERVAL = 5, 30  # seconds between two fetches of a page
SHARED_FOR = 1.0  # seconds between two renderings of a fragment


class Load:
    """Measures the time that rendering takes, and the delay of the event loop."""

    def __init__(self, delay: Callable[[], timedelta]) -> None:
        """`delay`: by how much the event loop was late, when it was last measured."""
        self._delay = delay
        #: When each page of the last seconds was rendered, and the seconds that it took.
        self._renderings: deque[tuple[float, float]] = deque()
        self._seconds = 0.0

    def rendered(self, seconds: float) -> None:
        """Record that a page or a part of one was rendered."""
        self._renderings.append((asyncio.get_running_loop().time(), seconds))
        self._seconds += seconds
        self._forget()

    @property
    def fetch_interval(self) -> int:
        """The seconds that a page waits between two fetches at least; 0 while the server is not busy."""
        self._forget()
        excess = max(self._seconds / (WINDOW * MAX_SHARE), self._delay() / MAX_DELAY)
        return min(MAX_BUSY_INTERVAL, ceil(FIRST_BUSY_INTERVAL * excess)) if excess > 1 else 0

    def _forget(self) -> None:
        oldest = asyncio.get_running_loop().time() - WINDOW
        while self._renderings and self._renderings[0][0] < oldest:
            self._seconds -= self._renderings.popleft()[1]


class ChangeNotice(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    fetch_interval: int = field(default=0, name="fetchInterval")

    @property
    def frame(self) -> bytes:
        """The notice as an event of text/event-stream. A client that connects again sends its id."""
        return b"id: %d\ndata: %s\n\n" % (self.n, msgspec.json.encode(self))


class NoticeStream:
    """The notices for one client."""

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
            return ChangeNotice(n=group.number, jobs=()).frame
        return b"".join(list(group.frames)[-unread:])


class ChangeNotices:
    """The streams of all clients."""

    def __init__(self, *, events: EventService, clock: Clock, load: Load) -> None:
        self._events = events
        self._clock = clock
        self._load = load
        self._groups: dict[Visibility | None, _Group] = {}
        #: For each stream its user, its session, and whether its client is connected.
        self._clients: dict[NoticeStream, tuple[str, str, Callable[[], bool]]] = {}

    @contextmanager
    def stream(
        self, caller: Caller, *, session: str, after: int | None, is_connected: Callable[[], bool]
    ) -> Iterator[NoticeStream]:
        """Open a stream. Raises HttpRefusal (503) when too many are open: the client then fetches at intervals."""
        connected = [(user, of_session) for user, of_session, is_open in self._clients.values() if is_open()]
        of_user = [each for user, each in connected if user == caller.user]
        too_many = len(connected) >= MAX_STREAMS or len(of_user) >= MAX_USER_STREAMS
        if too_many or of_user.count(session) >= MAX_SESSION_STREAMS:
            raise HttpRefusal("Too many pages are live.", status=HTTPStatus.SERVICE_UNAVAILABLE)
        group = self._group_of(caller)
        stream = NoticeStream(group, after=after)
        self._clients[stream] = caller.user, session, is_connected
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
            group.task = asyncio.create_task(self._follow(group, caller), name=f"notices for {caller.user}")
        return group

    async def _follow(self, group: "_Group", caller: Caller) -> None:
        """Make notices of the changes that the caller may see, until no stream is left or the server shuts down."""
        try:
            while not self._events.closed:
                page = await self._events.page(group.number, FeedFilter(), limit=MAX_CHANGES, wait=WAIT, caller=caller)
                group.number = page.next
                if page.entries or page.gap:
                    group.add(_notice(page, self._load.fetch_interval).frame)
                    await self._clock.sleep(INTERVAL)
        except Unavailable as why:
            log.info("the notices for %s end: %s", caller.user, why)
        finally:
            group.close()
            if self._groups.get(caller.visibility) is group:
                del self._groups[caller.visibility]


class _Group:
    """The newest notices for callers who see the same jobs."""

    task: asyncio.Task[None]

    def __init__(self, number: int) -> None:
        #: The number of the newest change that the notices include.
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


def _notice(page: FeedPage, fetch_interval: int) -> ChangeNotice:
    if page.gap:
        return ChangeNotice(n=page.next, jobs=(), fetch_interval=fetch_interval)
    queues = sorted({entry.queue for entry in page.entries})
    jobs = tuple(dict.fromkeys(entry.entry.job_id for entry in page.entries))
    return ChangeNotice(
        n=page.next,
        queues=tuple(queues),
        jobs=jobs[:MAX_JOBS],
        more=len(jobs) > MAX_JOBS,
        fetch_interval=fetch_interval,
    )


class Fragment(Struct, frozen=True, kw_only=True):
    """A rendered block of a page."""

    body: bytes
    #: For the header ETag.
    tag: str
    #: Of the page.
    status: HTTPStatus
    #: The title of the browser's tab; empty: it does not change.
    tab: str = ""


class SharedFragments:
    """The renderings of the last second, and those that are due in the next."""

    def __init__(self, *, events: EventService, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._renderings: dict[Hashable, _Rendering] = {}

    async def of(self, key: Hashable, render: Callable[[], Awaitable[Fragment]]) -> Fragment:
        """Return the fragment; `key` has all on which it depends."""
        now = asyncio.get_running_loop().time()
        found = self._renderings.get(key)
        if found is None or found.begins_at + SHARED_FOR <= now:
            recent = {
                of: rendering for of, rendering in self._renderings.items() if rendering.begins_at + SHARED_FOR > now
            }
            self._renderings = recent
            found = self._begin(key, now, render)
        elif found.number is not None and found.number != self._events.last:
            found = self._begin(key, found.begins_at + SHARED_FOR, render)
        return await asyncio.shield(found.task)

    def _begin(self, key: Hashable, begins_at: float, render: Callable[[], Awaitable[Fragment]]) -> "_Rendering":
        rendering = self._renderings[key] = _Rendering(begins_at)
        rendering.task = asyncio.create_task(self._render(rendering, render), name="rendering of a fragment")
        # Otherwise asyncio logs a failure for which every client has gone.
        rendering.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return rendering

    async def _render(self, rendering: "_Rendering", render: Callable[[], Awaitable[Fragment]]) -> Fragment:
        wait = rendering.begins_at - asyncio.get_running_loop().time()
        if wait > 0:
            await self._clock.sleep(wait)
        rendering.number = self._events.last
        return await render()


class _Rendering:
    """One rendering of a fragment."""

    task: asyncio.Task[Fragment]

    def __init__(self, begins_at: float) -> None:
        #: In seconds of the event loop's clock.
        self.begins_at = begins_at
        #: The newest change that it shows; None before it begins.
        self.number: int | None = None
