"""Which requests of browsers reach pages and forms, by method, path, Sec-Fetch headers, Origin and Content-Type."""

from contextlib import asynccontextmanager
from itertools import product

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from batchq.api.auth.authentication import open_gate
from batchq.api.console.routes import PROFILE
from batchq.api.http.dialect_profiles import DialectProfiles
from batchq.api.http.http import read_body
from batchq.api.operations.middleware import request_middleware
from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.serving import app as api
from tests.support.builders import ADMIN, NOON
from tests.support.server import serving
from tests.support.stubs import request_metrics

HOST = "127.0.0.1:22824"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
PAGES, OTHERS = ("/ui/", "/ui/login"), ("/", "/v1/describejobs", "/healthz")
METHODS = ("GET", "POST", "DELETE", "OPTIONS")
SITES = (None, "same-origin", "none", "same-site", "cross-site")
FETCHES = (None, ("navigate", "document"), ("navigate", "iframe"), ("cors", "empty"), ("no-cors", "image"))
ORIGINS = (None, f"http://{HOST}", f"https://{HOST}", "null", "http://127.0.0.1:3000")
TYPES = (None, FORM, JSON, "text/plain", "multipart/form-data; boundary=x")
OURS = ORIGINS[1:3]


def expected(method, path, *, site, fetch, origin, kind):
    """The status that the rules of docs/security.md give."""
    is_page = path in PAGES
    opens_page = method == "GET" and fetch == ("navigate", "document") and origin is None and (is_page or path == "/")
    from_here = site in {None, "same-origin", "none"} and origin in {None, *OURS}
    if not opens_page and not from_here:
        return 403
    if is_page and method not in {"GET", "HEAD"} and (origin is None or site == "none"):
        return 403
    if method == "POST" and kind != (FORM if is_page else JSON):
        return 415
    return 200


@pytest.fixture(scope="module")
def send():
    """Passes a request through the middleware; returns the status.

    The requests are clones of one, because the mocks of `make_mocked_request` cost ten times what the middleware does.
    """
    profiles = DialectProfiles()
    profiles.add(PROFILE)
    gate = open_gate(ADMIN.user, now=lambda: NOON)
    middleware = request_middleware((), gate, lambda *_: None, profiles=profiles)

    async def handle(_):
        return web.Response()

    first = make_mocked_request("GET", "/")

    async def send(method, path, **headers):
        given = {"Host": HOST} | {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        request = first.clone(method=method, rel_url=path, headers=given)
        request._match_info = first.match_info
        return (await middleware(request, handle)).status

    return send


@pytest.mark.fault("SE02", "SE50")
@pytest.mark.parametrize("path", [*PAGES, *OTHERS])
@pytest.mark.parametrize("method", METHODS)
async def test_only_links_open_pages_from_other_sites_and_only_forms_of_pages_are_accepted(send, method, path):
    wrong = []
    for site, fetch, origin, kind in product(SITES, FETCHES, ORIGINS, TYPES if method == "POST" else [None]):
        mode, dest = fetch or (None, None)
        headers = {"Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": dest, "Origin": origin, "Content_Type": kind}
        status = await send(method, path, Sec_Fetch_Site=site, **headers)
        if status != expected(method, path, site=site, fetch=fetch, origin=origin, kind=kind):
            wrong.append((site, fetch, origin, kind, status))
    assert wrong == []


@asynccontextmanager
async def pages():
    """A server with a page and a form; a form is answered with its length."""

    async def show(_, request):
        return web.Response(text=f"{len(await read_body(request))}")

    table = OperationTable()
    table.public("show", "GET", "/ui/")(show)
    table.public("post", "POST", "/ui/form")(show)
    dialect = dialect_of(table, profile=lambda _: PROFILE)(None)
    gate = open_gate(ADMIN.user, now=lambda: NOON)
    app = api.build(requests=request_metrics(), dialects=[dialect], health=dict, hosts=(), gate=gate)
    async with serving(app) as url, aiohttp.ClientSession(url) as session:
        yield session, url


ACCEPTS = {
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": 303,
    "text/html": 303,
    "TEXT/HTML ; q=0.9, application/json;q=0.5": 303,
    "*/*": 200,
    "": 200,
    "application/json": 200,
    "application/json, text/html;q=0.9": 200,
    "text/html, application/json": 200,
    "text/html;q=0": 200,
    "text/html;q=x": 200,
    "text/html;q=1e9": 200,
    "text/htmlx": 200,
    "," * 4000: 200,
}


async def test_the_root_redirects_to_the_console_if_html_is_preferred():
    async with pages() as (session, _):
        for accept, status in ACCEPTS.items():
            async with session.get("/", headers={"Accept": accept}, allow_redirects=False) as answer:
                assert answer.status == status, accept
                if answer.status == 303:
                    assert answer.headers["Location"] == "/ui/"
                    assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("no-store", "Accept")
                else:
                    assert (await answer.json())["name"] == "batchq"


async def test_a_post_to_the_root_stays_an_operation_of_aws():
    async with pages() as (session, _):
        headers = {"Accept": "text/html", "Content-Type": JSON}
        async with session.post("/", data=b"{}", headers=headers, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["x-amzn-ErrorType"]) == (400, "ClientException")


@pytest.mark.fault("SE50")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_form_of_64_kib_is_read_and_a_byte_more_is_refused(is_chunked):
    async def chunks(body):
        yield body

    async with pages() as (session, url):
        statuses = []
        for size in (65536, 65537):
            body = b"a" * size
            sent = chunks(body) if is_chunked else body
            headers = {"Origin": url, "Content-Type": FORM}
            async with session.post("/ui/form", data=sent, headers=headers) as answer:
                statuses.append((answer.status, "65536" in await answer.text()))

    assert statuses == [(200, True), (413, True)]


@pytest.mark.fault("SE50")
@pytest.mark.parametrize(
    ("origins", "charset", "status"), [(2, "utf-8", 403), (1, "utf-16", 400), (1, "latin-1", 400), (1, "utf-8", 200)]
)
async def test_a_form_needs_one_origin_and_utf_8(origins, charset, status):
    async with pages() as (session, url):
        headers = [("Origin", url)] * origins + [("Content-Type", f"{FORM}; charset={charset}")]
        async with session.post("/ui/form", data=b"", headers=headers) as answer:
            assert answer.status == status
