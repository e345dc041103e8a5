"""Follows the objects of one kind: a list, which is read in pages, and a watch that continues from it.

A cluster may have a hundred thousand pods. Each is read once, and then only what changes: a list that is repeated costs
the API server and this process seconds of CPU. No page occupies the event loop for long.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus

from msgspec import Raw, Struct

from batchq.compute.kubernetes.rest import ReadForbidden, RestClient, decode
from batchq.errors import RuntimeUnknown
from batchq.ports.clock import Clock

WATCH_SECONDS = 300  # after it another watch continues
SHORTEST_WATCH = timedelta(seconds=1)  # a shorter watch is not continued: the next caller begins another one
MAX_AGE = timedelta(seconds=10)  # of a list that is used although no watch follows it

log = logging.getLogger(__name__)


class ObjectVersion(Struct, rename="camel"):
    resource_version: str


class VersionedObject(Struct):
    metadata: ObjectVersion


class WatchEvent(Struct):
    """A line of a watch."""

    type: str
    object: Raw


class ListWatch:
    """The list and the watch of the objects at a path. The callbacks get each object as JSON.

    While no watch runs the knowledge of the callbacks becomes old, until `ensure_running` lists all objects anew.
    """

    def __init__(
        self,
        rest: RestClient,
        clock: Clock,
        path: str,
        query: Mapping[str, str],
        *,
        on_change: Callable[[Raw], str],
        on_list: Callable[[frozenset[str]], None],
        on_delete: Callable[[Raw], None],
        on_end: Callable[[], None] = lambda: None,
        narrower_path: str | None = None,
        may_be_old: bool = False,
    ) -> None:
        """`on_change` is called with each object that was listed, created or changed, and returns what identifies it.

        `on_list` gets this of all objects after a list, `on_delete` an object that does not exist any more or left the
        selection. `on_end` is called when the watch has ended. `narrower_path` is used if the path is forbidden.
        `may_be_old`: a list suffices for MAX_AGE. Otherwise a server that ends each watch at once lists all the time.
        """
        self._rest = rest
        self._clock = clock
        self._path = path
        self._query = query
        self._on_change = on_change
        self._on_list = on_list
        self._on_delete = on_delete
        self._on_end = on_end
        self._narrower_path = narrower_path
        self._may_be_old = may_be_old
        self._listed_at: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def ensure_running(self) -> None:
        """List the objects and start the watch, unless it runs or the list suffices. Raises RuntimeUnknown."""
        if self._is_current():
            return
        async with self._starting:
            if not self._is_current():
                version = await self._list()
                self._task = asyncio.create_task(self._follow(version), name=f"kubernetes: watch {self._path}")

    def _is_current(self) -> bool:
        """Whether the watch runs, or the list suffices."""
        if self.is_running or not self._may_be_old or self._listed_at is None:
            return self.is_running
        return self._clock.now() - self._listed_at < MAX_AGE

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self, version: str) -> None:
        try:
            while True:
                began = self._clock.now()
                last = await self._watch(version)
                if self._clock.now() - began < SHORTEST_WATCH:
                    return
                version = last or await self._list()
        except RuntimeUnknown as unknown:
            log.debug("the watch of %s ended: %s", self._path, unknown)
        finally:
            self._on_end()

    async def _list(self) -> str:
        """Report all objects, and return the version of the list."""
        try:
            return await self._list_pages()
        except ReadForbidden:
            if self._narrower_path in (None, self._path):
                raise
            self._path = self._narrower_path
            return await self._list_pages()

    async def _list_pages(self) -> str:
        listed, version = set[str](), ""
        async for page in self._rest.pages(self._path, self._query):
            listed.update(map(self._on_change, page.items))
            version = page.metadata.resource_version
        self._on_list(frozenset(listed))
        self._listed_at = self._clock.now()
        return version

    async def _watch(self, version: str) -> str | None:
        """Report changes until the server ends the watch.

        Returns the version from which the next watch continues; None: the server does not know the version any more.
        """
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        last: Raw | None = None
        async with self._rest.stream(self._path, query) as response:
            if response.status == HTTPStatus.GONE:
                return None
            if response.status != HTTPStatus.OK:
                raise RuntimeUnknown(f"watch {self._path}: status {response.status}")
            async for line in read_json_lines(response.pieces()):
                event = decode(line, WatchEvent)
                if event.type == "ERROR":
                    return None
                last = event.object
                self._apply(event)
        return version if last is None else decode(last, VersionedObject).metadata.resource_version

    def _apply(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self._on_delete(event.object)
        elif event.type != "BOOKMARK":
            self._on_change(event.object)


async def read_json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The complete lines of a stream; a pod may be longer than the limit of asyncio's own reader."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            if line:
                yield line
