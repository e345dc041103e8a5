"""HTTP helpers of all dialects: read and parse bodies, format times, send replies and errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import StrEnum
from http import HTTPStatus
from time import perf_counter
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json

from batchq.domain.times import LATEST
from batchq.errors import Invalid

Dialect = Callable[[web.Application], None]
"""Adds the routes of one API to the application. Dialects do not depend on each other."""

REQUEST_ID = web.RequestKey("request_id", str)
#: When the headers of a stream were sent, by `time.perf_counter`. Absent for a response that is sent in one piece.
STREAM_BEGAN_AT = web.RequestKey("stream_began_at", float)
BODY = web.RequestKey("body", bytes)
BODY_LIMIT = 256 * 1024
MAX_BODY = web.RequestKey("max_body", int)
"""The largest body in bytes; absent: BODY_LIMIT. At most BODY_LIMIT."""
MAX_LISTED_ERRORS = 1000  # validation errors; if there are more, the reply has their number only
BODY_SECONDS = 20.0  # less than the connection's deadline for a whole request, so that the client gets a reply
CONNECTION_CHECK = 2.0  # seconds after which a waiting request whose client has disconnected ends, at the latest

_NOT_NUL = r"^[^\x00]*$"  # the pattern of all strings that may contain anything else
Text = Annotated[str, Field(pattern=_NOT_NUL)]
Word = Annotated[Text, Field(min_length=1, max_length=256)]
Words = Annotated[list[Word], Field(min_length=1, max_length=1000)]
Reason = Annotated[Text, Field(min_length=1, max_length=1024)]
Milliseconds = Annotated[int, Field(ge=0, le=LATEST)]
"""A time since 1970."""

Result = TypeVar("Result")
Shape = TypeVar("Shape", bound=BaseModel)

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_ENCODER = msgspec.json.Encoder()


class RequestBody(BaseModel):
    """A JSON body in camelCase. Strict: a string is not converted to a number, and unknown members are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class RequestQuery(BaseModel):
    """The parameters of a query, in camelCase; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class FailureKind(StrEnum):
    """Why a request failed, in terms that each dialect translates to its own codes."""

    #: The request is not valid.
    INVALID = "INVALID"
    #: The body is not JSON.
    MALFORMED = "MALFORMED"
    #: The request has no credential.
    NO_CREDENTIAL = "NO_CREDENTIAL"
    #: The signature or token is not valid.
    BAD_CREDENTIAL = "BAD_CREDENTIAL"
    #: The caller, or the site that sent the request, lacks the permission.
    FORBIDDEN = "FORBIDDEN"
    #: The named resource does not exist, or is not visible to the caller.
    NOT_FOUND = "NOT_FOUND"
    #: The path is not one of an operation.
    UNKNOWN_PATH = "UNKNOWN_PATH"
    #: The path has no operation with this method.
    UNKNOWN_METHOD = "UNKNOWN_METHOD"
    #: The body did not arrive in time.
    BODY_TIMEOUT = "BODY_TIMEOUT"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    #: The body has another content type than JSON, or is compressed.
    UNSUPPORTED_MEDIA = "UNSUPPORTED_MEDIA"
    #: A rate or concurrency limit is exceeded.
    THROTTLED = "THROTTLED"
    #: The server cannot do this at present.
    UNAVAILABLE = "UNAVAILABLE"
    #: An unexpected error.
    INTERNAL = "INTERNAL"


_KINDS: Mapping[HTTPStatus, FailureKind] = {
    HTTPStatus.FORBIDDEN: FailureKind.FORBIDDEN,
    HTTPStatus.NOT_FOUND: FailureKind.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT: FailureKind.BODY_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: FailureKind.BODY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: FailureKind.UNSUPPORTED_MEDIA,
    HTTPStatus.TOO_MANY_REQUESTS: FailureKind.THROTTLED,
    HTTPStatus.INTERNAL_SERVER_ERROR: FailureKind.INTERNAL,
    HTTPStatus.SERVICE_UNAVAILABLE: FailureKind.UNAVAILABLE,
}


class HttpRefusal(Invalid):
    """The request is refused with an HTTP status of its own."""

    def __init__(
        self, message: str, *, status: HTTPStatus, code: str = "ClientException", kind: FailureKind | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        #: AWS's name of the error.
        self.code = code
        self.kind = kind or _KINDS.get(status, FailureKind.INVALID)


class InvalidMember(Invalid):
    """A member of a body or a parameter of a query is not valid."""

    def __init__(self, message: str, *, member: str, malformed: bool = False) -> None:
        """`member`: its path, as `tags.0`; empty if the request as a whole is not valid."""
        super().__init__(message)
        self.member = member
        #: Whether the body is not JSON at all.
        self.malformed = malformed


async def read_body(request: web.Request) -> bytes:
    """Return the whole body; it may be called again. Raises HttpRefusal if it is too large, too slow or incomplete."""
    body = request.get(BODY)
    if body is None:
        body = request[BODY] = await _read(request)
    return body


async def send_stream(request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes]) -> None:
    """Send a response part by part. To HEAD only its headers are sent, and `parts` is not read.

    After the headers of a response to HEAD a client expects the next response (RFC 9112, section 6.3): it would take
    the parts for that. aiohttp leaves out the body of a `Response` only.

    Raises ConnectionError when the client disconnected.
    """
    await response.prepare(request)
    request[STREAM_BEGAN_AT] = perf_counter()
    if request.method != "HEAD":
        async for part in parts:
            await response.write(part)
    await response.write_eof()


async def while_connected(request: web.Request, waiting: Awaitable[Result]) -> Result:
    """Await `waiting`. It is cancelled within CONNECTION_CHECK after the client has disconnected.

    Raises HttpRefusal then, which no client receives.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        if request.transport is None:
            wait.reschedule(loop.time())
        else:
            timer = loop.call_later(CONNECTION_CHECK, check)

    timer = loop.call_later(CONNECTION_CHECK, check)
    wait = asyncio.timeout(None)
    try:
        async with wait:
            return await waiting
    except TimeoutError:
        if not wait.expired():
            raise
        raise HttpRefusal("The client disconnected.", status=HTTPStatus.REQUEST_TIMEOUT) from None
    finally:
        timer.cancel()


