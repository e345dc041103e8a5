"""What an operation as a whole asks of its caller."""

import logging
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from batchq.api.authentication import WHO
from batchq.api.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Permission

log = logging.getLogger(__name__)


def must_have(caller: Caller, right: Permission, operation: str) -> None:
    """Raises Refused, whatever the request is about: so nothing is told of what is there."""
    if not caller.has(right):
        log.warning("request %s: user %s may not %s", caller.request_id, caller.user, operation)
        raise denied(f"User {caller.user} is not authorized to perform {operation}.")


def denied(why: object) -> HttpRefusal:
    return HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def asker(request: web.Request, right: Permission, operation: str) -> Caller:
    """Who makes the request, and as what, if he may. Raises Refused."""
    must_have(request[WHO], right, operation)
    return replace(request[WHO], operation=operation)
