"""The middleware: Host, Origin and Content-Type headers, and error responses."""

import logging
from importlib.metadata import version
from itertools import product

import pytest

from batchq.errors import StoreFailed
from batchq.ports.responses.server import HealthReport
from batchq.system import turns
from tests.support.builders import ADMIN

REFUSED = 400, "ClientException"


async def send(http, **headers):
    return await http.post("DescribeJobs", {"jobs": []}, **headers)


async def test_every_answer_has_a_request_id_of_its_own(http):
    ids = [(await send(http))[1]["x-amzn-RequestId"], (await send(http, Host="evil.example"))[1]["x-amzn-RequestId"]]

    assert [len(identifier) for identifier in ids] == [36, 36]
    assert ids[0] != ids[1]


async def test_no_cache_between_stores_an_answer_and_no_browser_guesses_its_type(http):
    """A cache knows that an answer is of one user by the Authorization header, not by X-Auth-Token."""
    for headers in ((await send(http))[1], (await send(http, Host="evil.example"))[1]):
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


HOSTS = {
    200: ["127.0.0.1", "127.0.0.1:80", "localhost:22824", "LocalHost", "[::1]", "[::1]:8080", "batchq.example:1"],
    403: [
        *("evil.example", "evil.example:22824", "127.0.0.1.evil.example", "localhost@evil"),
        *("127.0.0.2", "::1", "a b", "localhost:x"),
    ],
}


@pytest.mark.fault("SE01")
async def test_only_the_servers_host_names_are_accepted_with_any_port(http):
    for expected, host in [(status, host) for status, hosts in HOSTS.items() for host in hosts]:
        status, headers, answer = await send(http, Host=host)

        error = None if expected == 200 else "AccessDeniedException"
        assert (status, headers.get("x-amzn-ErrorType")) == (expected, error), host
        assert status == 200 or answer["message"]


FORMS = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
TYPES = {
    **dict.fromkeys(["application/json", "Application/JSON; charset=UTF-8", "application/x-amz-json-1.1"], (200, None)),
    **dict.fromkeys(["text/plain", *FORMS, None, "", "json", "text/json"], (415, "UnsupportedMediaTypeException")),
    **dict.fromkeys([f"application/json; charset={name}" for name in ("bogus", "utf-16", "latin-1")], REFUSED),
}


@pytest.mark.fault("SE02", "IN02")
async def test_only_json_in_utf_8_is_accepted(server, http):
    before = server.stored_rows()

    for kind, expected in TYPES.items():
        status, headers, _ = await send(http, Content_Type=kind)

        assert (status, headers.get("x-amzn-ErrorType")) == expected, kind
        assert server.stored_rows() == before


SIGNED = "AWS4-HMAC-SHA256 Credential=BQIA/20261121/eu-central-1/batch/aws4_request, SignedHeaders=host, Signature=0"


@pytest.mark.fault("SE02")
@pytest.mark.parametrize(
    ("authorization", "expected"), [(SIGNED, 200), ("Basic YTpi", 415), ("AWS4", 415), (None, 415)]
)
async def test_only_a_request_with_a_signature_of_aws_needs_no_content_type(http, authorization, expected):
    """Clients of AWS before 2022 send none."""
    status, _, _ = await send(http, Content_Type=None, Authorization=authorization)

    assert status == expected


@pytest.mark.fault("SE02")
async def test_requests_from_another_site_are_refused_and_none_gets_cors_headers(server, http):
    origins = [{"Origin": origin} for origin in ("http://evil.example", "null", "http://localhost:3000")]
    sites = [{"Sec_Fetch_Site": site} for site in ("cross-site", "same-site")]
    for method, headers in product(("POST", "GET", "DELETE", "OPTIONS"), (*origins, *sites)):
        status, refused, _ = await http.send(method, "/v1/describejobs", data=b'{"jobs": []}', **headers)
        own, accepted, _ = await send(http, Origin=server.url, Sec_Fetch_Site="same-origin")

        assert (status, own) == (403, 200), (method, headers)
        assert [name for name in (*refused, *accepted) if name.startswith("Access-Control")] == []


@pytest.mark.fault("IN08")
async def test_a_body_of_256_kib_is_read_and_a_byte_more_is_refused(http, accepted):
    limit = 256 * 1024
    body = b'{"jobs": []}'

    await accepted("DescribeJobs", body=body.ljust(limit))
    status, headers, answer = await http.post("DescribeJobs", body=body.ljust(limit + 1))

    assert status == 413
    assert headers["x-amzn-ErrorType"] == "RequestEntityTooLargeException"
    assert str(limit) in answer["message"]


async def test_a_store_failure_is_a_server_exception_that_boto3_may_retry(server, submit, http, caplog):
    job_id = await submit()
    server.engine.broken = StoreFailed("no space left on device")

    status, headers, answer = await http.post("CancelJob", {"jobId": job_id, "reason": "x"})

    assert (status, headers["x-amzn-ErrorType"]) == (500, "ServerException")
    assert answer["message"] == "no space left on device"
    assert headers["x-amzn-RequestId"] in caplog.text


@pytest.mark.fault("SE11")
async def test_an_unexpected_error_is_logged_once_and_not_sent(server, submit, http, caplog):
    job_id = await submit()
    server.engine.broken = RuntimeError("the secret plan")

    members = {"jobId": job_id, "reason": "c4n4ry in the body"}
    status, headers, answer = await http.post("CancelJob", members, Authorization="AWS4 Signature=c4n4ry")

    request_id = headers["x-amzn-RequestId"]
    assert (status, headers["x-amzn-ErrorType"]) == (500, "ServerException")
    assert answer["message"] == f"Internal error, RequestId: {request_id}"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert request_id in record.getMessage()
    assert "the secret plan" in caplog.text
    assert "c4n4ry" not in caplog.text


async def test_the_root_describes_the_service(server, http):
    status, _, answer = await http.send("GET", "/")

    links = {"health": "/healthz", "operations": "/openapi.json"}
    assert (status, answer) == (200, {"name": "batchq", "version": version("batchq"), "links": links})
    assert [(await http.send("GET", link))[0] for link in links.values()] == [200, 200]
    assert (await http.send("GET", "/", Host="evil.example"))[0] == 403


async def test_the_health_report_is_returned(server, http):
    server.health = HealthReport(status="degraded", engine="no answer")

    status, _, answer = await http.send("GET", "/healthz")

    assert (status, answer) == (200, {"status": "degraded", "engine": "no answer"})


@pytest.mark.fault("SE25")
async def test_a_request_takes_the_turns_of_its_caller(server, http, monkeypatch):
    users = []

    async def describe(_ids, *, caller):
        users.append((turns._USER.get(), caller.user))
        return ()

    monkeypatch.setattr(server.parts.jobs, "describe", describe)
    await send(http)

    assert users == [(ADMIN.user, ADMIN.user)]
