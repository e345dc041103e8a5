"""Authorization: the permission that an operation requires of its caller."""

import logging
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from batchq.api.authentication import WHO
from batchq.api.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Permission

log = logging.getLogger(__name__)


def must_have(caller: Caller, right: Permission, operation: str) -> None:
    """Raise HttpRefusal (403) unless the caller has the permission.

    The reply does not depend on the resources named in the request, so it does not reveal which exist.
    """
    if not caller.has(right):
        log.warning("request %s: user %s may not %s", caller.request_id, caller.user, operation)
        raise denied(f"User {caller.user} is not authorized to perform {operation}.")


def denied(why: object) -> HttpRefusal:
    return HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def asker(request: web.Request, right: Permission, operation: str) -> Caller:
    """Return the caller, with `operation` set. Raises HttpRefusal (403) unless the caller has the permission."""
    must_have(request[WHO], right, operation)
    return replace(request[WHO], operation=operation)
