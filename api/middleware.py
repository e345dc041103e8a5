"""Middleware: checks the Host, Origin and Content-Type headers of each request, and converts errors to responses.

Errors have the shape of the path's dialect, those of authentication and of unknown paths included.

Any web page can make a browser send requests to 127.0.0.1. So the Host header must have a name of this server (DNS
rebinding uses another), requests from other origins are refused, and the Content-Type of a body must be JSON, which an
HTML form cannot send.
"""

import logging
import re
from collections.abc import Callable, Collection
from http import HTTPStatus
from time import perf_counter
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from batchq.api.authentication import Gate, access_denied
from batchq.api.dialect_profiles import PROFILE, TARGET, DialectProfiles, RequestFailure
from batchq.api.http import REQUEST_ID, FailureKind, HttpRefusal, InvalidMember
from batchq.errors import Forbidden, Invalid, NotFound, Throttled, Unavailable

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
JSON = frozenset({"application/json", "application/x-amz-json-1.1"})
MAX_CONTENT_TYPE = 128  # characters of a Content-Type header
SAME_SITE = frozenset({"same-origin", "none"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

ObserveRequest = Callable[[web.Request, int, float], None]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?", re.IGNORECASE)


def request_middleware(
    hosts: Collection[str], gate: Gate, observe: ObserveRequest, *, profiles: DialectProfiles
) -> Middleware:
    """Return the middleware. `hosts`: the names, besides those of loopback, that a Host header may have.

    `observe` is called with each request, the status of its response, and the seconds that it took. The profiles of the
    dialects may be registered later.
    """
    known = LOOPBACK | {_bracketed(host.lower()) for host in hosts}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id, began = str(uuid4()), perf_counter()
        request[REQUEST_ID] = request_id
        request[PROFILE] = profile = profiles.find(request.path, request.headers.get(TARGET, ""))
        try:
            _check_request(request, known)
            async with gate(request):
                response = await handler(request)
        except Exception as error:  # noqa: BLE001 - the caller gets an error in its dialect's shape, without its cause
            response = profile.error_response(_failure(request, error))
        observe(request, response.status, perf_counter() - began)
        response.headers[profile.request_id_header] = request_id
        return response

    return middleware


def _failure(request: web.Request, error: Exception) -> RequestFailure:
    """Describe the failure for the dialect. Errors of the server are logged."""
    status, code, message = HTTPStatus.BAD_REQUEST, "ClientException", str(error)
    match error:
        case HttpRefusal():
            kind, status, code = error.kind, error.status, error.code
        case Invalid():
            kind = _invalid_kind(error)
        case Throttled():
            kind, status, code = FailureKind.THROTTLED, HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException"
        case web.HTTPException():  # only the router raises them
            unknown_method = error.status == HTTPStatus.METHOD_NOT_ALLOWED
            kind = FailureKind.UNKNOWN_METHOD if unknown_method else FailureKind.UNKNOWN_PATH
            message = f"{request.method} {request.path[:200]} is not an operation of this server."
        case Unavailable():
            log.warning("request %s: %s", request[REQUEST_ID], error)
            kind, status, code = FailureKind.UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR, "ServerException"
        case _:
            log.error("request %s: %s %r failed", request[REQUEST_ID], request.method, request.path, exc_info=error)
            kind, status, code = FailureKind.INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR, "ServerException"
            message = f"Internal error, RequestId: {request[REQUEST_ID]}"
    return RequestFailure(
        kind=kind, status=status, code=code, message=message, request_id=request[REQUEST_ID], error=error
    )


def _invalid_kind(error: Invalid) -> FailureKind:
    match error:
        case NotFound():
            return FailureKind.NOT_FOUND
        case Forbidden():
            return FailureKind.FORBIDDEN
        case InvalidMember(malformed=True):
            return FailureKind.MALFORMED
        case _:
            return FailureKind.INVALID


def _check_request(request: web.Request, hosts: Collection[str]) -> None:
    _check_host(request.headers.get("Host", ""), hosts)
    _check_site(request)
    _check_encoding(request)
    if request.method in WITH_BODY and not (request[PROFILE].bodyless_post and _has_no_body(request)):
        _check_type(request)


def _check_host(host: str, hosts: Collection[str]) -> None:
    if not host:
        raise HttpRefusal("The Host header is missing.", status=HTTPStatus.BAD_REQUEST)
    name = _HOST.fullmatch(host)
    if name is None or name[1].lower() not in hosts:
        raise access_denied("The Host header does not name this server.")


def _check_site(request: web.Request) -> None:
    origins = request.headers.getall("Origin", ())
    if origins and not {f"http://{request.host}", f"https://{request.host}"}.issuperset(origins):
        raise access_denied("Requests from other origins are refused.")
    if not SAME_SITE.issuperset(request.headers.getall("Sec-Fetch-Site", ())):
        raise access_denied("Requests from other sites are refused.")


def _check_encoding(request: web.Request) -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _unsupported("Content-Encoding is not supported.")


def _has_no_body(request: web.Request) -> bool:
    """Whether the request has neither a body nor a Content-Type. A form of a web page always has the latter."""
    return not request.can_read_body and "Content-Type" not in request.headers


def _check_type(request: web.Request) -> None:
    content_type = request.headers.get("Content-Type", "")
    if content_type in JSON:  # nearly always
        return
    # Python's parser of this header takes quadratic time or worse: 8 KB of quotes blocked the event loop for seconds.
    if len(content_type) > MAX_CONTENT_TYPE or request.content_type not in JSON:
        raise _unsupported("The Content-Type must be application/json.")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        raise HttpRefusal("The charset must be UTF-8.", status=HTTPStatus.BAD_REQUEST)


def _unsupported(message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, code="UnsupportedMediaTypeException")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
