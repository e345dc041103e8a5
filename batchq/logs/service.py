"""The log service: capture of container output, and reads of it as CloudWatch log streams.

Reads are answered from the archive, after new output of running containers has been copied into it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from batchq.domain.access.accounts import Caller
from batchq.domain.ids import Tag
from batchq.domain.lifecycle.views import log_group_of
from batchq.errors import NotFound
from batchq.logs import pages
from batchq.logs.capture import LogCapture
from batchq.logs.followers import LogFollowers
from batchq.logs.pages import Span, StreamPosition, StreamQuery, list_streams, position_after
from batchq.logs.quota import LogQuota
from batchq.logs.search import Event, Key, SearchBudget, never_disconnected, parse_pattern, search_streams
from batchq.logs.tail import Copied, LogCopier, SharedCopies
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive, LogPage, LogStream
from batchq.ports.runtime import ContainerRuntime

GROUP = "/aws/batch/job"
_END = 2**63 - 1  # nanoseconds since the epoch: after every line
MAX_STREAMS_PER_SEARCH = 500  # streams that are searched together


class LogQuery(Struct, frozen=True, kw_only=True):
    """A FilterLogEvents query."""

    #: The names of the streams to search; empty: all streams whose names begin with `prefix`.
    names: tuple[str, ...] = ()
    prefix: str = ""
    span: Span
    #: A filter pattern; empty: every event matches.
    pattern: str = ""


class LogSearchPosition(Struct, frozen=True, kw_only=True):
    """The position of the next page of a search."""

    #: Only streams with names after this.
    after_name: str = ""
    #: Only streams with names up to this; None: no limit.
    until_name: str | None = None
    #: Only lines with keys above this; None: all lines.
    after_key: Key | None = None


class StreamSummary(Struct, frozen=True, kw_only=True):
    """A log stream with the times of its first and last event."""

    stream: LogStream
    #: The time of the first event in nanoseconds since the epoch; None for an empty log.
    first: int | None
    #: The latest timestamp in nanoseconds since the epoch; None for an empty log.
    last: int | None
    #: Stored bytes.
    size: int


class CloudWatchLogs:
    """The log group `/aws/batch/job`, with one stream for each container of an attempt.

    A stream is also in the log group that its job definition names by the option `awslogs-group`; see `are_in_group`.
    Streams that are not visible to the caller are treated as missing.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        archive: LogArchive,
        runtime: ContainerRuntime,
        clock: Clock,
        quota: LogQuota,
        is_following: bool = False,
    ) -> None:
        """`is_following`: whether the logs of running containers are followed, if their container engine needs it."""
        self._store = store
        self._archive = archive
        self._quota = quota
        capture = LogCapture(archive=archive, runtime=runtime, clock=clock, quota=quota)
        self._followers = LogFollowers(capture, is_following=is_following)
        #: Called with each job that was loaded or saved.
        self.on_saved = self._followers.on_saved
        self._search_lock = asyncio.Lock()
        self._tail = LogCopier(store=store, runtime=runtime, capture=capture, clock=clock)
        self._copies = SharedCopies(tail=self._tail, store=store, archive=archive)
        #: The number of requests that wait for output of running containers.
        self.followers = 0

    async def capture(self, tag: Tag) -> bool:
        """Copy all output of a container into the archive, so that the container may be removed.

        Returns True if the container wrote nothing and was removed. A container that does not exist any more has no
        output. Repeated or interrupted calls store each line once. Raises RuntimeUnknown; StoreFailed.
        """
        return await self._followers.capture(tag)

    @property
    def trouble(self) -> str | None:
        """The text for /healthz if output was not stored recently; None if all is well."""
        return self._quota.trouble

    async def stored_bytes(self) -> int | None:
        """The total size of all stored logs; None while it is computed for the first time."""
        return await self._quota.stored_bytes()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count a request that follows a log in `followers`."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def close(self) -> None:
        await self._followers.close()
        await self._copies.close()
        await self._tail.close()
        await self._quota.close()

    async def stream(self, name: str, *, caller: Caller) -> LogStream:
        """The stream with this name. Raises NotFound."""
        stream = await self._store.stream(name)
        if stream is None or not caller.reaches(stream.owner):
            raise NotFound("The specified log stream does not exist.")
        return stream

    async def existing(self, names: Sequence[str], *, caller: Caller) -> tuple[LogStream, ...]:
        """The streams with these names that exist."""
        found = [await self._store.stream(name) for name in names]
        return tuple(stream for stream in found if stream is not None and caller.reaches(stream.owner))

    async def are_in_group(self, names: Sequence[str], group: str, *, caller: Caller) -> bool:
        """Whether the job definitions of all streams `names` have `group` as their `awslogs-group`.

        False without names, and if a stream does not exist.
        """
        streams = await self.existing(names, caller=caller)
        jobs = await self._store.jobs([stream.tag.job_id for stream in streams])
        return len(streams) == len(names) > 0 and all(
            stream.tag.job_id in jobs and log_group_of(jobs[stream.tag.job_id], stream.tag) == group
            for stream in streams
        )

    async def events(
        self, stream: LogStream, *, span: Span, position: int | None, limit: int, backwards: bool
    ) -> LogPage:
        """A page of one stream: events from `position` on, or with `backwards` the events before it.

        `position` None: from the beginning of the stream, or back from its end. Raises Invalid for an invalid position.
        """
        await self._tail.copy_new((stream,))
        read = pages.read_backwards if backwards else pages.read_forwards
        return await read(self._archive, stream.tag.log_id, span=span, position=position, limit=limit)

    async def copy(self, tag: Tag) -> Copied:
        """Copy the new output of one container, at most once in 200 ms for all its followers. Raises StoreFailed."""
        return await self._copies.copy(tag)

    async def lines(self, tag: Tag, *, position: int, limit: int, max_bytes: int = pages.PAGE_BYTES) -> LogPage:
        """Stored lines of one container from `position` on, without another copy: at least one if there is one.

        Raises Invalid; StoreFailed.
        """
        return await self._archive.read(tag.log_id, position=position, limit=limit, max_bytes=max_bytes)

    async def tail(
        self, tag: Tag, *, limit: int, before: int | None = None, max_bytes: int = pages.PAGE_BYTES
    ) -> LogPage:
        """The last `limit` stored lines of one container, without another copy: at least one if there is one.

        `before`: only lines before this position. Raises Invalid; StoreFailed.
        """
        return await self._archive.read_back(tag.log_id, position=before, limit=limit, max_bytes=max_bytes)

    async def count_lines(self, tag: Tag, *, start: int, end: int) -> int:
        """How many stored lines there are between two positions, which are read for it. Raises StoreFailed."""
        return await self._archive.count(tag.log_id, start=start, end=end)

    async def last_lines(self, tag: Tag, *, limit: int) -> int:
        """The position of the last `limit` lines; those beyond 1 MiB are left out. Raises StoreFailed."""
        if not limit:
            return await self._archive.seek(tag.log_id, _END)
        return (await self.tail(tag, limit=limit)).start

    async def lines_since(self, tag: Tag, *, at: int) -> int:
        """The position of the first line at or after the time `at`, in nanoseconds. Raises StoreFailed."""
        return await self._archive.seek(tag.log_id, at)

    async def filter(
        self,
        query: LogQuery,
        *,
        position: LogSearchPosition,
        limit: int,
        caller: Caller,
        has_disconnected: Callable[[], bool] = never_disconnected,
    ) -> tuple[tuple[Event, ...], LogSearchPosition | None]:
        """A page of matching events by time, and the position of the next page; None after the last page.

        A page may be empty although more pages follow. With several streams, events after the copy of the first
        container are left out: a client that follows the streams continues from the newest event it received, and
        would miss older events of containers that were copied earlier. The page ends early once
        `has_disconnected` returns True. Raises NotFound; Invalid for an unsupported pattern.
        """
        pattern, budget = (
            parse_pattern(query.pattern),
            SearchBudget(self._search_lock, has_disconnected=has_disconnected),
        )
        streams = await self._streams_to_search(query, position, caller)
        horizon = await self._tail.copy_new(streams)
        span = query.span.until(horizon) if len(streams) > 1 else query.span
        hits = await search_streams(
            self._archive, streams, span=span, pattern=pattern, budget=budget, after=position.after_key, limit=limit
        )
        if hits.last_compared is not None:
            return hits.events, LogSearchPosition(
                after_name=position.after_name, until_name=streams[-1].name, after_key=hits.last_compared
            )
        if query.names or len(streams) < MAX_STREAMS_PER_SEARCH:
            return hits.events, None
        return hits.events, LogSearchPosition(after_name=streams[-1].name)

    async def streams(
        self, query: StreamQuery, *, after: StreamPosition | None, limit: int, caller: Caller
    ) -> tuple[tuple[StreamSummary, ...], StreamPosition | None]:
        """A page of streams, and the position of the next page; None after the last page."""
        found = await list_streams(self._store, query, visibility=caller.visibility, after=after, limit=limit + 1)
        page = found[:limit]
        more = position_after(page[-1]) if len(found) > limit else None
        return tuple([await self.summary(stream) for stream in page]), more

    async def summary(self, stream: LogStream) -> StreamSummary:
        """The stream with the times of its events."""
        log_id = stream.tag.log_id
        first = await self._archive.read(log_id, position=0, limit=1, max_bytes=1)
        last = await self._archive.last(log_id)
        return StreamSummary(
            stream=stream,
            first=first.lines[0].at if first.lines else None,
            last=last or None,
            size=await self._archive.size(log_id),
        )

    async def _streams_to_search(
        self, query: LogQuery, position: LogSearchPosition, caller: Caller
    ) -> tuple[LogStream, ...]:
        """The streams of this page: those named in the query, or the next ones with its prefix."""
        if query.names:
            return tuple([await self.stream(name, caller=caller) for name in dict.fromkeys(query.names)])
        streams: list[LogStream] = []
        after = position.after_name
        while page := await self._store.streams(
            prefix=query.prefix, after=after, limit=MAX_STREAMS_PER_SEARCH, visibility=caller.visibility
        ):
            streams += (stream for stream in page if position.until_name is None or stream.name <= position.until_name)
            after = page[-1].name
            if position.until_name is None or after >= position.until_name:
                break
        return tuple(streams)
