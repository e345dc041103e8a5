"""Operations on accounts, users and access keys: `POST /v1/batchq/` and the operation's name in lower case."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.operations import OPERATIONS, AdminOperation
from batchq.accounts.wire import AdminRequest
from batchq.api.authentication import authorize
from batchq.api.http import Dialect, HttpRefusal, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.errors import Forbidden, NotFound

_UNSIGNED = (
    "This server does not authenticate requests, so they cannot change accounts, users or keys: run batchq key, "
    "user or account with --data on the server's machine."
)

_SIGNED_ONLY = (
    "A server with --auth none refuses it: run the command `batchq key`, `user` or `account` with --data there."
)


def dialect(admin: AccountAdmin) -> Dialect:
    def mount(app: web.Application) -> None:
        for name, operation in OPERATIONS.items():
            route = app.router.add_post(f"/v1/batchq/{name.lower()}", _endpoint(admin, name, operation))
            document(app, route, _doc(name, operation))

    return mount


def _doc(name: str, operation: AdminOperation[AdminRequest]) -> OperationDoc:
    return OperationDoc(
        name=name,
        summary=operation.summary,
        description="" if operation.reads_only else _SIGNED_ONLY,
        body=operation.request,
        answer=operation.answer,
        permission=operation.permission,
    )


def _endpoint(
    admin: AccountAdmin, name: str, operation: AdminOperation[AdminRequest]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def endpoint(request: web.Request) -> web.Response:
        caller = authorize(request, operation.permission, name)
        if not caller.is_authenticated and not operation.reads_only:
            raise HttpRefusal(_UNSIGNED, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
        body = parse(operation.request, await read_body(request))
        try:
            return reply(await asyncio.to_thread(operation.perform, admin, body, caller))
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        except Forbidden as why:
            raise HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException") from None

    return endpoint
