"""Signed requests through a real socket, byte by byte: quoted paths and raw headers; and the callers of their keys."""

import asyncio
from functools import partial

import pytest
from aiohttp import web
from msgspec.structs import replace

from batchq.api.auth import authentication
from batchq.api.auth.authentication import MAX_CONCURRENT_REQUESTS, Callers, Throttle
from batchq.api.http.http import read_body
from batchq.api.operations.operation_table import OperationTable
from batchq.api.serving import app as api
from batchq.domain.access.accounts import ROOT, Directory, User, UserName
from batchq.domain.enums import Role
from batchq.system.clock import wall_time
from tests.api.signed import KEY, NOW, Boto3, one_byte_changed, random_request, signed, with_header
from tests.support.gates import key_gate
from tests.support.server import Wire
from tests.support.stubs import request_metrics

ADA = UserName(KEY.user)
BOB = UserName("bob")
PEOPLE = Directory(users={name: User(name=name, account=ROOT, role=Role.ADMIN) for name in (ADA, BOB)})
SEEDS = range(500)
LARGE = 16 * 2**20  # bytes, more than the kernel takes for a client that does not read


class Server:
    """A server that records each request that it admits."""

    def __init__(self, keys=(KEY,), rate=1_000_000):
        records = OperationTable()
        records.public("record", "*", "/{tail:.*}")(self._record)
        app = api.build(
            requests=request_metrics(),
            dialects=[records.dialect(None)],
            health=dict,
            hosts=(),
            gate=key_gate(
                {key.id: key for key in keys}, directory=lambda: PEOPLE, throttle=Throttle(rate=rate, now=lambda: NOW)
            ),
        )
        self.wire = Wire(app)
        self.admitted = []
        self.content = b""
        self.answering = asyncio.Event()
        self.answering.set()

    async def send(self, sent):
        """Send a request; returns what is read of the answer."""
        length = (
            []
            if any(header[0] == "Content-Length" for header in sent.headers)
            else [("Content-Length", len(sent.body))]
        )
        lines = [f"{name}: {value}" for name, value in (*sent.headers, *length, ("Connection", "close"))]
        head = "\r\n".join([f"{sent.method} {sent.target} HTTP/1.1", *lines, "", ""])
        reader, _ = await self.wire.connect(head.encode(errors="surrogateescape"), sent.body)
        return reader

    async def receive(self, sent):
        """Send a request; returns the status, or None if the server disconnects."""
        reader = await self.send(sent)
        async with asyncio.timeout(10):
            answer = await reader.read()
        return int(answer.split()[1]) if answer else None

    async def _record(self, _, request):
        self.admitted.append((request.method, request.raw_path, await read_body(request)))
        await self.answering.wait()
        return web.Response(body=self.content)


@pytest.fixture
async def server():
    server = Server()
    await server.wire.serve()
    yield server
    await server.wire.close()


@pytest.fixture(scope="module")
def boto3():
    boto3 = Boto3()
    yield boto3
    boto3.close()


def some_of(boto3):
    """Requests of boto3, and variants of them that are valid."""
    now = wall_time()
    return [boto3.random_request(seed) if seed % 2 else random_request(seed, at=now) for seed in SEEDS]


@pytest.mark.exhaustive
async def test_five_hundred_random_requests_of_botocore_arrive_unchanged(server, boto3):
    requests = some_of(boto3)

    answers = {await server.receive(request) for request in requests}

    assert answers == {200}
    assert server.admitted == [(request.method, request.target, request.body) for request in requests]


@pytest.mark.fault("SE03")
@pytest.mark.exhaustive
async def test_a_signed_request_with_one_changed_byte_is_refused(server, boto3):
    answers = {await server.receive(one_byte_changed(request, seed)) for seed, request in enumerate(some_of(boto3))}

    assert answers <= {400, 403, 415, None}
    assert server.admitted == []


@pytest.fixture
async def serve():
    """Serves the same with these keys and this rate."""
    servers = []

    async def serve(**how):
        servers.append(Server(**how))
        await servers[-1].wire.serve()
        return servers[-1]

    yield serve
    for other_server in servers:
        other_server.answering.set()
        await other_server.wire.close()


@pytest.mark.fault("SE38")
async def test_all_keys_of_a_user_share_one_rate_limit(serve):
    keys = [replace(KEY, id=f"{KEY.id}{number}") for number in range(9)]
    server = await serve(keys=keys, rate=5)

    answers = [await server.receive(signed(key=keys[number % 9], at=wall_time())) for number in range(27)]

    assert sorted(answers) == [200] * 10 + [429] * 17


@pytest.mark.fault("SE26")
async def test_concurrent_requests_of_one_user_are_limited(serve):
    bobs = replace(KEY, id=f"{KEY.id}B", user="bob")
    server = await serve(keys=(KEY, bobs))
    server.answering.clear()
    send = partial(server.receive, signed(at=wall_time()))
    handled = [asyncio.create_task(send()) for _ in range(MAX_CONCURRENT_REQUESTS)]
    while len(server.admitted) < MAX_CONCURRENT_REQUESTS:  # noqa: ASYNC110 - no event is set for it
        await asyncio.sleep(0)

    one_more = await send()
    of_another = asyncio.create_task(server.receive(signed(key=bobs, at=wall_time())))
    while len(server.admitted) <= MAX_CONCURRENT_REQUESTS:  # noqa: ASYNC110 - no event is set for it
        await asyncio.sleep(0)
    server.answering.set()

    assert (one_more, await of_another, set(await asyncio.gather(*handled))) == (429, 200, {200})
    assert await send() == 200


@pytest.mark.fault("SE26")
async def test_an_answer_counts_until_its_client_has_read_it(serve, monkeypatch):
    monkeypatch.setattr(authentication, "MAX_CONCURRENT_REQUESTS", 1)
    server = await serve()
    server.content = bytes(LARGE)
    slow = await server.send(signed(at=wall_time()))
    await slow.readuntil(b"\r\n\r\n")

    assert await server.receive(signed(at=wall_time())) == 429
    assert len(await slow.read()) == LARGE
    assert await server.receive(signed(at=wall_time())) == 200


@pytest.mark.fault("SE35")
async def test_a_signed_header_that_is_not_ascii_is_refused_without_a_traceback(server, caplog):
    sent = signed(headers={"X-Amz-Meta": "e"}, at=wall_time())

    assert await server.receive(with_header(sent, "X-Amz-Meta", "\udcff")) == 403
    assert "Traceback" not in caplog.text


def people(*users):
    return Directory(users={user.name: user for user in users})


@pytest.mark.fault("SE07")
def test_an_added_a_changed_and_a_deleted_user_count_from_the_next_request():
    now = [people()]
    callers = Callers(directory=lambda: now[-1], user_of={"BQIA": ADA}.get)
    found = [callers.find("BQIA")]

    for directory in (people(User(name=ADA, role=Role.ADMIN)), people(User(name=ADA)), people()):
        now.append(directory)
        found.append(callers.find("BQIA"))

    assert [caller and caller.role for caller in found] == [None, Role.ADMIN, Role.USER, None]
