"""A client that sends prepared bytes, so that it costs little CPU beside the server that it measures."""

import asyncio
import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection

from yarl import URL

from tests.support.answers import parsed

END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """Many requests: the `seconds` of all together, and how long each of them `took`."""

    seconds: float
    took: Sequence[float]

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds


def request(operation: str, **members: object) -> bytes:
    body = json.dumps(members).encode()
    head = f"POST /v1/{operation} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def send(url: str, requests: Iterable[bytes], *, connections: int) -> Sent:
    """Send all requests, one at a time on each connection. Raises RuntimeError for a refused one."""
    return asyncio.run(_send(URL(url), iter(requests), connections))


def p99(took: Sequence[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


class Caller:
    """A client with one connection, which waits for each answer."""

    def __init__(self, url: str) -> None:
        at = URL(url)
        self._connection = HTTPConnection(at.host, at.port)

    def __call__(self, operation: str, **members: object):
        return self._answer("POST", f"/v1/{operation}", json.dumps(members))

    def get(self, path: str):
        return self._answer("GET", path)

    def _answer(self, method: str, path: str, body: str | None = None):
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        value = parsed(answer.read(), answer.getheader("Content-Type"))
        if answer.status != 200:
            raise RuntimeError(f"{path}: {value}")
        return value

    def close(self) -> None:
        self._connection.close()


@contextmanager
def describing(url: str, job: str, *, interval: float) -> Iterator[list[float]]:
    """Call DescribeJobs of a job in another thread meanwhile. Yields the seconds of each call, at least of one."""
    took, over = [], threading.Event()

    def describe() -> None:
        with closing(Caller(url)) as call:
            while not over.wait(interval) or not took:
                began = time.perf_counter()
                call("describejobs", jobs=[job])
                took.append(time.perf_counter() - began)

    with ThreadPoolExecutor(1) as beside:
        described = beside.submit(describe)
        try:
            yield took
        finally:
            over.set()
        described.result()


async def _send(url: URL, requests: Iterator[bytes], connections: int) -> Sent:
    loop, took = asyncio.get_running_loop(), []
    lines = [_Line(requests, took, loop.create_future()) for _ in range(connections)]
    for line in lines:
        await loop.create_connection(lambda line=line: line, url.host, url.port)
    began = time.perf_counter()
    for line in lines:
        line.send_next()
    await asyncio.gather(*(line.done for line in lines))
    return Sent(seconds=time.perf_counter() - began, took=took)


class _Line(asyncio.Protocol):
    """Sends the next request when the answer to the last one is complete."""

    def __init__(self, requests: Iterator[bytes], took: list[float], done: asyncio.Future) -> None:
        self._requests, self._took, self.done = requests, took, done
        self._received = b""

    def connection_made(self, transport):
        self._transport = transport

    def send_next(self):
        data = next(self._requests, None)
        if data is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._since = time.perf_counter()
        self._transport.write(data)

    def data_received(self, data):
        self._received += data
        head, end, body = self._received.partition(END_OF_HEAD)
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._received.decode()))
            return
        self._received = b""
        self._took.append(time.perf_counter() - self._since)
        self.send_next()

    def connection_lost(self, why):
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"the server hung up: {why}"))
