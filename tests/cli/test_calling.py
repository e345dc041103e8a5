"""How commands ask a server: what comes back, and what is said when nothing does."""

import asyncio
from argparse import Namespace
from contextlib import closing
from socket import create_server

import pytest
from aiohttp import web

from batchq.cli.calling import call, url_of
from batchq.errors import Invalid, Unavailable
from tests.support.server import serving


@pytest.fixture
async def url():
    """A server that tells what it was asked, and one path of which is no JSON."""

    async def echo(request):
        return web.json_response({"method": request.method, "asked": await request.text()})

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
    async with serving(app) as url:
        yield url


def asks(*asked, **more):
    return asyncio.to_thread(call, *asked, **more)


async def test_without_content_it_gets_and_with_content_it_posts(url):
    assert await asks(url, "/echo") == {"method": "GET", "asked": ""}
    assert await asks(url, "/echo", {"a": 1}) == {"method": "POST", "asked": '{"a": 1}'}


async def test_a_refusal_has_the_servers_own_words(url):
    with pytest.raises(Invalid, match=r"^It cannot be\.$"):
        await asks(url, "/refuse/400")


async def test_a_server_that_cannot_now_is_unavailable(url):
    with pytest.raises(Unavailable, match=r"^It cannot be\.$"):
        await asks(url, "/refuse/500")


async def test_who_answers_something_else_is_not_batchq(url):
    with pytest.raises(Unavailable, match="is not batchq"):
        await asks(url, "/page")


async def test_who_sends_us_elsewhere_is_not_batchq(url):
    with pytest.raises(Unavailable, match="is not batchq"):
        await asks(url, "/away")


async def test_where_nobody_listens_the_place_is_named(url):
    with closing(create_server(("127.0.0.1", 0))) as door:
        free = f"http://127.0.0.1:{door.getsockname()[1]}"

    with pytest.raises(Unavailable, match=f"no batchq answers at {free}: .*refused"):
        await asks(free, "/echo")


async def test_who_takes_the_call_and_never_answers_is_given_up():
    with closing(create_server(("127.0.0.1", 0))) as mute, pytest.raises(Unavailable, match="timed out"):
        await asks(f"http://127.0.0.1:{mute.getsockname()[1]}", "/echo", patience=0.2)


async def test_a_proxy_in_the_environment_is_not_asked(url, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert (await asks(url, "/echo"))["method"] == "GET"


def test_the_flag_goes_before_the_variable_and_that_before_the_usual_place(monkeypatch):
    monkeypatch.delenv("BATCHQ_URL", raising=False)
    assert url_of(Namespace(url=None)) == "http://127.0.0.1:22824"
    monkeypatch.setenv("BATCHQ_URL", "http://there:1/")
    assert url_of(Namespace(url=None)) == "http://there:1"
    assert url_of(Namespace(url="https://flag")) == "https://flag"


NOWHERE = ["http://", "http://[::1", "http://..", f"http://{'a' * 64}", "http://there:65536", "http://there/é"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:22824", "ftp://there", "/healthz", *NOWHERE])
def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(Invalid, match="is not the http"):
        url_of(Namespace(url=url))
