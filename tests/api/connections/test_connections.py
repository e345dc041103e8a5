"""Slow clients, idle clients and many clients; each with plain HTTP and with TLS."""

import asyncio
from contextlib import ExitStack
from socket import create_connection

import aiohttp
import botocore.session
import pytest
from botocore.config import Config
from yarl import URL

from batchq.api.http.http import CONNECTION_CHECK
from batchq.api.serving.server import LIMITS, ConnectionLimits
from tests.api.connections.conftest import (
    GET,
    LARGE,
    SHORT,
    SLOW_REQUEST,
    TIMEOUT,
    Handlers,
    advance,
    all_received,
    is_answered,
    is_closed,
)
from tests.support.certificates import Authority
from tests.support.server import Wire


@pytest.fixture
def handlers():
    return Handlers()


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    """The files of a certificate."""
    return Authority(tmp_path_factory.mktemp("certificates")).issue()


@pytest.fixture(params=["http", "https"])
def files(request, issued):
    """None for plain HTTP."""
    return issued if request.param == "https" else None


@pytest.fixture
async def opens(handlers, files):
    """Serve within limits; returns a function that connects to the server."""
    handlers.wire = Wire(handlers.app, files=files)

    async def opens(limits):
        await handlers.wire.serve(limits)
        return handlers.wire.connect

    yield opens
    asyncio.get_running_loop().live_really()
    await handlers.wire.close()


SLOW = {
    "nothing": b"",
    "half a head": b"GET /quick HTTP/1.1\r\nHost: local",
    "half a body": b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
    "half a body that is not read": b"POST /quick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
    "a request, and half of the next": GET + b"GET /quick HTTP",
}


@pytest.mark.fault("IN10")
@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
async def test_a_client_that_keeps_the_server_waiting_is_disconnected(opens, sent):
    connect = await opens(SHORT)
    reader, _ = await connect(sent)
    await all_received(connect)

    advance(TIMEOUT)

    assert await is_closed(reader)


@pytest.mark.fault("IN10")
async def test_single_bytes_do_not_extend_the_deadline(opens):
    connect = await opens(SHORT)
    reader, writer = await connect(b"GET /quick HTTP/1.1\r\nX: ")
    await all_received(connect)

    advance(TIMEOUT / 2)
    writer.write(b"x")
    await all_received(connect)
    advance(TIMEOUT / 2)

    assert await is_closed(reader)


