"""One operation of the API: who may call it, the shapes of its request and answer, and its handler."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from http import HTTPStatus
from inspect import getdoc, signature
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from batchq.api.http.http import parse
from batchq.api.operations.parts import Parts
from batchq.api.operations.schemas import AwsResponse
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.ids import JobId

JOB = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}"
"""The path of a job in batchq's own API: its id, or that of a child of an array or of a node."""

Answer = Mapping[str, object]
"""The answer of an operation of AWS."""

Input = TypeVar("Input", bound=BaseModel | None)


class Public(StrEnum):
    """The requests that an operation without a permission admits."""

    #: All requests.
    ANYONE = "anyone"
    #: Requests with the bearer token of --metrics-token-file.
    METRICS_TOKEN = "metricsToken"  # noqa: S105 - the name of a scheme


class CallLimit(Struct, frozen=True, kw_only=True):
    """How many requests of one user are carried out. Operations of a table with the same limit share it."""

    #: At the same time.
    at_once: int
    #: Requests that wait; more are refused with 429.
    waiting: int = 0


BULK_LIMIT = CallLimit(at_once=2, waiting=14)
"""For operations that read or stop many jobs."""


class Call(Struct, Generic[Input], frozen=True, kw_only=True):
    """One request whose caller has the permission of the operation."""

    caller: Caller
    #: The query of a GET, and the body or form of others; None if the operation has none.
    input: Input
    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    http: web.Request

    @property
    def job_id(self) -> JobId:
        """The id in the path of a job."""
        return JobId(self.path["job"])


class Operation(Struct, frozen=True, kw_only=True):
    """An operation. A test requires `summary` and `answer` of every operation that is neither a page nor refused."""

    #: As `SubmitJob`; of a page: its method and path. Audit records and refusals name the operation so.
    name: str
    method: str
    #: In aiohttp's notation.
    path: str
    #: The X-Amz-Target header, if it distinguishes operations of one route; else empty.
    target: str = ""
    #: The permission that a caller needs.
    access: Permission | Public
    #: Called with the parts of the server and the call; of a public operation with the HTTP request.
    handle: Callable[[Parts, Any], Awaitable[Any]]
    limit: CallLimit | None = None
    #: What the operation does: one sentence.
    summary: str = ""
    #: What else a caller must know, as Markdown; empty if nothing.
    description: str = ""
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: Whether the body may be omitted.
    optional_body: bool = False
    #: Called with the body before it is parsed; may raise Invalid.
    check_body: Callable[[bytes], None] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The shape of a successful response, or of one line of NDJSON: a Struct of batchq that the handler passes to
    #: `reply`, alternatives of them, or an answer of AWS. None for plain text.
    answer: type[Struct] | tuple[type[Struct], ...] | AwsResponse | None = None
    #: The status of a successful response. With 204 it has no body, and `answer` is None.
    status: HTTPStatus = HTTPStatus.OK
    #: The statuses of other successful responses, which have no body.
    empty_statuses: tuple[HTTPStatus, ...] = ()
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""
    #: The media type of the request body.
    media: str = "application/json"
    #: The media type of a successful response; None: as `media`.
    response_media: str | None = None

    def parse(self, body: bytes) -> BaseModel | None:
        """The parsed body. Raises Invalid for a body of another shape."""
        if self.check_body is not None:
            self.check_body(body)
        return None if self.body is None else parse(self.body, body or b"{}" if self.optional_body else body)


OPERATIONS: web.AppKey[dict[web.AbstractRoute, list[Operation]]] = web.AppKey("operations")
"""The operations of an application, by route."""


ADDITIONS: web.AppKey[dict[tuple[str, str], type[Struct]]] = web.AppKey("additions")
"""The `batchq` members that AWS's shapes have in answers of an application, as `Additions` names the shapes."""


def operations_by_place(app: web.Application) -> dict[tuple[str, str], tuple[Operation, ...]]:
    """All operations by method and path."""
    found: dict[tuple[str, str], tuple[Operation, ...]] = {}
    for route, operations in app[OPERATIONS].items():
        assert route.resource is not None
        found[route.method, route.resource.canonical] = tuple(operations)
    return found


def documented(
    handle: Callable[..., Awaitable[object]],
    /,
    **members: Any,  # noqa: ANN401 - those of Operation
) -> Operation:
    """The operation of a handler. The first paragraph of its docstring is the summary, the rest the description."""
    summary, *description = (" ".join(part.split()) for part in (getdoc(handle) or "").split("\n\n"))
    return Operation(**{"handle": handle, "summary": summary, "description": "\n\n".join(description), **members})


def input_shape(handle: Callable[..., object]) -> type[BaseModel] | None:
    """The shape of the query or the body, from the annotation of the handler's second argument, a Call."""
    _, call, *_ = signature(handle).parameters
    (given,) = get_args(get_type_hints(handle)[call])
    return None if given is NoneType else given


def shapes(method: str, handle: Callable[..., object]) -> dict[str, Any]:
    """The members of an operation that follow from the annotations of a handler of a Call."""
    shape, returned = input_shape(handle), get_type_hints(handle)["return"]
    answers = get_args(returned) if isinstance(returned, UnionType) else (returned,)
    structs = tuple(answer for answer in answers if issubclass(answer, Struct))
    return {
        "body": None if method == "GET" else shape,
        "query": shape if method == "GET" else None,
        "answer": structs[0] if structs else None,
        "status": HTTPStatus.NO_CONTENT if answers == (NoneType,) else HTTPStatus.OK,
        "empty_statuses": (HTTPStatus.NO_CONTENT,) if structs and NoneType in answers else (),
    }


def aws_operation(
    service: str,
    name: str,
    access: Permission,
    handle: Callable[..., Awaitable[Answer | None]],
    /,
    **members: Any,  # noqa: ANN401 - those of Operation
) -> Operation:
    """An operation whose handler gets the parsed body, if it has one, as the third argument `body`.

    AWS: an operation that returns nothing is answered with an empty object. If the path names the operation, an empty
    body counts as an empty object: old clients send it for a request without members.

    `service`: its name in `aws_models`. The second argument is the Call, or the request that the dialect's table makes.
    """
    shape = get_type_hints(handle).get("body")

    async def carry_out(parts: object, request: Any) -> Answer:  # noqa: ANN401 - as the handler's
        bodies = () if shape is None else (request.input,)
        return await handle(parts, request, *bodies) or {}

    own = {"name": name, "access": access, "handle": carry_out, "body": shape, "answer": AwsResponse(service, name)}
    if shape is not None and "target" not in members:
        own["optional_body"] = not any(field.is_required() for field in shape.model_fields.values())
    return documented(handle, **{**own, "description": "", **members})
