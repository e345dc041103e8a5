"""Hostile and faulty clients of a real server: it refuses them, uses no more memory, and serves others."""

import json
import sqlite3
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection

import pytest

from batchq.api.serving.server import LIMITS
from tests.api import test_register_job_definition, test_submit_job, test_submit_several
from tests.api.several import DUO, GANG
from tests.api.test_bodies import BODIES, POSTED
from tests.service.waiting import PATIENCE, is_closed, register

MIB = 2**20
HEAD = b"POST /v1/describejobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
ENDLESS = {
    "chunks": (b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
    "a length of ten gigabytes": (b"Content-Length: 10000000000\r\n\r\n", b" " * 0x10000),
    "a gzip bomb": (b"Content-Encoding: gzip\r\nContent-Length: 10000000000\r\n\r\n", b"\0" * 0x10000),
}
SLOW = [b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\nhalf"]


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


@pytest.fixture
def crowd(shared):
    """300 connections that send nothing, a part of a head, or a part of a body."""
    with ExitStack() as stack:
        slow = [stack.enter_context(sending(shared, SLOW[number % 3])) for number in range(300)]
        yield slow


def sending(service, words):
    connection = create_connection(address(service))
    connection.sendall(words)
    return connection


@pytest.mark.fault("IN10")
def test_three_hundred_slow_clients_do_not_block_others(shared, crowd):
    shared.client().describe_jobs(jobs=[])

    assert not all(map(is_closed, crowd)), "the request above had to wait until slow connections were closed"
    assert LIMITS.client_timeout <= 30


def dump(service):
    """All rows of the database."""
    with closing(sqlite3.connect(f"file:{service.data}/batchq.db?mode=ro", uri=True)) as database:
        return list(database.iterdump())


def refusals():
    """Every refused request of the tests of the API."""
    yield from ((name, body) for name in POSTED for body in BODIES.values())
    submissions = [test_submit_job.REQUEST | members for members in test_submit_job.REFUSED.values()]
    submissions += [test_submit_several.REQUEST | members for members, _ in test_submit_several.REFUSED]
    submissions += [
        test_submit_job.REQUEST | {"containerOverrides": override} for override in test_submit_job.BAD_OVERRIDES
    ]
    yield from (("SubmitJob", json.dumps(members).encode()) for members in submissions)
    definitions = [members for members, _ in test_register_job_definition.REFUSED]
    yield from (("RegisterJobDefinition", json.dumps(members).encode()) for members in definitions)


def send(connection, name, body):
    connection.request("POST", f"/v1/{name.lower()}", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, "message" in json.loads(content)


@pytest.fixture
def with_definitions(simulated):
    """The server, with the definitions that the requests name."""
    batch = simulated.client()
    register(batch, "sleeper", "true")
    batch.register_job_definition(**DUO)
    batch.register_job_definition(**GANG)
    return simulated


@pytest.mark.fault("IN01", "IN13")
def test_refused_requests_leave_no_trace_in_the_database(with_definitions):
    before = dump(with_definitions)

    with closing(HTTPConnection(*address(with_definitions))) as connection:
        answers = [(name, body, send(connection, name, body)) for name, body in refusals()]

    assert [answer for answer in answers if answer[2] != (400, True)] == []
    assert len(answers) > 900
    assert dump(with_definitions) == before
