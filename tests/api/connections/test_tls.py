"""The TLS handshake, and the files of the certificate."""

import asyncio
import logging
import ssl
from contextlib import contextmanager

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from batchq.api.serving.server import ConnectionLimits
from batchq.errors import StartImpossible
from tests.api.connections.conftest import GET, SHORT, TIMEOUT, advance, all_received, is_answered, is_closed
from tests.support.certificates import Authority
from tests.support.server import Wire

HELLO = bytes.fromhex("16030100c8010000c40303")  # the first bytes of one, of which 193 are to come


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def files(authority):
    return authority.issue()


@pytest.fixture
async def wire(files):
    """A server whose handler requires that the connection is known as encrypted."""

    async def quick(request):
        assert isinstance(request.transport.get_extra_info("sslcontext"), ssl.SSLContext)
        return web.Response(text="quick")

    app = web.Application()
    app.add_routes([web.get("/quick", quick)])
    wire = Wire(app, files=files)
    yield wire
    asyncio.get_running_loop().live_really()
    await wire.close()


NO_HANDSHAKE = {"nothing": b"", "half a hello": HELLO, "a hello, byte by byte": HELLO[:3]}


@pytest.mark.fault("IN10")
@pytest.mark.parametrize("sent", NO_HANDSHAKE.values(), ids=NO_HANDSHAKE)
async def test_an_unfinished_handshake_is_disconnected(wire, sent):
    await wire.serve(SHORT)
    reader, _ = await wire.connect_in_the_clear(sent)
    await all_received(wire.connect)

    advance(TIMEOUT)

    assert await is_closed(reader)


@pytest.mark.fault("IN10")
async def test_a_disconnected_handshake_frees_its_place(wire):
    await wire.serve(ConnectionLimits(connections=1, client_timeout=TIMEOUT))
    waiting, _ = await wire.connect_in_the_clear(HELLO)
    await wire.lets_in(1)
    advance(TIMEOUT)
    assert await is_closed(waiting)

    reader, _ = await wire.connect(GET)

    assert await is_answered(reader)


@pytest.mark.fault("IN11")
@pytest.mark.parametrize("sent", [GET, b"\x00" * 64, HELLO + b"\xff" * 200, b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_a_client_without_tls_is_disconnected_without_a_log_line(wire, caplog, sent):
    caplog.set_level(logging.INFO)
    await wire.serve()

    reader, _ = await wire.connect_in_the_clear(sent)

    assert await is_closed(reader)
    assert await is_answered((await wire.connect(GET))[0])
    assert caplog.records == []


@pytest.mark.fault("IN11")
@pytest.mark.fault("IN10")
@pytest.mark.parametrize("disconnects", [True, False])
async def test_a_handshake_that_is_not_finished_makes_room_for_a_new_connection(wire, caplog, disconnects):
    await wire.serve(ConnectionLimits(connections=1))
    waiting, writer = await wire.connect_in_the_clear(HELLO)
    if disconnects:
        writer.close()
        await writer.wait_closed()

    reader, _ = await wire.connect(GET)

    assert await is_answered(reader)
    assert await is_closed(waiting)
    assert caplog.records == []


async def test_a_request_sent_with_the_end_of_the_handshake_is_answered(wire, files):
    """With TLS 1.3 a client may send data at once, so both may arrive in one packet."""
    await wire.serve()
    reader, writer = await wire.connect_in_the_clear()
    received, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = files.trust().wrap_bio(received, outgoing, server_hostname="localhost")
    with wants_more():
        client.do_handshake()
    writer.write(outgoing.read())
    received.write(await reader.read(2**16))
    client.do_handshake()
    client.write(GET)

    writer.write(outgoing.read())

    assert (await decrypted(client, received, reader)).startswith(b"HTTP/1.1 200 OK")


@contextmanager
def wants_more():
    with pytest.raises(ssl.SSLWantReadError):
        yield


async def decrypted(client, received, reader):
    """The first data that the client decrypts."""
    while True:
        received.write(await reader.read(2**16))
        try:
            return client.read()
        except ssl.SSLWantReadError:
            continue


def test_a_renewed_certificate_is_loaded_once_for_new_connections(authority, files):
    certificate = files.certificate()
    before = certificate.context()

    authority.issue()

    after = certificate.context()
    assert after.minimum_version is ssl.TLSVersion.TLSv1_2
    assert after is not before
    assert certificate.context() is after


async def test_open_connections_survive_a_renewed_certificate(authority, wire):
    await wire.serve()
    reader, writer = await wire.connect(GET)
    assert await is_answered(reader)
    _, another = await wire.connect()

    authority.issue()

    _, later = await wire.connect()
    assert serial(writer) == serial(another) != serial(later)
    writer.write(GET)
    assert await is_answered(reader)


def serial(writer):
    """The number of the certificate that was shown."""
    return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]


def swap_key(files):
    another = Authority(files.key.parent).issue("another")
    another.key.replace(files.key)


def lock_key(files):
    """Encrypt the key with a passphrase, which OpenSSL would read from the terminal."""
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files.key.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"x")))


SPOILT = {
    "all users can read the key": (
        lambda container: container.key.chmod(0o644),
        "all users can read the private key in",
    ),
    "no certificate": (lambda value: value.chain.write_text("x"), "is not a PEM certificate of the private key in"),
    "the key of another": (swap_key, "is not a PEM certificate of the private key in"),
    "a key with a passphrase": (lock_key, "is encrypted with a passphrase"),
    "no key": (lambda container: container.key.unlink(), "cannot read .*server.key: No such file"),
}


@pytest.mark.fault("SE14")
@pytest.mark.parametrize(("spoil", "sent"), SPOILT.values(), ids=SPOILT)
def test_invalid_certificate_files_are_refused_in_one_line(files, spoil, sent):
    spoil(files)

    with pytest.raises(StartImpossible, match=sent) as why:
        files.certificate()

    assert "\n" not in str(why.value)


@pytest.mark.fault("SE14")
@pytest.mark.parametrize(("spoil", "sent"), SPOILT.values(), ids=SPOILT)
def test_a_server_keeps_its_certificate_while_the_files_are_invalid(authority, files, caplog, spoil, sent):
    certificate = files.certificate()
    good = certificate.context()

    spoil(files)

    assert [certificate.context(), certificate.context()] == [good, good]
    (warning,) = caplog.messages
    assert "the previous certificate remains in use" in warning
    authority.issue()
    assert certificate.context() is not good
