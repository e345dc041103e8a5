"""Signed requests, byte by byte through a real socket: the path as it is quoted, the head as it stands there."""

import asyncio

import pytest
from aiohttp import web

from api import app as api
from api.gate import Buckets, Callers, gate
from api.http import read
from api.signatures import Verifier
from batchq.clock import wall_time
from batchq.domain.people import ROOT, People, Role, User, UserName
from tests.api.signed import KEY, Boto3, one_byte_changed, random_request
from tests.support.server import Wire

ADA = UserName(KEY.user)
PEOPLE = People(users={ADA: User(name=ADA, account=ROOT, role=Role.ADMIN)})
SEEDS = range(500)


class Server:
    """Whatever is let in is written down as it came."""

    def __init__(self):
        verifier = Verifier(find={KEY.id: KEY}.get, now=wall_time)
        callers = Callers(people=lambda: PEOPLE, user_of={KEY.id: ADA}.get)
        buckets = Buckets(rate=1_000_000, now=wall_time)
        app = api.build(
            dialects=[self._mount], health=dict, hosts=(), gate=gate(verifier, buckets, callers, now=wall_time)
        )
        self.wire = Wire(app)
        self.let_in = []

    async def hears(self, sent):
        """The status that it answers; None where it hangs up instead."""
        length = [] if any(it[0] == "Content-Length" for it in sent.headers) else [("Content-Length", len(sent.body))]
        lines = [f"{name}: {value}" for name, value in (*sent.headers, *length, ("Connection", "close"))]
        head = "\r\n".join([f"{sent.method} {sent.target} HTTP/1.1", *lines, "", ""])
        reader, _ = await self.wire.connect(head.encode(), sent.body)
        async with asyncio.timeout(10):
            answer = await reader.read()
        return int(answer.split()[1]) if answer else None

    def _mount(self, app):
        app.router.add_route("*", "/{tail:.*}", self._write_down)

    async def _write_down(self, request):
        self.let_in.append((request.method, request.raw_path, await read(request)))
        return web.Response()


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
    """As boto3 makes them, and as it could."""
    now = wall_time()
    return [boto3.random_request(seed) if seed % 2 else random_request(seed, at=now) for seed in SEEDS]


async def test_five_hundred_random_requests_of_botocore_come_in_as_they_were_sent(server, boto3):
    requests = some_of(boto3)

    answers = {await server.hears(it) for it in requests}

    assert answers == {200}
    assert server.let_in == [(it.method, it.target, it.body) for it in requests]


@pytest.mark.fault("SE03")
async def test_and_none_of_them_with_one_byte_changed_wherever_it_is(server, boto3):
    answers = {await server.hears(one_byte_changed(it, seed)) for seed, it in enumerate(some_of(boto3))}

    assert answers <= {400, 403, 415, None}
    assert server.let_in == []
