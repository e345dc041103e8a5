"""Operations on accounts, users and access keys: `POST /v1/batchq/` and the operation's name in lower case."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.operations import OPERATIONS, AdminOperation
from batchq.accounts.requests import AdminRequest
from batchq.api.authorization import asker
from batchq.api.http import Dialect, HttpRefusal, parse, read, reply
from batchq.api.openapi import OperationDoc, document
from batchq.errors import Forbidden, NotFound

_UNSIGNED = (
    "This server does not ask who calls, so requests change no accounts, users and keys: use batchq key, user "
    "and account on the machine of the server, with --data."
)


def dialect(office: AccountAdmin) -> Dialect:
    def mount(app: web.Application) -> None:
        for name, operation in OPERATIONS.items():
            route = app.router.add_post(f"/v1/batchq/{name.lower()}", _endpoint(office, name, operation))
            document(app, route, OperationDoc(name=name, body=operation.shape))

    return mount


def _endpoint(
    office: AccountAdmin, name: str, operation: AdminOperation[AdminRequest]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def endpoint(request: web.Request) -> web.Response:
        caller = asker(request, operation.right, name)
        if not caller.key and not operation.reads_only:
            raise HttpRefusal(_UNSIGNED, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
        said = parse(operation.shape, await read(request))
        try:
            return reply(await asyncio.to_thread(operation.do, office, said, caller))
        except NotFound as nobody:
            raise HttpRefusal(str(nobody), status=HTTPStatus.NOT_FOUND) from None
        except Forbidden as why:
            raise HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException") from None

    return endpoint
