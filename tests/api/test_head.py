"""HEAD of each GET operation on a raw socket: only headers are sent, so the next bytes answer the next request."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from batchq.api.console.refresh import MAX_SESSION_STREAMS
from batchq.api.operations.operations import OPERATIONS
from batchq.compute.simulated.script import Script
from tests.console.conftest import console_of
from tests.support.described import whole_app

# A reader that takes this output for a response gives it to the next request of the connection.
OUTPUT = ("HTTP/1.1 200 OK", "Content-Length: 6", "", "forged")
STREAMS = {"/ui/live", "/ui/jobs/{job}/log/text", "/v1/batchq/events"}


class Connection:
    """A connection to a server."""

    def __init__(self, url, reader, writer):
        self._host = URL(url).host
        self._reader, self._writer = reader, writer

    async def send(self, method, path):
        """Send a request without a body. Returns the headers that answer it, as one text."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: text/event-stream\r\n"
        self._writer.write(f"{head}Accept-Encoding: gzip\r\n\r\n".encode())
        async with asyncio.timeout(20):
            return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def read_next(self):
        """Send another request. Returns the first line of what arrives, and the body that follows."""
        headers = await self.send("GET", "/livez")
        length = re.search(r"^Content-Length: (\d+)\r$", headers, re.MULTILINE)
        return headers.partition("\r")[0], length and await self._reader.readexactly(int(length[1]))


@asynccontextmanager
async def connection_to(url):
    reader, writer = await asyncio.open_connection(URL(url).host, URL(url).port)
    try:
        yield Connection(url, reader, writer)
    finally:
        writer.close()


@pytest.mark.fault("SE79")
async def test_head_of_each_operation_sends_headers_only_and_the_connection_continues(tmp_path):
    paths = {route.resource.canonical for route in whole_app()[OPERATIONS] if route.method == "GET"}
    assert paths >= STREAMS
    async with console_of(tmp_path / "data") as browser:
        job_id = await browser.run(until="SUCCEEDED", script=Script(seconds=0, output=OUTPUT))
        streamed = []
        async with connection_to(browser.url) as connection:
            for path in sorted(paths):
                headers = await connection.send("HEAD", re.sub(r"{\w*(job|id)\w*}", job_id, path, flags=re.IGNORECASE))
                if headers.startswith("HTTP/1.1 200 ") and "\r\nContent-Length: " not in headers:
                    streamed.append(path)
                assert await connection.read_next() == ("HTTP/1.1 200 OK", b'{"status":"ok"}'), path
    assert set(streamed) == STREAMS


async def test_head_of_a_live_stream_keeps_no_stream_of_the_user(tmp_path):
    async with console_of(tmp_path / "data") as browser, connection_to(browser.url) as connection:
        for _ in range(MAX_SESSION_STREAMS + 1):
            assert (await connection.send("HEAD", "/ui/live")).startswith("HTTP/1.1 200 ")
