"""Who may call, and what they did: accounts, users and keys, logins to the web console, and audit records."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web
from msgspec import Struct
from pydantic import AfterValidator, BaseModel, Field

from batchq.accounts.operations import OPERATIONS, AdminOperation
from batchq.accounts.wire import AdminRequest, audit_record_answer
from batchq.api.auth.authentication import CALLER, access_denied
from batchq.api.auth.sessions import HOME, login_path, page_path
from batchq.api.http.client_connection import is_unix_connection
from batchq.api.http.http import HttpRefusal, Milliseconds, RequestBody, Word
from batchq.api.http.page_tokens import PageTokens, TokenQuery
from batchq.api.operations.operation_table import OperationTable, missing_is_404, read_input
from batchq.api.operations.operations import Call, Operation
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission, UserName
from batchq.domain.access.audit import AuditQuery
from batchq.domain.ids import JobId
from batchq.domain.times import EPOCH
from batchq.errors import BatchqError, Forbidden, Invalid
from batchq.ports.responses.records import ListAuditResponse
from batchq.ports.responses.server import CreateConsoleLoginResponse
from batchq.services.records import audit_position, parse_audit_position

_UNSIGNED = (
    "This server does not authenticate requests, so they cannot change accounts, users or keys: run batchq key, "
    "user or account with --data on the server's machine."
)

_SIGNED_ONLY = (
    "A server with --auth none refuses it: run the command `batchq key`, `user` or `account` with --data there."
)


def _administration(name: str, admin: AdminOperation[Any]) -> Operation:
    def perform(parts: Parts, call: Call[AdminRequest]) -> Awaitable[Struct]:
        return asyncio.to_thread(admin.perform, parts.accounts, call.input, call.caller)

    return Operation(
        name=name,
        method="POST",
        path=f"/v1/batchq/{name.lower()}",
        access=admin.permission,
        handle=perform,
        summary=admin.summary,
        description="" if admin.reads_only else _SIGNED_ONLY,
        body=admin.request,
        answer=admin.answer,
    )


async def _read(request: web.Request, operation: Operation) -> BaseModel | None:
    if not request[CALLER].is_authenticated and not OPERATIONS[operation.name].reads_only:
        raise access_denied(_UNSIGNED)
    return await read_input(request, operation)


def denied_is_403(request: web.Request, operation: Operation, error: BatchqError) -> web.StreamResponse:
    if isinstance(error, Forbidden):
        raise access_denied(error) from None
    return missing_is_404(request, operation, error)


admin_operations = OperationTable(
    [_administration(name, admin) for name, admin in OPERATIONS.items()], read=_read, failed=denied_is_403
)

LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - names of all addresses, for a browser of this machine
_NO_TCP = "The web console needs TCP: start the server without --no-tcp."
_NO_KEY = "A login to the web console needs an access key: call the server by TCP with a key of `batchq key create`."


def _page(text: str) -> str:
    if page_path(text) is None:
        raise ValueError("must be the path of a page below /ui/")
    return text


class CreateConsoleLoginRequest(RequestBody):
    """The page to open."""

    #: Its path below /ui/, with a query; by default the overview.
    page: Annotated[str, AfterValidator(_page)] = HOME


operations = OperationTable()


@operations.add("CreateConsoleLogin", "POST", "/v1/batchq/consolelogin", Permission.SELF, optional_body=True)
async def create_console_login(parts: Parts, call: Call[CreateConsoleLoginRequest]) -> CreateConsoleLoginResponse:
    """Returns the URL of the web console for the caller.

    On a server with keys it is a one-time link: for 60 seconds, one browser can log in by it as the caller. A caller
    of the unix socket has no access key, and gets an error there.
    """
    site = _site(parts, call.http)
    path = _path(parts, call.caller, call.input.page)
    return CreateConsoleLoginResponse(url=site + path, path=path)


def _path(parts: Parts, caller: Caller, page: str) -> str:
    if parts.keys is None:
        return page
    if not caller.key:
        raise HttpRefusal(_NO_KEY, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
    return login_path(page, code=parts.keys.codes.create(caller.key))


def _site(parts: Parts, request: web.Request) -> str:
    """The URL of the server without a path: as the client has it, or for a client of the unix socket TCP's own."""
    if request.transport is None or not is_unix_connection(request.transport):
        return f"{request.scheme}://{request.host}"
    url = urlsplit(parts.urls[0])
    if url.scheme == "unix":
        raise HttpRefusal(_NO_TCP, status=HTTPStatus.BAD_REQUEST)
    host = url.netloc.rpartition(":")
    return urlunsplit(url._replace(netloc="".join((LOOPBACK.get(host[0], host[0]), *host[1:]))))


class ListAuditRequest(RequestBody):
    """Conditions on audit records; None: any."""

    #: The earliest time, in milliseconds since 1970.
    since: Milliseconds | None = None
    #: The user who made the request.
    user: Word | None = None
    #: As `SubmitJob`.
    operation: Word | None = None
    #: The changed resource, as records name it: `job-queue/NAME` or `job/ID`.
    resource: Word | None = None
    #: The id of a job: short for `job/ID` in `resource`.
    job: Word | None = None
    max_results: Annotated[int, Field(ge=1, le=1000)] = 100
    next_token: str | None = None


@operations.add("ListAudit", "POST", "/v1/batchq/listaudit", Permission.SELF)
async def list_audit(parts: Parts, call: Call[ListAuditRequest]) -> ListAuditResponse:
    """Lists audit records, newest first.

    Operators and admins get all records, coordinators those of their accounts, and users those of their own requests.
    Everyone also gets the records about jobs that the caller may see.
    """
    body = call.input
    job = None if body.job is None else JobId(body.job)
    found = await parts.audit.records(_query(body, parts.tokens), job=job, caller=call.caller)
    token = parts.tokens.make(_token_query(body), audit_position(found[-1])) if len(found) == body.max_results else None
    return ListAuditResponse(
        records=tuple(audit_record_answer(audit_record.record) for audit_record in found), next_token=token
    )


def _query(body: ListAuditRequest, tokens: PageTokens) -> AuditQuery:
    if body.job is not None and body.resource is not None:
        raise Invalid("Only one of job and resource can be specified.")
    return AuditQuery(
        since=None if body.since is None else EPOCH + timedelta(milliseconds=body.since),
        user=None if body.user is None else UserName(body.user),
        operation=body.operation,
        resource=body.resource,
        before=parse_audit_position(tokens.read(_token_query(body), body.next_token)) if body.next_token else None,
        limit=body.max_results,
    )


def _token_query(body: ListAuditRequest) -> TokenQuery:
    return "ListAudit", body.since, body.user, body.operation, body.resource, body.job
