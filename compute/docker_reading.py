"""One reading of a container's log, a portion at a time."""

from collections.abc import Iterable, Iterator

from requests import Response

from batchq.domain.names import Tag
from batchq.values import LogLine
from compute.docker_client import Client
from compute.docker_containers import Containers
from compute.docker_logs import lines

CHUNK = 2**16
PORTION, LINE_ITSELF = 2**18, 100  # bytes, about


class Reading:
    """The next portion is read when it is asked for, so a long log is never in memory as a whole."""

    def __init__(self, containers: Containers, tag: Tag, *, after: int) -> None:
        self.done = False
        self._containers = containers
        self._tag = tag
        self._after = after
        self._response: Response | None = None
        self._lines: Iterator[LogLine] | None = None

    def some(self, client: Client) -> list[LogLine]:
        """The next lines; with the last of them the reading is `done`. Raises ContainerGone."""
        if self._lines is None:
            self._lines = lines(self._chunks(client), after=self._after)
        portion: list[LogLine] = []
        size = 0
        for line in self._lines:
            portion.append(line)
            size += LINE_ITSELF + len(line.message)
            if size >= PORTION:
                return portion
        self.done = True
        return portion

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    def _chunks(self, client: Client) -> Iterable[bytes]:
        self._response = self._containers.open_log(client, self._tag, self._after)
        return () if self._response is None else self._response.iter_content(CHUNK)
