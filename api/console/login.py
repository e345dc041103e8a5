"""Login and logout of the web console: by a one-time link of `batchq console`, or by an access key. Decision 0060."""

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.auth.authentication import CALLER, KeyAuthentication, reading_keys
from batchq.api.auth.sessions import HOME, LOGIN, LOGOUT, PLAIN, SECURE, CookieKind, Session, page_path
from batchq.api.console.pages import HEADERS, read_form, render
from batchq.api.console.state import ConsoleState
from batchq.api.http.client_connection import LOOPBACK, client_address, host_name, is_local_request
from batchq.api.http.http import REQUEST_ID
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller

log = logging.getLogger(__name__)

OLD_LINK = "This link was used, or is older than 60 seconds."
WRONG_KEY = "The access key id or the secret is wrong, or the key is disabled."
TOO_MANY = "Too many wrong logins with this key from here. Try again in a minute, or use a link of `batchq console`."
INSECURE = "Logins over this connection are refused, because it is not encrypted."

Word = Annotated[str, Field(max_length=2000)]


class LoginQuery(BaseModel):
    """The query of the login page."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    #: Of a one-time link.
    code: Word = ""
    #: The page to load after the login.
    next: Word = ""


class LoginForm(LoginQuery):
    """The form of the login page: a code, or a key."""

    key_id: Annotated[str, Field(max_length=128)] = ""
    secret: Word = ""


operations = OperationTable()


@operations.public("show", "GET", LOGIN)
async def show_login(parts: Parts, request: web.Request) -> web.StreamResponse:
    given = await read_form(request, LoginQuery)
    keys, page = parts.keys, page_path(given.next) or HOME
    if keys is None or CALLER in request:
        return _redirect(page)
    with reading_keys(request):
        present = _logged_in(keys, request)
        key_id = keys.codes.find(given.code)
        user = None if key_id is None else keys.callers.find(key_id)
    if present is not None and user is None:
        return _redirect(page)
    if not _may_log_in(request):
        return _login_page(request, given, error=INSECURE, status=HTTPStatus.FORBIDDEN, has_form=False)
    if given.code and user is None:
        return _login_page(request, given, error=OLD_LINK, status=HTTPStatus.FORBIDDEN)
    return _login_page(request, given, user=user, present=present)


@operations.public("log_in", "POST", LOGIN)
async def log_in(parts: Parts, request: web.Request) -> web.StreamResponse:
    given = await read_form(request, LoginForm)
    keys, page = parts.keys, page_path(given.next) or HOME
    if keys is None or CALLER in request:
        return _redirect(page)
    kind = _cookie_kind(request)
    if kind is None:
        return _login_page(request, given, error=INSECURE, status=HTTPStatus.FORBIDDEN, has_form=False)
    with reading_keys(request):
        address = "" if request.transport is None else client_address(request.transport)
        failures = parts.state(ConsoleState).login_failures
        if not given.code and failures.is_exceeded((address, given.key_id), parts.clock.now()):
            return _login_page(request, given, error=TOO_MANY, status=HTTPStatus.TOO_MANY_REQUESTS)
        caller = _authenticated(keys, given)
        if caller is None and given.code and _logged_in(keys, request) is not None:
            return _redirect(page)  # the same form was sent before
        if caller is None:
            return _refused(parts, request, given, address)
        keys.throttle.take_token(caller.user)
        cookie = keys.sessions.create(caller.key, kind)
        if cookie is None:
            return _refused(parts, request, given, address)
        if (earlier := _session(keys, request)) is not None:
            keys.sessions.end(earlier)
    log.info("request %s: user %s logged in with key %s", request[REQUEST_ID], caller.user, caller.key)
    return _redirect(page, cookies=[kind.header(cookie)])


@operations.public("log_out", "POST", LOGOUT)
async def log_out(parts: Parts, request: web.Request) -> web.StreamResponse:
    keys = parts.keys
    if keys is None or CALLER in request:
        return _redirect(HOME)
    with reading_keys(request):
        if (session := _session(keys, request)) is not None:
            keys.sessions.end(session)
    return _redirect(LOGIN, cookies=[SECURE.removal(), PLAIN.removal()])


def _refused(parts: Parts, request: web.Request, given: LoginForm, address: str) -> web.Response:
    if not given.code:
        parts.state(ConsoleState).login_failures.record((address, given.key_id), parts.clock.now())
    log.warning("request %s: login from %s was refused", request[REQUEST_ID], address)
    error = OLD_LINK if given.code else WRONG_KEY
    return _login_page(request, given, error=error, status=HTTPStatus.FORBIDDEN)


def _authenticated(keys: KeyAuthentication, given: LoginForm) -> Caller | None:
    """The caller of a valid code or a valid key; None otherwise."""
    if given.code:
        key_id = keys.codes.spend(given.code)
    else:
        key_id = given.key_id if keys.verifier.is_secret(given.key_id, given.secret) else None
    return None if key_id is None else keys.callers.find(key_id)


def _session(keys: KeyAuthentication, request: web.Request) -> Session | None:
    return keys.sessions.find(request.headers.getall("Cookie", ()), local=is_local_request(request))


def _logged_in(keys: KeyAuthentication, request: web.Request) -> Caller | None:
    session = _session(keys, request)
    return None if session is None else keys.callers.find(session.key)


def _cookie_kind(request: web.Request) -> CookieKind | None:
    """The cookie for the page that sent the login; None if others could read it. A proxy may have ended TLS."""
    if request.secure or request.headers.get("Origin", "").startswith("https://"):
        return SECURE
    return PLAIN if is_local_request(request) else None


def _may_log_in(request: web.Request) -> bool:
    """Whether the login page may ask for a secret.

    Browsers send Sec-Fetch-Site over TLS and to loopback only, so the header shows that a proxy has ended TLS.
    """
    is_behind_tls = "Sec-Fetch-Site" in request.headers and host_name(request.host) not in LOOPBACK
    return request.secure or is_local_request(request) or is_behind_tls


def _login_page(
    request: web.Request,
    given: LoginQuery,
    *,
    user: Caller | None = None,
    present: Caller | None = None,
    error: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    has_form: bool = True,
) -> web.Response:
    """`user`: of the code. `present`: of the session. `has_form`: whether the page has a form."""
    values = {
        "title": "Log in",
        "code": given.code,
        "next": page_path(given.next) or "",
        "user": user,
        "present": present,
        "error": error,
        "has_form": has_form,
        "is_local": is_local_request(request),
        "host": request.host,
    }
    return render("login.html", values, status=status)


def _redirect(location: str, *, cookies: Iterable[str] = ()) -> web.Response:
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": location})
    for cookie in cookies:
        response.headers.add("Set-Cookie", cookie)
    return response
