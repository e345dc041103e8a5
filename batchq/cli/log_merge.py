"""The lines of several logs: merged by time, or followed together as they arrive."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from queue import Empty, Queue
from threading import Thread

from msgspec import Struct

from batchq.cli.quantities import elapsed
from batchq.errors import BatchqError
from batchq.ports.responses.records import LogLineResponse

MAX_FOLLOWED = 20  # logs that are followed at the same time, each by its own connection
LOOK_INTERVAL = 2.0  # seconds between two requests for jobs that have started


class Log(Struct, frozen=True, kw_only=True):
    """The log of one job that is printed."""

    job_id: str
    name: str
    #: When its latest attempt began to run, in milliseconds since 1970; None: it has not started.
    started_at: int | None
    #: The beginning of each line: `name:3| `, with its colour; empty if only one log is printed.
    prefix: str


#: The pages of a log, of which the last one may wait for further lines.
ReadPages = Callable[[Log], Iterator[Sequence[LogLineResponse]]]


def merged_lines(logs: Iterable[Log], read: ReadPages) -> Iterator[tuple[Log, LogLineResponse]]:
    """The lines of all logs by their times; lines of one log stay in their order.

    A log is read only when the lines before its start were returned: the first line does not wait for all logs.
    """
    given = list(logs)
    unread: dict[int, Iterator[LogLineResponse]] = {}
    #: When the next line of a log was written, or else when its job started; the number of the log; the line.
    upcoming: list[tuple[int, int, LogLineResponse | None]] = [
        (log.started_at or 0, number, None) for number, log in enumerate(given)
    ]
    heapify(upcoming)
    while upcoming:
        _, number, line = heappop(upcoming)
        if line is None:
            unread[number] = chain.from_iterable(read(given[number]))
        else:
            yield given[number], line
        following = next(unread[number], None)
        if following is not None:
            heappush(upcoming, (following.at, number, following))


class FollowedLogs:
    """Follows several logs, at most MAX_FOLLOWED at a time, each in a thread of its own."""

    def __init__(self, logs: Sequence[Log], read: ReadPages, look: Callable[[], tuple[Sequence[Log], bool]]) -> None:
        """`look`: returns the logs of jobs that have started since its last call, and whether more jobs may start."""
        self._read = read
        self._look = look
        self._waiting = deque(logs)
        self._running = 0
        self._may_grow = True
        self._looked_at = elapsed()
        self._arrived: Queue[tuple[Log, Sequence[LogLineResponse]] | BatchqError | None] = Queue(maxsize=MAX_FOLLOWED)

    def pages(self) -> Iterator[tuple[Log, Sequence[LogLineResponse]]]:
        """The lines as they arrive, until all logs have ended and no job can start. Raises the error of a thread."""
        while True:
            if self._may_grow and (not self._running or elapsed() - self._looked_at >= LOOK_INTERVAL):
                started, self._may_grow = self._look()
                self._looked_at = elapsed()
                self._waiting.extend(started)
            while self._waiting and self._running < MAX_FOLLOWED:
                Thread(target=self._follow, args=(self._waiting.popleft(),), daemon=True).start()
                self._running += 1
            if not self._running and not self._may_grow:
                return
            yield from self._next_page()

    def _next_page(self) -> Iterator[tuple[Log, Sequence[LogLineResponse]]]:
        """The page that arrives within LOOK_INTERVAL, if any."""
        try:
            event = self._arrived.get(timeout=LOOK_INTERVAL)
        except Empty:
            return
        match event:
            case None:
                self._running -= 1
            case BatchqError() as error:
                raise error
            case page:
                yield page

    def _follow(self, log: Log) -> None:
        try:
            for lines in self._read(log):
                self._arrived.put((log, lines))
            self._arrived.put(None)
        except BatchqError as error:
            self._arrived.put(error)
