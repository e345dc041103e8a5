"""Requests to the API server on a server that sends the bytes of the test."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from batchq.compute.kubernetes import http_connections
from batchq.compute.kubernetes.connection import ClusterAccess, FixedToken
from batchq.compute.kubernetes.http_connections import HttpConnections
from batchq.errors import RuntimeUnknown, RuntimeUnreachable

OK = b"HTTP/1.1 200 OK\r\nDate: Sat, 28 Nov 2026 04:00:00 GMT\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


class Answers:
    """Sends the next replies, one for each request. None: closes the connection instead."""

    def __init__(self, *replies):
        self._replies = list(replies)
        self.requests = []
        self.connections = 0
        #: The ends of the connections.
        self.writers = []

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            self.requests.append(head + await reader.readexactly(int(length or 0)))
            reply = self._replies.pop(0)
            if reply is None:
                break
            writer.write(reply)
        writer.close()


@asynccontextmanager
async def connected(answers, base=""):
    """Connections to a server that gives these answers."""

    async def serve(reader, writer):
        try:
            await answers.serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = HttpConnections(
        ClusterAccess(server=f"http://127.0.0.1:{port}{base}", namespace="jobs", token=FixedToken(value=""))
    )
    try:
        yield connections
    finally:
        connections.close()
        server.close()
        for writer in answers.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def send(connections, path="/a", query=(), headers=None, data=None):
    return await connections.request("PATCH", path, query, headers=headers or {}, data=data)


def follow(connections, silence=None):
    return connections.stream("/a", (), headers={}, silence=silence)


async def test_one_connection_carries_one_request_after_another():
    answers = Answers(OK, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n")
    async with connected(answers, base="/base") as connections:
        replies = [
            await send(connections, query={"a": "x y"}, headers={"Accept": "b"}, data=b"{}"),
            await send(connections),
            await send(connections),
        ]

    assert [(reply.status, reply.content) for reply in replies] == [(200, b"ok"), (201, b"abc"), (204, b"")]
    assert [reply.date for reply in replies] == ["Sat, 28 Nov 2026 04:00:00 GMT", None, None]
    assert answers.connections == 1
    assert answers.requests[0].startswith(b"PATCH /base/a?a=x+y HTTP/1.1\r\nHost: 127.0.0.1:")
    assert answers.requests[0].endswith(b"\r\nAccept: b\r\nContent-Length: 2\r\n\r\n{}")


async def test_requests_at_the_same_time_have_connections_of_their_own():
    answers = Answers(OK, OK, OK)
    async with connected(answers) as connections:
        await asyncio.gather(send(connections), send(connections))
        await send(connections)

    assert answers.connections == 2


async def test_the_reply_follows_a_provisional_one():
    async with connected(Answers(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)) as connections:
        assert (await send(connections)).content == b"ok"


@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
    ],
)
async def test_without_a_valid_reply_the_outcome_is_unknown_and_the_connection_ends(reply):
    answers = Answers(reply, OK)
    async with connected(answers) as connections:
        with pytest.raises(RuntimeUnknown, match="PATCH /a: "):
            await send(connections)
        assert (await send(connections)).content == b"ok"

    assert answers.connections == 2


async def test_a_reply_that_does_not_arrive_in_time_is_unknown(monkeypatch):
    monkeypatch.setattr(http_connections, "REQUEST_TIMEOUT", 0.05)
    answers = Answers(OK[:-1], OK)
    async with connected(answers) as connections:
        with pytest.raises(RuntimeUnknown, match="PATCH /a: TimeoutError"):
            await send(connections)
        assert (await send(connections)).content == b"ok"


async def test_a_cancelled_request_does_not_leave_its_reply_to_the_next_one():
    answers = Answers(b"", OK)
    async with connected(answers) as connections:
        request = asyncio.create_task(send(connections))
        while not answers.requests:  # noqa: ASYNC110 - the server sets no event
            await asyncio.sleep(0.001)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)

        assert (await send(connections)).content == b"ok"
    assert answers.connections == 2


async def test_a_stream_is_read_as_it_arrives_and_leaves_its_connection_to_the_next_request():
    answers = Answers(CHUNKED[: CHUNKED.index(b"1\r\nc")], OK)
    async with connected(answers) as connections:
        async with follow(connections) as stream:
            pieces = [await stream.read()]
            answers.writers[0].write(b"1\r\nc\r\n0\r\n\r\n")
            pieces += [piece async for piece in stream.pieces()]
        await send(connections)

    assert (stream.status, pieces) == (201, [b"ab", b"c"])
    assert answers.connections == 1


async def test_a_stream_that_is_left_early_does_not_leave_its_rest_to_the_next_request():
    answers = Answers(CHUNKED[:-5], OK)
    async with connected(answers) as connections:
        async with follow(connections) as stream:
            await stream.read()
        assert (await send(connections)).content == b"ok"

    assert answers.connections == 2


async def test_the_outcome_of_a_stream_that_breaks_is_unknown_after_its_last_piece():
    answers = Answers(CHUNKED[:-5])
    async with connected(answers) as connections, follow(connections) as stream:
        assert await stream.read() == b"abc"
        answers.writers[0].close()
        with pytest.raises(RuntimeUnknown, match="GET /a: the API server closed the connection"):
            await stream.read()


@pytest.mark.parametrize("reply", [b"", CHUNKED[:-5]])
async def test_the_outcome_of_a_silent_stream_is_unknown(reply):
    async with connected(Answers(reply)) as connections:
        with pytest.raises(RuntimeUnknown, match=r"GET /a: nothing has arrived for 0.05 s"):
            async with follow(connections, silence=0.05) as stream:
                await stream.content()


async def test_a_followed_log_without_an_answer_is_unknown(monkeypatch):
    """As of a load balancer that lost the connection. Otherwise the log would not be followed any more."""
    monkeypatch.setattr(http_connections, "REQUEST_TIMEOUT", 0.05)
    async with connected(Answers(b"")) as connections:
        with pytest.raises(RuntimeUnknown, match="GET /a: TimeoutError"):
            async with asyncio.timeout(5), follow(connections):
                pass


@pytest.mark.parametrize("ending", ["closed by the server", "announced", "unexpected bytes", "too old"])
async def test_a_connection_that_has_ended_is_not_used_again(monkeypatch, ending):
    announced = OK.replace(b"Date:", b"Connection: close\r\nDate:")
    answers = Answers(announced if ending == "announced" else OK, OK)
    async with connected(answers) as connections:
        await send(connections)
        match ending:
            case "closed by the server":
                answers.writers[0].close()
            case "unexpected bytes":
                answers.writers[0].write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            case "too old":
                monkeypatch.setattr(http_connections, "KEEPALIVE", -1.0)
        await asyncio.sleep(0.05)

        assert (await send(connections)).content == b"ok"
    assert answers.connections == 2


async def test_a_request_that_cannot_be_sent_has_no_effect():
    answers = Answers()
    async with connected(answers) as connections:
        for changes in ({"path": "/a b"}, {"path": "/a\r\nX: y"}, {"headers": {"A": "b\r\nX: y"}}):
            with pytest.raises(RuntimeUnreachable, match="does not allow"):
                await send(connections, **changes)
    with pytest.raises(RuntimeUnreachable):
        await send(
            HttpConnections(ClusterAccess(server="http://127.0.0.1:9", namespace="jobs", token=FixedToken(value="")))
        )
    assert answers.requests == []
