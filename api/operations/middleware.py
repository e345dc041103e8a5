"""Middleware: checks the Host, Origin and Content-Type headers of each request, and converts errors to responses.

Errors have the shape of the path's dialect, those of authentication and of unknown paths included.

Any web page can make a browser send requests to 127.0.0.1. So the Host header must have a name of this server (DNS
rebinding uses another), requests from other origins are refused, and the Content-Type of a body must be JSON, which an
HTML form cannot send. It may be absent from a request with a signature of AWS. The web console differs in two points,
which its profile declares: a link of another site may open a page, since that changes nothing and the other site cannot
read it; and forms are accepted if their Origin is this server.
"""

import logging
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from batchq.accounts.signatures import ALGORITHM
from batchq.api.auth.authentication import CALLER, GATE, Gate, access_denied
from batchq.api.http.client_connection import LOOPBACK, host_name
from batchq.api.http.dialect_profiles import PROFILE, TARGET, DialectProfile, DialectProfiles, RequestFailure
from batchq.api.http.http import MAX_BODY, REQUEST_ID, STREAM_BEGAN_AT, FailureKind, HttpRefusal, InvalidMember
from batchq.errors import Forbidden, Invalid, NotFound, Throttled, Unavailable
from batchq.system.turns import UNSIGNED, working_for

log = logging.getLogger(__name__)

