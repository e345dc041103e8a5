"""CreateConsoleLogin: the URL at which a user opens the web console, with a one-time code if a login is needed."""

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web
from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict

from batchq.api.authentication import KeyAuthentication
from batchq.api.client_connection import is_unix_connection
from batchq.api.http import HttpRefusal
from batchq.api.operation_table import Call, OperationTable
from batchq.api.sessions import HOME, login_path, page_path
from batchq.domain.access.accounts import Caller, Permission

LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - names of all addresses, for a browser of this machine
_NO_TCP = "The web console needs TCP: start the server without --no-tcp."
_NO_KEY = "A login to the web console needs an access key: call the server by TCP with a key of `batchq key create`."


def _page(text: str) -> str:
    if page_path(text) is None:
        raise ValueError("must be the path of a page below /ui/")
    return text


class CreateConsoleLoginRequest(BaseModel):
    """The page to open."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Its path below /ui/, with a query; by default the overview.
    page: Annotated[str, AfterValidator(_page)] = HOME


class CreateConsoleLoginAnswer(Struct, frozen=True, kw_only=True):
    """Where a browser opens the page."""

    #: The whole URL. Behind a proxy its scheme may be another one.
    url: str
    #: The path and the query of `url`.
    path: str


class ConsoleLoginContext(Struct, frozen=True, kw_only=True):
    """What a login needs."""

    #: Of TCP; None if it needs no login.
    keys: KeyAuthentication | None
    #: Of the listeners, TCP's first. A listener adds its own when it starts.
    urls: list[str]


operations = OperationTable[ConsoleLoginContext]()


@operations.add("CreateConsoleLogin", "POST", "/v1/batchq/consolelogin", permission=Permission.SELF, optional_body=True)
async def create_console_login(
    context: ConsoleLoginContext, call: Call[CreateConsoleLoginRequest]
) -> CreateConsoleLoginAnswer:
    """Returns the URL of the web console for the caller.

    On a server with keys it is a one-time link: for 60 seconds, one browser can log in by it as the caller. A caller
    of the unix socket has no access key, and gets an error there.
    """
    site = _site(context, call.http)
    path = _path(context, call.caller, call.input.page)
    return CreateConsoleLoginAnswer(url=site + path, path=path)


def _path(context: ConsoleLoginContext, caller: Caller, page: str) -> str:
    if context.keys is None:
        return page
    if not caller.key:
        raise HttpRefusal(_NO_KEY, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
    return login_path(page, code=context.keys.codes.create(caller.key))


def _site(context: ConsoleLoginContext, request: web.Request) -> str:
    """The URL of the server without a path: as the client has it, or for a client of the unix socket TCP's own."""
    if request.transport is None or not is_unix_connection(request.transport):
        return f"{request.scheme}://{request.host}"
    parts = urlsplit(context.urls[0])
    if parts.scheme == "unix":
        raise HttpRefusal(_NO_TCP, status=HTTPStatus.BAD_REQUEST)
    host = parts.netloc.rpartition(":")
    return urlunsplit(parts._replace(netloc="".join((LOOPBACK.get(host[0], host[0]), *host[1:]))))
