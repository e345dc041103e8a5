"""Reads a container's log in portions."""

from collections.abc import Iterable, Iterator
from contextlib import closing

from docker.errors import NotFound
from requests import Response

from batchq.compute.docker.client import Client
from batchq.compute.docker.containers import Containers
from batchq.compute.docker.errors import (
    CONFLICT,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    message_of,
    redacted,
    reports_lower_layer_failure,
)
from batchq.compute.docker.inspection import member
from batchq.compute.docker.log_frames import parse_lines, since_parameter
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, EngineUnknown, LogRefused
from batchq.ports.logs import LogLine

READABLE = ("json-file", "local")  # log drivers that only write files of the engine
CHUNK = 2**16  # bytes
MAX_PORTION, LINE_OVERHEAD = 2**18, 100  # approximate bytes of a portion, and of a line beside its text


class LogReader:
    """One pass over a log. Each call reads the next portion, so a long log is never in memory as a whole."""

    def __init__(self, containers: Containers, tag: Tag, *, after: int, receive_timeout: float) -> None:
        """Lines later than `after` are read, in nanoseconds since the epoch.

        `receive_timeout` is the timeout of each receive, in seconds: before the first byte the engine may decompress
        the log.
        """
        #: Whether all lines were returned.
        self.done = False
        self._containers = containers
        self._tag = tag
        self._after = after
        self._receive_timeout = receive_timeout
        self._response: Response | None = None
        self._lines: Iterator[LogLine] | None = None

    def read_portion(self, client: Client) -> list[LogLine]:
        """Read the next lines; the last portion, which may be empty, sets `done`. Raises ContainerGone; LogRefused."""
        if self._lines is None:
            self._lines = parse_lines(self._chunks(client), after=self._after)
        portion: list[LogLine] = []
        size = 0
        for line in self._lines:
            portion.append(line)
            size += LINE_OVERHEAD + len(line.message)
            if size >= MAX_PORTION:
                return portion
        self.done = True
        return portion

    def read_portion_or_remove(self, client: Client) -> list[LogLine]:
        """As `read_portion`, but if the log has no lines the container is removed."""
        portion = self.read_portion(client)
        if not portion:
            self._containers.remove(client, self._tag)
        return portion

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    def _chunks(self, client: Client) -> Iterable[bytes]:
        container_id = self._containers.id_of(client, self._tag)
        self._response = open_log(client, container_id, after=self._after, receive_timeout=self._receive_timeout)
        return () if self._response is None else self._response.iter_content(CHUNK)


def open_log(client: Client, container_id: str, *, after: int, receive_timeout: float) -> Response | None:
    """Request the engine's log stream from `after` on, in nanoseconds; None: the log driver does not support reading.

    Raises ContainerGone; LogRefused. Secret options of the log driver are removed from the error texts.
    """
    url = f"{client.base_url}/v{client.api_version}/containers/{container_id}/logs"
    parameters: dict[str, str | int] = {
        "stdout": 1,
        "stderr": 1,
        "timestamps": 1,
        "follow": 0,
        "since": since_parameter(after),
    }
    response = client.get_stream(url, parameters, receive_timeout=receive_timeout)
    if response.ok:
        return response
    with closing(response):
        text = response.text
    if response.status_code in (NOT_FOUND, CONFLICT):  # it does not exist, or is being removed
        raise ContainerGone(redacted(text))
    if response.status_code == NOT_IMPLEMENTED:
        return None
    driver, options = _log_driver(client, container_id)
    if driver not in READABLE:
        return None
    why = f"logs: {redacted(text, options)}"
    raise EngineUnknown(why) if reports_lower_layer_failure(text) else LogRefused(why)


def _log_driver(client: Client, container_id: str) -> tuple[str, list[str]]:
    """The name of the log driver, and the values of its options, any of which may be secret. Raises ContainerGone."""
    try:
        stored = member(client.inspect_container(container_id), "HostConfig", "LogConfig", of=dict)
    except NotFound as gone:
        raise ContainerGone(message_of(gone)) from gone
    options = stored.get("Config")
    return str(stored.get("Type")), [str(it) for it in options.values()] if isinstance(options, dict) else []
