"""Malformed and hostile HTTP that no client library sends."""

import asyncio
import gzip
import json

import pytest

from tests.support.timing import little_cpu

JSON = b"Content-Type: application/json\r\n"
HOST = b"Host: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n"
DESCRIBE = b"POST /v1/describejobs HTTP/1.1\r\n"


async def exchange(server, *sent, until_closed=True):
    """Send the bytes, and return what the server sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for words in sent:
            writer.write(words)
            await writer.drain()
        async with asyncio.timeout(15):
            return await (reader.read() if until_closed else reader.readuntil(b"\r\n\r\n"))
    except ConnectionError:
        return b""
    finally:
        writer.close()


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else None


def post(*headers, body=b"{}", host=HOST):
    return DESCRIBE + host + b"".join(headers) + CLOSE + b"\r\n" + body


REFUSED = {
    "no host": post(JSON, b"Content-Length: 2\r\n", host=b""),
    "no host in HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "empty host": post(JSON, b"Content-Length: 2\r\n", host=b"Host:\r\n"),
    "two hosts": post(JSON, HOST, b"Content-Length: 2\r\n"),
    "length and chunks": post(JSON, b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
    "two lengths": post(JSON, b"Content-Length: 2\r\nContent-Length: 3\r\n"),
    "negative length": post(JSON, b"Content-Length: -2\r\n"),
    "length that is no number": post(JSON, b"Content-Length: two\r\n"),
    "broken chunk": post(JSON, b"Transfer-Encoding: chunked\r\n", body=b"xyz\r\n"),
    "a length with a sign": post(JSON, b"Content-Length: +2\r\n"),
    "a length in a list": post(JSON, b"Content-Length: 2, 2\r\n"),
    "chunks twice": post(JSON, b"Transfer-Encoding: chunked, chunked\r\n", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "chunks not last": post(JSON, b"Transfer-Encoding: chunked, identity\r\n", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "chunks in HTTP/1.0": post(JSON, b"Transfer-Encoding: chunked\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a chunk of a size below zero": post(JSON, b"Transfer-Encoding: chunked\r\n", body=b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk of endless size": post(JSON, b"Transfer-Encoding: chunked\r\n", body=b"f" * 20_000 + b"\r\n"),
    "a space before the colon": post(JSON, b"Content-Length : 2\r\n"),
    "a header without a colon": post(JSON, b"Content-Length 2\r\n"),
    "a header without a name": post(JSON, b": 2\r\n"),
    "a NUL in a header": post(JSON, b"X: a\x00b\r\n", b"Content-Length: 2\r\n"),
    "a lone carriage return": post(JSON, b"X: a\rHost: evil\r\n", b"Content-Length: 2\r\n"),
    "a space in the path": b"GET /health z HTTP/1.1\r\n" + HOST + b"\r\n",
    "no chunks we know": post(JSON, b"Transfer-Encoding: gzip\r\n"),
    "bad method": b"G<T / HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/9.9": b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n",
    "long line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "many headers": post(*(b"X-%d: y\r\n" % n for n in range(5000))),
    "folded header": post(b"X: y\r\n z\r\n", JSON),
    "TLS hello": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 64 + b"\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.fault("IN11", "SE01")
async def test_malformed_requests_are_refused_or_disconnected_and_the_server_continues(server, http):
    for name, sent in REFUSED.items():
        answer = await exchange(server, sent)

        has_no_host = name in {"no host", "no host in HTTP/1.0", "empty host"}
        assert status(answer) in ({400} if has_no_host else {None, 400, 403, 413, 414, 431, 505}), name
        assert (await http.send("GET", "/healthz"))[0] == 200


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
EARLY = {
    "an unknown host": (403, post(JSON, b"Content-Length: 200000\r\n", host=b"Host: evil.example\r\n", body=b"")),
    "ten gigabytes": (413, post(JSON, b"Content-Length: 10000000000\r\n")),
    "endless chunks": (413, post(JSON, b"Transfer-Encoding: chunked\r\n", body=CHUNK * 5)),
}


@pytest.mark.fault("IN08", "SE01")
@pytest.mark.parametrize(("expected", "sent"), EARLY.values(), ids=EARLY)
async def test_requests_are_refused_before_the_whole_body_is_sent(server, http, expected, sent):
    answer = await exchange(server, sent, until_closed=False)

    assert status(answer) == expected
    assert b"x-amzn-RequestId" in answer
    assert (await http.send("GET", "/healthz"))[0] == 200


SMUGGLED = b'{"jobName": "smuggled", "jobQueue": "default", "jobDefinition": "sleeper"}'
SMUGGLING = b"POST /v1/submitjob HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED


# A request with an empty host is well formed, so the data after it is another request.
MISSHAPEN = {name: sent for name, sent in REFUSED.items() if name != "empty host"}


@pytest.mark.fault("IN11")
async def test_data_after_a_malformed_request_is_not_processed(server, sleeper):
    before = server.stored_rows()

    for name, sent in MISSHAPEN.items():
        await exchange(server, sent.replace(CLOSE, b"") + SMUGGLING)

        assert server.stored_rows() == before, name


async def test_a_request_after_a_valid_one_is_processed(server, sleeper):
    good = post(JSON, b"Content-Length: 12\r\n", body=b'{"jobs": []}').replace(CLOSE, b"")

    await exchange(server, good + SMUGGLING.replace(JSON, JSON + CLOSE))

    assert [job.spec.name for job in server.store.all_jobs().values()] == ["smuggled"]


LONG_TYPES = {
    "quotes": b'"' * 8000,
    "parameters": b"application/json;" + b"a=b;" * 1900,
    "numbered": b"application/json;" + b"a*0=b;" * 1200,
    "comments": b"application/json " + b"(" * 7900,
}


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("kind", LONG_TYPES.values(), ids=LONG_TYPES)
async def test_a_long_content_type_is_refused_without_parsing(server, kind):
    with little_cpu():  # the server's loop is this one
        answer = await exchange(server, post(b"Content-Type: " + kind + b"\r\n", b"Content-Length: 2\r\n"))

    assert status(answer) == 415


BOMB = gzip.compress(b" " * 4_000_000)  # 16 times the limit of a body
ENCODED = {
    "bomb": (b"gzip", BOMB),
    "bad gzip": (b"gzip", b"not gzip"),
    "brotli": (b"br", b"x"),
    "zstd": (b"zstd", b"x"),
}


@pytest.mark.fault("IN09")
@pytest.mark.parametrize(("encoding", "body"), ENCODED.values(), ids=ENCODED)
async def test_an_encoded_body_is_refused_without_decompression(server, encoding, body):
    headers = b"Content-Encoding: %s\r\nContent-Length: %d\r\n" % (encoding, len(body))

    answer = await exchange(server, post(JSON, headers, body=body), until_closed=False)

    assert status(answer) == 415


async def test_expect_100_continue_is_answered(server):
    body = b'{"jobs": []}'

    answer = await exchange(server, post(JSON, b"Expect: 100-continue\r\nContent-Length: 12\r\n", body=body))

    assert status(answer) == 100
    assert status(answer.partition(b"\r\n\r\n")[2]) == 200


@pytest.mark.parametrize("path", [b"/v1/describejobs?x=y", b"/v1/%64escribejobs"])
async def test_percent_encoded_paths_are_routed(server, path):
    sent = post(JSON, b"Content-Length: 12\r\n", body=b'{"jobs": []}')

    answer = await exchange(server, sent.replace(b"/v1/describejobs", path))

    assert status(answer) == 200


async def disconnect_after(server, http, operation, members):
    """Send a request, and disconnect before the response."""
    body = json.dumps(members).encode()
    server.engine.gate.clear()
    server.engine.reached.clear()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    begin = b"POST /v1/%s HTTP/1.1\r\n" % operation.lower().encode()
    writer.write(begin + HOST + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    await server.engine.reached.wait()
    writer.close()
    await writer.wait_closed()
    await http.send("GET", "/healthz")  # the server has noticed by now
    server.engine.gate.set()


@pytest.mark.fault("IN12")
async def test_a_job_is_submitted_although_the_client_disconnected(server, sleeper, http):
    members = {"jobName": "left-alone", "jobQueue": "default", "jobDefinition": "sleeper"}

    await disconnect_after(server, http, "SubmitJob", members)

    _, _, answer = await http.post("ListJobs", {"jobQueue": "default", "jobStatus": "SUBMITTED"})
    assert [job["jobName"] for job in answer["jobSummaryList"]] == ["left-alone"]


@pytest.mark.fault("IN12")
@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
async def test_a_job_is_stopped_although_the_client_disconnected(server, submit, described, http, operation):
    job_id = await submit()

    await disconnect_after(server, http, operation, {"jobId": job_id, "reason": "gone"})

    job = await described(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "gone")
    assert (job["isCancelled"], job["isTerminated"]) == (operation == "CancelJob", operation == "TerminateJob")
