"""The HTTP client of webhooks, on receivers of loopback that misbehave."""

import asyncio
import socket
import threading
from datetime import timedelta

import pytest
from aiohttp import web

from batchq.domain.enums import DeliveryVerdict
from batchq.errors import Invalid
from batchq.ports.webhooks import OutgoingRequest
from batchq.webhooks import http_sender
from batchq.webhooks.addresses import is_public
from batchq.webhooks.http_sender import LOOKUP_THREADS, MAX_LOOKUPS, NOT_PERMITTED, HttpSender
from tests.webhooks.receiver import receiving

DELIVERED, FAILED = DeliveryVerdict.DELIVERED, DeliveryVerdict.FAILED
METADATA = "http://169.254.169.254/latest/meta-data/"


ADA, EVE = "ada", "eve"


def request(url):
    return OutgoingRequest(method="POST", url=url, headers={"Content-Type": "text/plain"}, body=b"content")


@pytest.fixture
async def receiver():
    asyncio.get_running_loop().live_really()
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def sender(receiver):
    sender = HttpSender((receiver.host,), timeout=1)
    yield sender
    await sender.close()


async def test_a_request_is_sent_once_with_its_headers_and_body(receiver, sender):
    outcome = await sender.send(request(f"{receiver.url}?a=b%2Fc"), user=ADA)

    assert (outcome.verdict, outcome.text) == (DELIVERED, "answered 200")
    ((method, path, headers, body),) = receiver.requests
    assert (method, path, body) == ("POST", "/secret-path", b"content")
    assert headers["User-Agent"].startswith("batchq/")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(204, "DELIVERED"), (400, "REJECTED"), (413, "REJECTED"), (422, "REJECTED"), (410, "GONE")]
    + [(status, "FAILED") for status in (301, 307, 401, 403, 404, 405, 408, 429, 500, 502, 503, 507)],
)
async def test_the_status_decides(receiver, sender, status, verdict):
    async def answer(_):
        return web.Response(status=status, headers={"Retry-After": "7"})

    receiver.answer = answer
    outcome = await sender.send(request(receiver.url), user=ADA)

    assert outcome.verdict == verdict
    assert outcome.text.startswith(f"answered {status}")
    assert outcome.retry_after == (timedelta(seconds=7) if verdict == "FAILED" else None)


@pytest.mark.parametrize("after", ["", "-1", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", "٣", "9" * 5000])
async def test_an_odd_retry_after_is_ignored(receiver, sender, after):
    async def answer(_):
        return web.Response(status=503, headers={"Retry-After": after})

    receiver.answer = answer
    outcome = await sender.send(request(receiver.url), user=ADA)

    assert (outcome.verdict, outcome.retry_after) == (FAILED, None)


@pytest.mark.fault("SE86")
async def test_a_redirect_to_the_metadata_of_a_cloud_is_not_followed(receiver, sender):
    async def answer(_):
        return web.Response(status=307, headers={"Location": METADATA})

    receiver.answer = answer
    outcome = await sender.send(request(receiver.url), user=ADA)

    assert (outcome.verdict, outcome.text) == (FAILED, "answered 307; redirects are not followed")
    assert len(receiver.requests) == 1


@pytest.mark.fault("SE86")
@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
async def test_a_name_that_leads_to_a_private_address_is_not_connected_to(receiver, sender, monkeypatch, address):
    """At the creation the name is not looked up: what it leads to then says nothing about later (DNS rebinding)."""
    monkeypatch.setattr(socket, "getaddrinfo", leads_to(address))
    url = f"https://rebound.example.com:{receiver.port}/hook"
    sender.check_url(url)

    outcome = await sender.send(request(url), user=ADA)

    assert outcome.verdict is FAILED
    assert outcome.text == f"rebound.example.com cannot be connected to: {NOT_PERMITTED}"
    assert receiver.requests == []


@pytest.mark.fault("SE86")
@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "localhost."])
async def test_another_spelling_of_loopback_is_not_connected_to(receiver, sender, host):
    outcome = await sender.send(request(f"https://{host}:{receiver.port}/hook"), user=ADA)

    assert outcome.verdict is FAILED
    assert receiver.requests == []