async def test_a_client_that_does_not_read_its_response_is_disconnected(handlers, opens):
    connect = await opens(SHORT)
    reader, _ = await connect(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await handlers.reached.wait()
    await all_received(connect)

    advance(TIMEOUT)
    await all_received(connect)

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(LARGE)


async def disconnected(handlers, writer):
    """Abort the only connection, and wait until the server has noticed."""
    writer.transport.abort()
    while handlers.wire._site._connections._open:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


WAITING = b"GET /waiting HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_a_waiting_request_ends_soon_after_its_client_has_disconnected(handlers, opens):
    connect = await opens(LIMITS)
    _, writer = await connect(WAITING)
    await handlers.reached.wait()

    await disconnected(handlers, writer)
    advance(CONNECTION_CHECK)

    await handlers.done.wait()


async def test_a_waiting_request_of_a_connected_client_is_answered(handlers, opens):
    connect = await opens(LIMITS)
    reader, _ = await connect(WAITING)
    await handlers.reached.wait()
    advance(CONNECTION_CHECK)
    await all_received(connect)

    handlers.gate.set()

    assert await is_answered(reader)
    assert not handlers.done.is_set()


STREAM = b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECE = 2**20  # more than the kernel holds for a client


@pytest.mark.fault("SE26")
async def test_clients_that_do_not_read_a_streamed_response_make_room_for_others(handlers, opens):
    connect = await opens(ConnectionLimits(connections=3))
    readers = []
    for _ in range(3):
        readers.append(await connect(STREAM))
        await handlers.reached.wait()
        handlers.reached.clear()
    await until_writes_wait(handlers)

    await all_received(connect)

    assert await is_closed(readers[0][0])
    for _, writer in readers:
        writer.transport.abort()


@pytest.mark.fault("SE26")
async def test_a_client_that_reads_a_streamed_response_too_slowly_is_disconnected(handlers, opens):
    connect = await opens(ConnectionLimits(client_timeout=TIMEOUT, min_rate=1e9))
    reader, _ = await handlers.wire.connect_narrowly(STREAM)
    await handlers.reached.wait()

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await read_slowly(handlers, connect, reader)


async def test_a_client_that_reads_a_streamed_response_fast_enough_has_no_deadline(handlers, opens):
    connect = await opens(ConnectionLimits(client_timeout=TIMEOUT, min_rate=1.0))
    reader, _ = await handlers.wire.connect_narrowly(STREAM)
    await handlers.reached.wait()

    await read_slowly(handlers, connect, reader)


async def read_slowly(handlers, connect, reader):
    for _ in range(8):
        await until_writes_wait(handlers)
        advance(TIMEOUT / 3)
        await all_received(connect)
        await reader.readexactly(PIECE)


async def until_writes_wait(handlers):
    """Wait until each streamed response waits for its client to read."""
    found = handlers.wire._site._connections._open
    while sum(connection.writing_paused for connection in found) < handlers.streams:  # noqa: ASYNC110 - no event is set for it
        await asyncio.sleep(0)


async def test_an_idle_connection_is_closed_after_the_same_deadline(opens):
    connect = await opens(SHORT)
    reader, writer = await connect(GET)
    assert await is_answered(reader)

    for _ in range(2):
        advance(0.9 * TIMEOUT)
        writer.write(GET)
        assert await is_answered(reader)
    advance(TIMEOUT)

    assert await is_closed(reader)


async def test_a_long_request_has_no_deadline_and_the_next_one_has_a_new_one(handlers, opens):
    connect = await opens(SHORT)
    reader, writer = await connect(SLOW_REQUEST)
    await handlers.reached.wait()

    advance(2 * TIMEOUT)
    await all_received(connect)
    handlers.gate.set()

    assert (await reader.readuntil(b"slow")).startswith(b"HTTP/1.1 200")
    advance(0.9 * TIMEOUT)
    writer.write(GET)
    assert await is_answered(reader)
    advance(TIMEOUT)
    assert await is_closed(reader)


CROWDS = {
    "idle": b"",
    "half a head": b"GET /quick HTTP/1.1\r\n",
    "half a body": b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
}


@pytest.mark.exhaustive
@pytest.mark.fault("IN10")
@pytest.mark.parametrize("sent", CROWDS.values(), ids=CROWDS)
async def test_three_hundred_slow_clients_do_not_block_other_clients(handlers, opens, files, sent):
    connect = await opens(ConnectionLimits())
    crowd = [await connect(sent) for _ in range(300)]

    sender = aiohttp.request("GET", handlers.wire.url + "/quick", ssl=files is None or files.trust())
    async with sender as answer:
        assert await answer.text() == "quick"

    assert await is_closed(crowd[0][0])
    assert not crowd[-1][0].at_eof()


@pytest.mark.fault("SE42")
async def test_many_connections_of_one_address_do_not_close_those_of_another(opens, handlers):
    await opens(ConnectionLimits(connections=8, per_address=4))
    other, writer = await handlers.wire.connect(GET[:10])
    await handlers.wire.lets_in(1)

    crowd = [await handlers.wire.connect_in_the_clear(host="127.0.0.2") for _ in range(20)]

    assert await is_closed(crowd[0][0])
    writer.write(GET[10:])
    assert await is_answered(other)


@pytest.mark.fault("SE42")
async def test_connections_of_known_users_are_closed_last(opens):
    connect = await opens(ConnectionLimits(connections=2))
    known, writer = await connect(b"GET /known HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert await is_answered(known)
    advance(1)
    stranger, _ = await connect(GET)
    assert await is_answered(stranger)

    await all_received(connect)

    assert await is_closed(stranger)
    writer.write(GET)
    assert await is_answered(known)


async def test_clients_wait_in_the_backlog_while_the_server_is_busy(opens, handlers):
    """Beyond the backlog a client would retry only after a second."""
    await opens(ConnectionLimits())
    here = "127.0.0.1", URL(handlers.wire.url).port

    with ExitStack() as stack:
        crowd = [stack.enter_context(create_connection(here, timeout=0.9)) for _ in range(200)]

    assert len(crowd) == 200


async def test_the_longest_waiting_connection_is_closed_first(opens):
    connect = await opens(ConnectionLimits(connections=2))
    oldest, writer = await connect(GET)
    assert await is_answered(oldest)
    advance(1)
    newer, _ = await connect(GET)
    assert await is_answered(newer)
    advance(1)
    writer.write(GET)
    assert await is_answered(oldest)

    third, _ = await connect(GET)

    assert await is_answered(third)
    assert await is_closed(newer)
    assert not oldest.at_eof()


async def test_a_connection_with_a_request_in_progress_is_not_closed(handlers, opens):
    connect = await opens(ConnectionLimits(connections=1))
    first, _ = await connect(SLOW_REQUEST)
    await handlers.reached.wait()

    second, _ = await handlers.wire.connect_in_the_clear()

    assert await is_closed(second)
    handlers.gate.set()
    assert (await first.readuntil(b"slow")).startswith(b"HTTP/1.1 200")


async def test_a_request_is_handled_although_its_connection_was_closed_which_frees_the_handlers(handlers, opens):
    connect = await opens(ConnectionLimits(connections=1))
    _, writer = await connect(SLOW_REQUEST)
    await handlers.reached.wait()

    await disconnected(handlers, writer)

    await all_received(connect)
    handlers.gate.set()
    await handlers.done.wait()


async def test_boto3_retries_on_a_connection_that_was_closed(handlers, opens, files):
    connect = await opens(SHORT)
    client = botocore.session.get_session().create_client(
        "batch",
        endpoint_url=handlers.wire.url,
        region_name="eu-central-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
        verify=files and str(files.bundle),
    )
    await asyncio.to_thread(client.describe_jobs, jobs=["a"])
    advance(TIMEOUT)
    await all_received(connect)

    answer = await asyncio.to_thread(client.describe_jobs, jobs=["a"])

    assert answer["jobs"] == []
    client.close()
