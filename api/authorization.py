"""Authorization: the permission that an operation requires of its caller."""

import logging
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from batchq.api.authentication import CALLER
from batchq.api.http import HttpRefusal
from batchq.domain.access.accounts import Caller, Permission

log = logging.getLogger(__name__)


def require(caller: Caller, permission: Permission, operation: str) -> None:
    """Raise HttpRefusal (403) unless the caller has the permission.

    The reply does not depend on the resources named in the request, so it does not reveal which exist.
    """
    if not caller.has(permission):
        log.warning("request %s: user %s may not %s", caller.request_id, caller.user, operation)
        raise access_denied(f"User {caller.user} is not authorized to perform {operation}.")


def access_denied(why: object) -> HttpRefusal:
    return HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def authorize(request: web.Request, permission: Permission, operation: str) -> Caller:
    """Return the caller, with `operation` set. Raises HttpRefusal (403) unless the caller has the permission."""
    require(request[CALLER], permission, operation)
    return replace(request[CALLER], operation=operation)
