"""Hostile and faulty clients of a real server: it refuses them, uses no more memory, and serves others."""

import json
import sqlite3
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection

import pytest

from batchq.api.server import LIMITS
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
    """Bytes that the server has in memory, or at its most had."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(measure)).split()[1]) * 1024


def pour(service, head, piece, *, until=32 * MIB):
    """Send a body that does not end, for as long as the server lets us."""
    sent = 0
    with create_connection(address(service), timeout=PATIENCE) as door:
        try:
            door.sendall(HEAD + head)
            while sent < until:
                door.sendall(piece)
                sent += len(piece)
        except OSError:
            return sent
    return sent


@pytest.mark.fault("IN08", "IN09")
@pytest.mark.parametrize(("head", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_a_body_without_an_end_costs_no_memory(shared, head, piece):
    shared.client().describe_jobs(jobs=[])
    before = memory(shared)

    sent = sum(pour(shared, head, piece) for _ in range(10))

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
    door = create_connection(address(service))
    door.sendall(words)
    return door


@pytest.mark.fault("IN10")
def test_three_hundred_slow_clients_do_not_block_others(shared, crowd):
    shared.client().describe_jobs(jobs=[])

    assert not all(map(is_closed, crowd)), "who is quick does not wait until they are hung up on"
    assert LIMITS.client_timeout <= 30


def dump(service):
    """All rows of the database."""
    with closing(sqlite3.connect(f"file:{service.data}/batchq.db?mode=ro", uri=True)) as database:
        return list(database.iterdump())


def refusals():
    """Every bad request that the tests of the API know."""
    yield from ((name, body) for name in POSTED for body in BODIES.values())
    submissions = [test_submit_job.REQUEST | members for members in test_submit_job.REFUSED.values()]
    submissions += [test_submit_several.REQUEST | members for members, _ in test_submit_several.REFUSED]
    submissions += [test_submit_job.REQUEST | {"containerOverrides": it} for it in test_submit_job.BAD_OVERRIDES]
    yield from (("SubmitJob", json.dumps(members).encode()) for members in submissions)
    definitions = [members for members, _ in test_register_job_definition.REFUSED]
    yield from (("RegisterJobDefinition", json.dumps(members).encode()) for members in definitions)


def sends(door, name, body):
    door.request("POST", f"/v1/{name.lower()}", body, {"Content-Type": "application/json"})
    answer = door.getresponse()
    content = answer.read()
    return answer.status, "message" in json.loads(content)


@pytest.fixture
def laid(simulated):
    """The server, with the definitions that the requests name."""
    batch = simulated.client()
    register(batch, "sleeper", "true")
    batch.register_job_definition(**DUO)
    batch.register_job_definition(**GANG)
    return simulated


@pytest.mark.fault("IN01", "IN13")
def test_refused_requests_leave_no_trace_in_the_database(laid):
    before = dump(laid)

    with closing(HTTPConnection(*address(laid))) as door:
        answers = [(name, body, sends(door, name, body)) for name, body in refusals()]

    assert [it for it in answers if it[2] != (400, True)] == []
    assert len(answers) > 900
    assert dump(laid) == before
