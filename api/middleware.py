"""Middleware: checks the Host, Origin and Content-Type headers of each request, and converts errors to responses.

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

from batchq.api.authentication import Gate
from batchq.api.http import REQUEST_ID, HttpRefusal, error_response
from batchq.errors import Invalid, Throttled, Unavailable

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
JSON = frozenset({"application/json", "application/x-amz-json-1.1"})
MAX_CONTENT_TYPE = 128  # characters of a Content-Type header
SAME_SITE = frozenset({"same-origin", "none"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

ObserveRequest = Callable[[web.Request, int, float], None]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?", re.IGNORECASE)


def request_middleware(hosts: Collection[str], gate: Gate, observe: ObserveRequest) -> Middleware:
    """Return the middleware. `hosts`: the names, besides those of loopback, that a Host header may have.

    `observe` is called with each request, the status of its response, and the seconds that it took.
    """
    known = LOOPBACK | {_bracketed(host.lower()) for host in hosts}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id, began = str(uuid4()), perf_counter()
        request[REQUEST_ID] = request_id
        response = await _handle(request, handler, known, gate)
        observe(request, response.status, perf_counter() - began)
        response.headers["x-amzn-RequestId"] = request_id
        return response

    return middleware


async def _handle(request: web.Request, handler: Handler, hosts: Collection[str], gate: Gate) -> web.StreamResponse:
    try:
        _check_request(request, hosts)
        async with gate(request):
            return await handler(request)
    except HttpRefusal as why:
        return error_response(why.status, why.code, str(why))
    except Invalid as why:
        return error_response(HTTPStatus.BAD_REQUEST, "ClientException", str(why))
    except Throttled as why:
        return error_response(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", str(why))
    except web.HTTPException:  # only the router raises them
        what = f"{request.method} {request.path[:200]}"
        return error_response(HTTPStatus.BAD_REQUEST, "ClientException", f"{what} is not an operation of this server.")
    except Unavailable as why:
        log.warning("request %s: %s", request[REQUEST_ID], why)
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "ServerException", str(why))
    except Exception as error:  # noqa: BLE001 - the caller gets an error in AWS's shape, without its cause
        return _internal_error(request, error)


def _internal_error(request: web.Request, error: Exception) -> web.Response:
    """Log an unexpected error with the request id that the response has, too."""
    log.error("request %s: %s %r failed", request[REQUEST_ID], request.method, request.path, exc_info=error)
    message = f"Internal error, RequestId: {request[REQUEST_ID]}"
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "ServerException", message)


def _check_request(request: web.Request, hosts: Collection[str]) -> None:
    _check_host(request.headers.get("Host", ""), hosts)
    _check_site(request)
    _check_encoding(request)
    if request.method in WITH_BODY:
        _check_type(request)


def _check_host(host: str, hosts: Collection[str]) -> None:
    if not host:
        raise HttpRefusal("The Host header is missing.", status=HTTPStatus.BAD_REQUEST)
    name = _HOST.fullmatch(host)
    if name is None or name[1].lower() not in hosts:
        raise _denied("The Host header does not name this server.")


def _check_site(request: web.Request) -> None:
    origins = request.headers.getall("Origin", ())
    if origins and not {f"http://{request.host}", f"https://{request.host}"}.issuperset(origins):
        raise _denied("Requests from other origins are refused.")
    if not SAME_SITE.issuperset(request.headers.getall("Sec-Fetch-Site", ())):
        raise _denied("Requests from other sites are refused.")


def _check_encoding(request: web.Request) -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _unsupported("Content-Encoding is not supported.")


def _check_type(request: web.Request) -> None:
    content_type = request.headers.get("Content-Type", "")
    if content_type in JSON:  # nearly always
        return
    # Python's parser of this header takes quadratic time or worse: 8 KB of quotes blocked the event loop for seconds.
    if len(content_type) > MAX_CONTENT_TYPE or request.content_type not in JSON:
        raise _unsupported("The Content-Type must be application/json.")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        raise HttpRefusal("The charset must be UTF-8.", status=HTTPStatus.BAD_REQUEST)


def _denied(message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def _unsupported(message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, code="UnsupportedMediaTypeException")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