def parse(shape: type[Shape], body: bytes) -> Shape:
    """Parse a body as strict UTF-8, JSON and `shape`. Raises InvalidMember for the first invalid member."""
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        raise _first_error(error) from None


def validate_values(shape: type[Shape], content: Mapping[str, object]) -> Shape:
    """Validate values that were not sent as a body. Raises InvalidMember, as `parse` does."""
    try:
        return shape.model_validate(content)
    except ValidationError as error:
        raise _first_error(error) from None


def query_of(request: web.Request) -> dict[str, str]:
    """The parameters of the query. Raises InvalidMember for a repeated parameter."""
    for name in request.query:
        if len(request.query.getall(name)) > 1:
            text = f"{name[:100]!r} is given more than once; separate several values by commas."
            raise InvalidMember(text, member=name[:100])
    return dict(request.query)


def reply(content: Mapping[str, object] | Struct, *, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """A JSON response. A Struct is the shape of the answer, as /openapi.json describes it."""
    body = struct_to_json(content) if isinstance(content, Struct) else _to_json(content)
    return web.Response(body=body, status=status, content_type="application/json")


def struct_to_json(content: Struct) -> bytes:
    """The JSON of the shape of an answer."""
    try:
        return _ENCODER.encode(content)
    except UnicodeEncodeError:  # a lone surrogate, as in `_to_json`
        return _encode(msgspec.to_builtins(content)).encode()


def error_response(status: HTTPStatus, code: str, message: str) -> web.Response:
    """An error response that the clients of both of AWS's JSON protocols understand."""
    response = reply({"__type": code, "message": message}, status=status)
    response.headers["x-amzn-ErrorType"] = code
    return response


def _to_json(content: Mapping[str, object]) -> bytes:
    try:
        return to_json(content, ensure_ascii=True)
    except PydanticSerializationError:  # a lone surrogate, as in names of files: only Python's encoder writes it
        return _encode(content).encode()


async def _read(request: web.Request) -> bytes:
    limit = request.get(MAX_BODY, BODY_LIMIT)
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    try:
        if request.content.is_eof():  # nearly always: the body is complete, and needs no timer
            body = request.content.read_nowait()
        else:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limit) from None
    except TimeoutError:
        raise HttpRefusal("The request body did not arrive in time.", status=HTTPStatus.REQUEST_TIMEOUT) from None
    except (web.RequestPayloadError, ConnectionError):
        raise HttpRefusal("The request body is incomplete.", status=HTTPStatus.BAD_REQUEST) from None
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> HttpRefusal:
    message, status = f"The request body is larger than {limit} bytes.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return HttpRefusal(message, status=status, code="RequestEntityTooLargeException")


def _first_error(error: ValidationError) -> InvalidMember:
    if error.error_count() > MAX_LISTED_ERRORS:  # `errors` creates all: a quarter of a second for the largest body
        return InvalidMember(f"The request is not valid: it has {error.error_count()} errors", member="")
    wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in wrong["loc"])[:200]
    malformed = wrong["type"] == "json_invalid"
    return InvalidMember(_text_of(wrong["type"], where, wrong["msg"]), member=where, malformed=malformed)


def _text_of(kind: str, where: str, message: str) -> str:
    match kind:
        case "json_invalid":
            return f"The request body is not JSON: {message.removeprefix('Invalid JSON: ')}"
        case "missing":
            return f"'{where}' is a required field"
        case "extra_forbidden":
            return f"'{where}' is not supported by this server"
        case "string_pattern_mismatch" if _NOT_NUL in message:
            return f"'{where}' must not contain a NUL character"
        case _:
            return f"'{where}' is not valid: {message}" if where else f"The request is not valid: {message}"
