"""The HTTP client of the commands: responses, errors, proxies and TLS."""

import asyncio
from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from socket import create_server, socket

import pytest
from aiohttp import web

from batchq.cli.http_client import call, url_of
from batchq.errors import Invalid, Unavailable
from tests.support.certificates import Authority
from tests.support.server import serving


@pytest.fixture
def app():
    """Returns its requests; one path returns invalid JSON."""

    async def echo(request):
        return web.json_response({"method": request.method, "members": await request.text()})

    async def refuse(request):
        return web.json_response({"message": "It cannot be."}, status=int(request.match_info["status"]))

    async def page(_):
        return web.Response(text="<html>")

    async def away(_):
        raise web.HTTPFound("/echo")

    app = web.Application()
    app.router.add_get("/away", away)
    app.router.add_route("*", "/echo", echo)
    app.router.add_get("/refuse/{status}", refuse)
    app.router.add_get("/page", page)
    return app


@pytest.fixture
async def url(app):
    async with serving(app) as url:
        yield url


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of a certificate that no client trusts yet."""
    monkeypatch.setenv("AWS_CA_BUNDLE", "")
    return Authority(tmp_path).issue()


@pytest.fixture
async def safe_url(app, files):
    """The same server by TLS."""
    async with serving(app, certificate=files.certificate()) as url:
        yield url


def send(*members, **more):
    return asyncio.to_thread(call, *members, answer=dict, **more)


async def test_a_call_without_content_is_a_get_and_with_content_a_post(url):
    assert await send(url, "/echo") == {"method": "GET", "members": ""}
    assert await send(url, "/echo", {"a": 1}) == {"method": "POST", "members": '{"a": 1}'}


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/refuse/400", Invalid, r"^It cannot be\.$"),
        ("/refuse/500", Unavailable, r"^It cannot be\.$"),
        ("/page", Unavailable, "is not batchq"),
        ("/away", Unavailable, "is not batchq"),  # a redirect is not followed
    ],
)
async def test_a_response_that_is_not_a_result_is_an_error(url, path, error, message):
    with pytest.raises(error, match=message):
        await send(url, path)


async def test_an_unreachable_server_is_reported_with_its_url(url):
    with closing(socket()) as listener:  # reserved, so that no other program listens there
        listener.bind(("127.0.0.1", 0))
        mute = f"http://127.0.0.1:{listener.getsockname()[1]}"

        with pytest.raises(Unavailable, match=f"at {mute}: Connection refused; start one by batchq serve"):
            await send(mute, "/echo")


async def test_a_server_that_never_responds_times_out():
    with closing(create_server(("127.0.0.1", 0))) as mute, pytest.raises(Unavailable, match="timed out"):
        await send(f"http://127.0.0.1:{mute.getsockname()[1]}", "/echo", timeout=0.2)


async def test_a_server_on_another_machine_is_called_through_the_proxy_of_the_environment(url, monkeypatch):
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.setenv("no_proxy", "")

    assert await send("http://batch.example.invalid", "/echo", {"a": 1}) == {"method": "POST", "members": '{"a": 1}'}


async def test_no_proxy_names_servers_that_are_called_directly(url, monkeypatch):
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.setenv("no_proxy", "example.invalid")

    with pytest.raises(Unavailable, match=r"cannot reach a batchq server at http://batch\.example\.invalid"):
        await send("http://batch.example.invalid", "/echo")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_on_loopback_is_never_called_through_a_proxy(url, monkeypatch, host):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")

    assert (await send(url.replace("127.0.0.1", host), "/echo"))["method"] == "GET"


@pytest.mark.parametrize("source", ["flag", "variable"])
async def test_a_bundle_trusts_the_certificate_of_a_server(safe_url, files, monkeypatch, source):
    if source == "variable":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(files.bundle))
    url = url_of(Namespace(url=safe_url, ca_bundle=str(files.bundle) if source == "flag" else None, config=None))

    assert await send(url, "/echo") == {"method": "GET", "members": ""}
    assert await send(url, "/echo", {"a": 1}) == {"method": "POST", "members": '{"a": 1}'}


@pytest.mark.parametrize(
    ("certificate", "error"),
    [
        ({"hosts": ["another.example"]}, r"IP address mismatch, .*'127.0.0.1'\.$"),
        ({"until": datetime(2026, 1, 1, tzinfo=UTC)}, r"certificate has expired$"),
    ],
    ids=["another host", "expired"],
)
async def test_an_invalid_certificate_is_rejected(app, tmp_path, monkeypatch, certificate, error):
    files = Authority(tmp_path).issue(**certificate)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(files.bundle))

    async with serving(app, certificate=files.certificate()) as url:
        with pytest.raises(Unavailable, match=error):
            await send(url, "/echo")


async def test_an_unknown_authority_is_reported_with_the_flag_that_trusts_it(safe_url):
    with pytest.raises(Unavailable, match=r"unable to get local issuer certificate; set --ca-bundle or AWS_CA_BUNDLE"):
        await send(safe_url, "/echo")


@pytest.mark.parametrize("bundle", ["/no/such.pem", "/etc/passwd", "/etc"])
def test_an_invalid_ca_bundle_is_reported_with_its_path(bundle, monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", bundle)

    with pytest.raises(Invalid, match=f"^{bundle} is not a PEM file of certificates"):
        call("https://127.0.0.1:9", "/echo", answer=dict)


NOWHERE = ["http://", "http://[::1", "http://..", f"http://{'a' * 64}", "http://there:65536", "http://there/é"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:22824", "ftp://there", "/healthz", *NOWHERE])
def test_an_invalid_server_url_is_refused(url):
    with pytest.raises(Invalid, match="is not the http"):
        url_of(Namespace(url=url, ca_bundle=None, config=None))