@pytest.mark.fault("SE86")
async def test_each_connection_is_checked_anew(receiver, monkeypatch):
    """A host that is public at the first delivery leads to loopback at the second."""
    public = set()
    monkeypatch.setattr(socket, "getaddrinfo", leads_to("127.0.0.1"))
    monkeypatch.setattr(http_sender, "is_public", lambda address: address in public)
    sender = HttpSender(timeout=1)
    url = f"https://rebound.example.com:{receiver.port}/hook"

    public.add("127.0.0.1")
    first = await sender.send(request(url), user=ADA)
    public.clear()
    second = await sender.send(request(url), user=ADA)
    await sender.close()

    assert NOT_PERMITTED not in first.text
    assert NOT_PERMITTED in second.text


@pytest.mark.fault("SE86")
async def test_only_the_named_port_of_a_permitted_host_is_connected_to(receiver):
    sender = HttpSender((f"127.0.0.1:{receiver.port + 1}",), timeout=1)

    outcome = await sender.send(request(receiver.url), user=ADA)
    await sender.close()

    assert (outcome.verdict, receiver.requests) == (FAILED, [])
    assert outcome.text.endswith("except for hosts of --webhook-hosts: 127.0.0.1")


@pytest.mark.fault("SE87")
async def test_an_answer_that_never_begins_is_given_up(receiver, sender):
    released = asyncio.Event()

    async def answer(_):
        await released.wait()
        return web.Response()

    receiver.answer = answer
    outcome = await sender.send(request(receiver.url), user=ADA)
    released.set()

    assert (outcome.verdict, outcome.text) == (FAILED, "no answer in 1 s")


@pytest.mark.fault("SE87")
@pytest.mark.parametrize("part", [b"x" * 65536, b"x"])
async def test_an_answer_without_end_is_not_read_to_its_end(receiver, sender, monkeypatch, part):
    monkeypatch.setattr(http_sender, "DRAIN_TIMEOUT", 0.1)
    sent, is_over = 0, asyncio.Event()

    async def answer(received):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(received)
        try:
            while True:
                await response.write(part)
                sent += len(part)
                await asyncio.sleep(0.001)
        finally:
            is_over.set()

    receiver.answer = answer
    outcome = await sender.send(request(receiver.url), user=ADA)

    assert outcome.verdict is DELIVERED
    await asyncio.wait_for(is_over.wait(), 10)  # the connection was closed
    assert sent < 16 * 2**20


@pytest.mark.fault("SE87")
async def test_headers_without_end_are_an_error(receiver, sender):
    async def answer(_):
        return web.Response(headers={"X-Long": "x" * 2**20})

    receiver.answer = answer

    assert (await sender.send(request(receiver.url), user=ADA)).verdict is FAILED


async def test_an_endpoint_that_cannot_be_reached_is_a_failure(receiver, sender):
    async def answer(received):
        received.transport.abort()
        return web.Response()

    receiver.answer = answer
    aborted = await sender.send(request(receiver.url), user=ADA)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    away = HttpSender(("127.0.0.1",), timeout=1)
    refused = await away.send(request(f"http://127.0.0.1:{port}/"), user=ADA)
    await away.close()

    assert (aborted.verdict, refused.verdict) == (FAILED, FAILED)
    assert refused.text.startswith("127.0.0.1 cannot be connected to")


