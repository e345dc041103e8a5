"""What containers wrote: kept, and read as CloudWatch's streams of events. Reads are served from the archive alone."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from batchq.domain.access.accounts import Caller
from batchq.domain.ids import Tag
from batchq.errors import NotFound
from batchq.logs import pages
from batchq.logs.capture import LogCapture
from batchq.logs.filter_pattern import compiled
from batchq.logs.pages import Span
from batchq.logs.quota import LogQuota
from batchq.logs.search import Event, Key, search
from batchq.logs.search_budget import Budget, never
from batchq.logs.streams import Listing, StreamPosition, mark, page
from batchq.logs.tail import Follower
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive, LogPage, LogStream
from batchq.ports.runtime import ContainerRuntime

GROUP = "/aws/batch/job"
PART = 500  # streams that are searched together


class LogQuery(Struct, frozen=True, kw_only=True):
    """What to search: the streams of these names; if there are none, all whose names begin with `prefix`."""

    names: tuple[str, ...] = ()
    prefix: str = ""
    span: Span
    pattern: str = ""


class SearchPosition(Struct, frozen=True, kw_only=True):
    """Where a search goes on: among the streams after a name and up to another, beyond a line."""

    after: str = ""
    until: str | None = None
    beyond: Key | None = None


class StreamSummary(Struct, frozen=True, kw_only=True):
    """A stream at a glance: times in nanoseconds, None where nothing was written."""

    stream: LogStream
    first: int | None
    last: int | None
    size: int


class LogService:
    """One group of streams, one stream an attempt. What its caller does not reach is to him as if it were not there."""

    def __init__(
        self, *, store: JobStore, archive: LogArchive, runtime: ContainerRuntime, clock: Clock, quota: LogQuota
    ) -> None:
        self._store = store
        self._archive = archive
        self._quota = quota
        self._keeper = LogCapture(archive=archive, runtime=runtime, clock=clock, quota=quota)
        self._searches = asyncio.Lock()
        self._follower = Follower(store=store, runtime=runtime, keeper=self._keeper, clock=clock)

    async def keep(self, tag: Tag) -> bool:
        """Copy all that a container wrote into the archive, so that it may be removed. One that is gone wrote nothing.

        Whether it is removed by that, as one that wrote nothing may be. Done twice or killed half-way, it keeps each
        line once. Raises EngineUnknown; StoreFailed.
        """
        return await self._keeper.keep(tag)

    @property
    def trouble(self) -> str | None:
        """What health reports: that output was not stored lately."""
        return self._quota.trouble

    async def close(self) -> None:
        await self._follower.close()

    async def stream(self, name: str, *, caller: Caller) -> LogStream:
        """Raises NotFound."""
        stream = await self._store.stream(name)
        if stream is None or not caller.reaches(stream.owner):
            raise NotFound("The specified log stream does not exist.")
        return stream

    async def events(
        self, stream: LogStream, *, span: Span, position: int | None, limit: int, backwards: bool
    ) -> LogPage:
        """A page of one stream from a position on (None: its beginning), or back from one (None: its end).

        Raises Invalid for a position that is none.
        """
        await self._follower.follow((stream,))
        read = pages.backwards if backwards else pages.forwards
        return await read(self._archive, stream.tag.log_id, span=span, position=position, limit=limit)

    async def filter(
        self, query: LogQuery, *, place: SearchPosition, limit: int, caller: Caller, gone: Callable[[], bool] = never
    ) -> tuple[tuple[Event, ...], SearchPosition | None]:
        """A page of what a query finds, by time, and where it goes on; it may be empty and still go on.

        What was written since the first of several containers was read is told the next time: a client that follows
        them asks from the newest time it was told, and would never hear what another wrote before that.
        It ends early when the client has `gone`.
        Raises NotFound; Invalid for a pattern that is not served.
        """
        pattern, budget = compiled(query.pattern), Budget(self._searches, gone=gone)
        streams = await self._searched(query, place, caller)
        horizon = await self._follower.follow(streams)
        span = query.span.until(horizon) if len(streams) > 1 else query.span
        hits = await search(
            self._archive, streams, span=span, pattern=pattern, budget=budget, beyond=place.beyond, limit=limit
        )
        if hits.reached is not None:
            return hits.events, SearchPosition(after=place.after, until=streams[-1].name, beyond=hits.reached)
        if query.names or len(streams) < PART:
            return hits.events, None
        return hits.events, SearchPosition(after=streams[-1].name)

    async def streams(
        self, asked: Listing, *, after: StreamPosition | None, limit: int, caller: Caller
    ) -> tuple[tuple[StreamSummary, ...], StreamPosition | None]:
        """A page of streams, and the mark after which there are more."""
        found = await page(self._store, asked, reach=caller.reach, after=after, limit=limit + 1)
        told = found[:limit]
        more = mark(told[-1]) if len(found) > limit else None
        return tuple([await self._summary(stream) for stream in told]), more

    async def _summary(self, stream: LogStream) -> StreamSummary:
        log_id = stream.tag.log_id
        first = await self._archive.read(log_id, position=0, limit=1, max_bytes=1)
        last = await self._archive.last(log_id)
        return StreamSummary(
            stream=stream,
            first=first.lines[0].at if first.lines else None,
            last=last or None,
            size=await self._archive.size(log_id),
        )

    async def _searched(self, query: LogQuery, place: SearchPosition, caller: Caller) -> tuple[LogStream, ...]:
        """The streams to search in one go: those named, or the next part of all."""
        if query.names:
            return tuple([await self.stream(name, caller=caller) for name in dict.fromkeys(query.names)])
        part: list[LogStream] = []
        after = place.after
        while some := await self._store.streams(prefix=query.prefix, after=after, limit=PART, reach=caller.reach):
            part += (it for it in some if place.until is None or it.name <= place.until)
            after = some[-1].name
            if place.until is None or after >= place.until:
                break
        return tuple(part)