JSON = frozenset({"application/json", "application/x-amz-json-1.1"})
FORM = frozenset({"application/x-www-form-urlencoded"})
MAX_CONTENT_TYPE = 128  # characters of a Content-Type header
SAME_SITE = frozenset({"same-origin", "none"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
READING = frozenset({"GET", "HEAD"})
LARGE = 64 * 1024  # bytes of a response that a connection may hold back; asyncio's limit of its write buffer

ObserveRequest = Callable[[web.Request, int, float], None]

_WEIGHT = re.compile(r"[01](?:\.[0-9]{0,3})?")


def request_middleware(
    hosts: Collection[str], gate: Gate, observe: ObserveRequest, *, profiles: DialectProfiles
) -> Middleware:
    """Return the middleware. `hosts`: the names, besides those of loopback, that a Host header may have.

    `observe` is called with each request, the status of its response, and the seconds until its headers.
    The profiles of the dialects may be registered later.
    """
    known = LOOPBACK | {_bracketed(host.lower()) for host in hosts}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id, began = str(uuid4()), perf_counter()
        request[REQUEST_ID], request[GATE] = request_id, gate
        request[PROFILE] = profile = profiles.find(request.path, request.headers.get(TARGET, ""))
        request[MAX_BODY] = profile.max_body
        try:
            _check_request(request, known)
            if profile.home and request.path == "/" and _prefers_html(request):
                response: web.StreamResponse = _redirect(profile.home)
            else:
                async with gate(request):
                    with working_for(_user_of(request)):
                        response = await handler(request)
                    _complete_headers(response, profile, request_id)
                    await _send_large(request, response)
        except Exception as error:  # noqa: BLE001 - the caller gets an error in its dialect's shape, without its cause
            response = profile.error_response(_failure(request, error))
        observe(request, response.status, request.get(STREAM_BEGAN_AT, perf_counter()) - began)
        _complete_headers(response, profile, request_id)
        return response

    return middleware


def _complete_headers(response: web.StreamResponse, profile: DialectProfile, request_id: str) -> None:
    """Add the id of the request. Answers are of one user: no cache between stores them, unless their header permits it.

    A cache knows that of requests with an Authorization header (RFC 9111, section 3.5), not of those with X-Auth-Token.
    """
    response.headers[profile.request_id_header] = request_id
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")


def _user_of(request: web.Request) -> str:
    """The user whose turns the request takes. Requests without a signature share the turns of one user."""
    caller = request.get(CALLER)
    return UNSIGNED if caller is None else caller.user


async def _send_large(request: web.Request, response: web.StreamResponse) -> None:
    """Send a large response while its request counts: until the client has read it, it occupies memory.

    aiohttp sends the others after the gate. The buffer of their connection takes them as a whole.
    """
    body = response.body if isinstance(response, web.Response) else None
    if isinstance(body, bytes | bytearray) and len(body) > LARGE:
        request[STREAM_BEGAN_AT] = perf_counter()
        with suppress(ConnectionError):  # the client disconnected
            await response.prepare(request)
            await response.write_eof()


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
    profile = request[PROFILE]
    if not _is_navigation(request, profile):
        _check_site(request)
    if profile.has_pages and request.method not in READING:
        _check_form_site(request)
    _check_encoding(request)
    needs_type = request.method in WITH_BODY and not (profile.bodyless_post and _has_no_body(request))
    if needs_type and not _may_omit_type(request):
        _check_type(request, FORM if profile.has_pages else JSON)


def _check_host(host: str, hosts: Collection[str]) -> None:
    if not host:
        raise HttpRefusal("The Host header is missing.", status=HTTPStatus.BAD_REQUEST)
    if host_name(host) not in hosts:
        raise access_denied("The Host header does not name this server.")


def _check_site(request: web.Request) -> None:
    origins = request.headers.getall("Origin", ())
    if origins and not {f"http://{request.host}", f"https://{request.host}"}.issuperset(origins):
        raise access_denied("Requests from other origins are refused.")
    if not SAME_SITE.issuperset(request.headers.getall("Sec-Fetch-Site", ())):
        raise access_denied("Requests from other sites are refused.")


def _is_navigation(request: web.Request, profile: DialectProfile) -> bool:
    """Whether a browser loads a page as a document of its own, not in a frame, so that no other site sees it."""
    return (
        request.method == "GET"
        and request.headers.getall("Sec-Fetch-Mode", ()) == ["navigate"]
        and request.headers.getall("Sec-Fetch-Dest", ()) == ["document"]
        and "Origin" not in request.headers
        and profile.is_page(request.path)
    )


def _check_form_site(request: web.Request) -> None:
    """Raise HttpRefusal unless a page of this server sent the form. Browsers send Origin with every form."""
    schemes = ("https",) if request.secure else ("https", "http")  # a proxy may have ended TLS
    origins = request.headers.getall("Origin", ())
    is_ours = len(origins) == 1 and origins[0] in {f"{scheme}://{request.host}" for scheme in schemes}
    if not is_ours or not {"same-origin"}.issuperset(request.headers.getall("Sec-Fetch-Site", ())):
        raise access_denied("A form must come from a page of this server.")


def _prefers_html(request: web.Request) -> bool:
    """Whether the Accept header of a GET asks for HTML rather than JSON, as those of browsers do."""
    weights = {"text/html": 0.0, "application/json": 0.0}
    for media_range in request.headers.get("Accept", "").split(","):
        media, *parameters = (part.strip().lower() for part in media_range.split(";"))
        weight = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
        if media in weights and _WEIGHT.fullmatch(weight):
            weights[media] = float(weight)
    return request.method in READING and weights["text/html"] > weights["application/json"]


def _redirect(location: str) -> web.Response:
    headers = {"Location": location, "Cache-Control": "no-store", "Vary": "Accept"}
    return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)


def _check_encoding(request: web.Request) -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _unsupported("Content-Encoding is not supported.")


def _has_no_body(request: web.Request) -> bool:
    """Whether the request has neither a body nor a Content-Type. A form of a web page always has the latter."""
    return not request.can_read_body and "Content-Type" not in request.headers


def _may_omit_type(request: web.Request) -> bool:
    """Whether the request has an AWS signature and no Content-Type.

    AWS accepts such requests: boto3 1.17 and the AWS CLI 1.19 send no Content-Type. A web page cannot send an
    Authorization header of this form to another site: the browser first sends a preflight request, and this server
    permits nothing. Decision 0123.
    """
    authorization = request.headers.get("Authorization", "")
    return "Content-Type" not in request.headers and authorization.startswith(f"{ALGORITHM} ")


def _check_type(request: web.Request, accepted: Collection[str]) -> None:
    content_type = request.headers.get("Content-Type", "")
    if content_type in accepted:  # nearly always
        return
    # Python's parser of this header takes quadratic time or worse: 8 KB of quotes blocked the event loop for seconds.
    if len(content_type) > MAX_CONTENT_TYPE or request.content_type not in accepted:
        raise _unsupported(f"The Content-Type must be {min(accepted)}.")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        raise HttpRefusal("The charset must be UTF-8.", status=HTTPStatus.BAD_REQUEST)


def _unsupported(message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, code="UnsupportedMediaTypeException")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