@pytest.mark.fault("SE87")
async def test_look_ups_that_hang_delay_neither_others_nor_the_end(receiver, sender, monkeypatch):
    hanging, known = threading.Event(), socket.getaddrinfo

    def look_up(host, *more):
        if host == "hangs.example.com":
            hanging.wait()
        return known(host, *more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        outcomes = await asyncio.gather(
            *(sender.send(request("https://hangs.example.com/"), user=ADA) for _ in range(4)),
            sender.send(request(receiver.url), user=ADA),
        )
        await sender.close()
    finally:
        hanging.set()

    assert [outcome.verdict for outcome in outcomes] == [FAILED] * 4 + [DELIVERED]


@pytest.mark.fault("SE91")
async def test_look_ups_that_hang_delay_no_webhook_of_another_user(receiver, sender, monkeypatch):
    """A look-up holds its thread also after its request was given up."""
    hanging, known, begun = threading.Event(), socket.getaddrinfo, []

    def look_up(host, *more):
        if host.startswith("hangs"):
            begun.append(host)
            hanging.wait()
        return known("localhost", *more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    urls = [f"https://hangs-{number}.example.com/" for number in range(4 * LOOKUP_THREADS)]
    given_up = [asyncio.create_task(sender.send(request(url), user=EVE)) for url in urls]
    await asyncio.sleep(0.2)
    for task in given_up:
        task.cancel()
    try:
        outcome = await sender.send(request("https://hooks.example.com/"), user=ADA)
        await sender.close()
    finally:
        hanging.set()

    assert outcome.text.endswith(NOT_PERMITTED)
    assert len(begun) == MAX_LOOKUPS


async def test_look_ups_continue_once_the_machine_can_start_threads_again(receiver, sender, monkeypatch):
    """As after a limit of processes (TasksMax of systemd) was reached for some time."""

    def start(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(http_sender.Thread, "start", start)
        for _ in range(LOOKUP_THREADS):
            assert (await sender.send(request("https://hooks.example.com/"), user=ADA)).verdict is FAILED
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 1))]
    )

    outcome = await sender.send(request("https://hooks.example.com/"), user=ADA)

    assert outcome.text.endswith(NOT_PERMITTED)


def leads_to(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def look_up(host, port, *_):
        assert host == "rebound.example.com"
        place = (address, port, 0, 0) if family == socket.AF_INET6 else (address, port)
        return [(family, socket.SOCK_STREAM, 6, "", place)]

    return look_up


# ------------------------------------------------------------------------------------------------------------ addresses

PRIVATE = """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200 0.0.0.0 198.18.0.1
192.0.0.192 168.63.129.16 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 203.0.113.9 :: ::1 fe80::1 fe80::1%eth0 fec0::1
fd00:ec2::254 ff02::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::808:808 2002:7f00:1::
2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 not-an-address""".split()  # noqa: SIM905 - a table
PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1")


@pytest.mark.fault("SE86")
@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address):
    assert is_public(address)


SECRET_PATH = "/services/T0/secret-part"


@pytest.mark.fault("SE86")
@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com",
        "ftp://hooks.example.com",
        "file:///etc/passwd",
        "gopher://hooks.example.com",
        "https://",
        "https:///",
        "//hooks.example.com",
        "hooks.example.com",
        "https://127.0.0.1",
        "https://[::1]",
        "https://[::ffff:7f00:1]",
        "https://169.254.169.254",
        "https://user@hooks.example.com",
        "https://user:word@hooks.example.com",
        "https://:word@hooks.example.com",
        "https://hooks.example.com:99999",
        "https://hooks.example.com:x",
        "https://hooks.example.com:0",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/\r\nHost: other",
        "https://hooks.example.com/\u202e",
        "https://hoöks.example.com",
        "https://[",
        "https://xn--",
        "https://[3fff::1]",
        "https://192.88.99.1",
        "https://hooks.example.com/#fragment",
        "http://listed.example.com:81",
        "https://" + "a" * 2048,
    ],
)
async def test_a_url_to_which_nothing_is_sent_is_refused_without_its_secret(url):
    sender = HttpSender(("other.example.com", "listed.example.com:80"))
    url = url if "#" in url or " " in url else f"{url}{SECRET_PATH}"

    with pytest.raises(Invalid) as refusal:
        sender.check_url(url)

    assert "secret-part" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://[::1]:8080/", "::1"),
        ("http://Chat.Internal/", "chat.INTERNAL:80"),
        ("https://chat.internal/", "chat.internal:443"),
        ("https://8.8.8.8/", "other.example.com"),
        ("https://hooks.example.com:8443/", "other.example.com"),
    ],
)
def test_a_url_of_a_permitted_host_is_accepted(url, host):
    HttpSender((host,)).check_url(url)
