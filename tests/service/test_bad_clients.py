"""Hostile and faulty clients of a real server: it refuses endless bodies, and uses no more memory."""

from pathlib import Path
from socket import create_connection

import pytest

from tests.service.waiting import PATIENCE

MIB = 2**20
HEAD = b"POST /v1/describejobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
ENDLESS = {
    "chunks": (b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
    "a length of ten gigabytes": (b"Content-Length: 10000000000\r\n\r\n", b" " * 0x10000),
    "a gzip bomb": (b"Content-Encoding: gzip\r\nContent-Length: 10000000000\r\n\r\n", b"\0" * 0x10000),
}


def address(service):
    host, port = service.url.removeprefix("http://").split(":")
    return host, int(port)


def memory(service, measure="VmRSS"):
    """Bytes of memory that the server uses, or with VmHWM has used at most."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(measure)).split()[1]) * 1024


def send_endless_body(service, head, piece, *, until=32 * MIB):
    """Send a body that does not end, until the server closes the connection."""
    sent = 0
    with create_connection(address(service), timeout=PATIENCE) as connection:
        try:
            connection.sendall(HEAD + head)
            while sent < until:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            return sent
    return sent


@pytest.mark.fault("IN08", "IN09")
@pytest.mark.parametrize(("head", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_a_body_without_an_end_costs_no_memory(shared, head, piece):
    shared.client().describe_jobs(jobs=[])
    before = memory(shared)

    sent = sum(send_endless_body(shared, head, piece) for _ in range(10))

    assert sent > 10 * len(piece)
    assert memory(shared, "VmHWM") < before + 32 * MIB
    assert shared.client().describe_jobs(jobs=[])["jobs"] == []
