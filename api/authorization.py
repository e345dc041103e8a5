"""What an operation as a whole asks of its caller."""

import logging
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from batchq.api.authentication import WHO
from batchq.api.http import Refused
from batchq.domain.access.accounts import Caller, Right

log = logging.getLogger(__name__)


def must_have(caller: Caller, right: Right, operation: str) -> None:
    """Raises Refused, whatever the request is about: so nothing is told of what is there."""
    if not caller.has(right):
        log.warning("request %s: user %s may not %s", caller.request_id, caller.user, operation)
        raise denied(f"User {caller.user} is not authorized to perform {operation}.")


def denied(why: object) -> Refused:
    return Refused(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def asker(request: web.Request, right: Right, operation: str) -> Caller:
    """Who makes the request, and as what, if he may. Raises Refused."""
    must_have(request[WHO], right, operation)
    return replace(request[WHO], operation=operation)
