"""/openapi.json: the OpenAPI description, generated from the routes and the shapes of their requests. Decision 0019.

All operations of CloudWatch Logs are `POST /`. Here each has a path of its own, with a fragment that is never sent.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import cast

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from batchq import __version__
from batchq.api.http import reply
from batchq.api.middleware import JSON, WITH_BODY
from batchq.api.schemas import (
    Additions,
    AwsAnswer,
    AwsRefs,
    Json,
    PlainSchema,
    Refs,
    answer_schemas,
    aws_schemas,
    request_schemas,
)
from batchq.domain.access.accounts import Permission

PATH = "/openapi.json"
MEDIA = "application/json"
TARGET = "X-Amz-Target"
TEXT = "text/plain"

ERRORS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The request is not valid, or names something that does not exist for the caller.",
    HTTPStatus.FORBIDDEN: "The signature is not valid, or the caller lacks the required permission.",
    HTTPStatus.NOT_FOUND: "What the path names does not exist, or is not visible to the caller.",
    HTTPStatus.REQUEST_TIMEOUT: "The body of the request did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body of the request is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The Content-Type is not JSON, or the body is compressed.",
    HTTPStatus.TOO_MANY_REQUESTS: "A limit of the caller is reached. Repeat the request later.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The server failed. Its log has the cause, with the request id.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The server cannot do this at present. Repeat the request later.",
}
"""The error responses of all operations, with their texts."""


class Security(StrEnum):
    """How the caller of an operation is authenticated."""

    #: By AWS Signature Version 4, or by the peer credentials of a unix socket.
    SIGNATURE = "signature"
    #: By the bearer token of --metrics-token-file.
    METRICS_TOKEN = "metricsToken"  # noqa: S105 - the name of a scheme
    #: Not at all.
    NONE = "none"


SCHEMES: Json = {
    Security.SIGNATURE.value: {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "x-amazon-apigateway-authtype": "awsSigv4",
        "description": (
            "AWS Signature Version 4 with an access key of `batchq key`. Not required by a server with --auth none, "
            "or on its unix socket, where the caller is the user of the connected process."
        ),
    },
    Security.METRICS_TOKEN.value: {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of --metrics-token-file. Not required by a server with --auth none.",
    },
}

PERMITTED: Mapping[Permission, str] = {
    Permission.SELF: "All users may call it, for what they may see.",
    Permission.CATALOG: "Operators and admins may call it.",
    Permission.ACCOUNTS: "Coordinators, operators and admins may call it.",
    Permission.MAINTENANCE: "Admins may call it.",
}

_STRING: Json = {"type": "string"}
_OBJECT: Json = {"type": "object"}
_ERROR: Json = {"type": "object", "required": ["message"], "properties": {"message": _STRING, "__type": _STRING}}


class OperationDoc(Struct, frozen=True, kw_only=True):
    """The description of one operation, in addition to its route's method and path.

    A test requires `summary` and `answer` of every operation that is not refused.
    """

    #: As `SubmitJob`.
    name: str
    #: What the operation does: one sentence.
    summary: str = ""
    #: What else a caller must know, as Markdown; empty if nothing.
    description: str = ""
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The shape of a successful response, or of one line of NDJSON: a Struct of batchq that the handler passes to
    #: `reply`, alternatives of them, or an answer of AWS. None for plain text.
    answer: type[Struct] | tuple[type[Struct], ...] | AwsAnswer | None = None
    #: The status of a successful response. With 204 it has no body, and `answer` is None.
    status: HTTPStatus = HTTPStatus.OK
    #: The permission that the handler requires of the caller; None if it does not depend on the caller.
    permission: Permission | None = Permission.SELF
    security: Security = Security.SIGNATURE
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""
    #: The X-Amz-Target header, if it distinguishes operations of one route; else empty.
    target: str = ""
    #: The media type of the request body.
    media: str = MEDIA
    #: The media type of a successful response; None: as `media`.
    response_media: str | None = None


class Description(Struct, frozen=True, kw_only=True):
    """An OpenAPI document."""

    openapi: str
    info: Json
    #: The operations, by path and by method.
    paths: dict[str, Json]
    components: Json


class _Refs(Struct, frozen=True, kw_only=True):
    """References to the schemas of requests and answers."""

    requests: Refs
    structs: Refs
    aws: AwsRefs


_DOCS: web.AppKey[dict[web.AbstractRoute, list[OperationDoc]]] = web.AppKey("operation_docs")
_ADDITIONS: web.AppKey[list[Additions]] = web.AppKey("additions")


def mount(app: web.Application, *, signed: bool) -> None:
    """Add the route of /openapi.json. Must be called before the dialects, which call `document`.

    `signed`: whether the server requires signatures, and a token for its metrics. If not, no operation has security.
    The description is generated for the first request, when all routes exist, and in a thread, since it takes long.
    """
    app[_DOCS] = {}
    app[_ADDITIONS] = []
    generated: list[Description] = []
    lock = asyncio.Lock()

    async def openapi(_: web.Request) -> web.Response:
        async with lock:
            if not generated:
                generated.append(await asyncio.to_thread(describe, app, signed=signed))
        return reply(generated[0])

    doc = OperationDoc(
        name="DescribeApi", summary="Returns this description of the API.", answer=Description, permission=None
    )
    document(app, app.router.add_get(PATH, openapi), doc)


def document(app: web.Application, route: web.AbstractRoute, doc: OperationDoc) -> None:
    """Describe an operation of `route`; a route may have several."""
    app[_DOCS].setdefault(route, []).append(doc)


def document_additions(app: web.Application, additions: Additions) -> None:
    """Describe the `batchq` members that AWS's shapes have in answers."""
    app[_ADDITIONS].append(additions)


def operations(app: web.Application) -> dict[tuple[str, str], tuple[OperationDoc, ...]]:
    """All operations by method and path. A route without an OperationDoc is named after its handler."""
    found: dict[tuple[str, str], tuple[OperationDoc, ...]] = {}
    for route in app.router.routes():
        assert route.resource is not None
        documents = app[_DOCS].get(route) or [OperationDoc(name=route.handler.__name__)]
        key = route.method, route.resource.canonical
        found[key] = (*found.get(key, ()), *documents)
    return found


def describe(app: web.Application, *, signed: bool) -> Description:
    """Return the OpenAPI document. A route without an OperationDoc is described by its path and method.

    `signed`: see `mount`.
    """
    refs, schemas = _schemas(
        [it for docs in app[_DOCS].values() for it in docs],
        additions={k: it for each in app[_ADDITIONS] for k, it in each.items()},
    )
    paths: dict[str, Json] = {}
    for route in app.router.routes():
        if route.method != "HEAD":  # aiohttp adds it to each GET
            for path, operation in _operations(route, app[_DOCS].get(route, []), refs):
                if not signed:
                    operation["security"] = []
                paths.setdefault(path, {})[route.method.lower()] = operation
    responses: Json = {status.name: _error(text) for status, text in ERRORS.items()}
    return Description(
        openapi="3.1.0",
        info={"title": "batchq", "version": __version__},
        paths=paths,
        components={"schemas": schemas, "responses": responses, "securitySchemes": SCHEMES},
    )


def _schemas(docs: Sequence[OperationDoc], *, additions: Additions) -> tuple[_Refs, Json]:
    """References to the schemas of requests and answers, and the schemas by name."""
    requests, schemas = request_schemas(it.body for it in docs if it.body is not None)
    structs = [shape for it in docs for shape in _structs(it)]
    answers, own = answer_schemas([*structs, *additions.values()])
    aws, theirs = aws_schemas((it.answer for it in docs if isinstance(it.answer, AwsAnswer)), additions, answers)
    both = schemas.keys() & own.keys()  # enumerations of requests and answers have the same schema
    assert all("enum" in cast("Json", own[it]) for it in both), f"a request and an answer have one name: {both}"
    refs = _Refs(requests=requests, structs=answers, aws=aws)
    return refs, {**schemas, **own, **theirs}


def _structs(it: OperationDoc) -> Sequence[type[Struct]]:
    """The Structs of an answer; none for an answer of AWS, and for text."""
    if it.answer is None or isinstance(it.answer, AwsAnswer):
        return ()
    return it.answer if isinstance(it.answer, tuple) else (it.answer,)


def _operations(route: web.AbstractRoute, docs: Sequence[OperationDoc], refs: _Refs) -> Iterator[tuple[str, Json]]:
    """The operations of a route, each with its path."""
    assert route.resource is not None
    path = route.resource.canonical
    if not docs:
        yield path, _undocumented(route, path)
    for it in docs:
        yield f"{path}#{TARGET}={it.target}" if it.target else path, _documented(it, path, refs)


def _undocumented(route: web.AbstractRoute, path: str) -> Json:
    body = {"requestBody": _content(_OBJECT)} if route.method in WITH_BODY else {}
    return {"operationId": route.handler.__name__, "parameters": _in_path(path), **body, "responses": _errors()}


def _documented(it: OperationDoc, path: str, refs: _Refs) -> Json:
    target = [_parameter(TARGET, "header", {"const": it.target})] if it.target else []
    answer = {str(it.status.value): _success(it, refs)} if not it.refused else {}
    return {
        "operationId": it.name,
        **({"summary": it.summary} if it.summary else {}),
        "description": _text(it),
        **({} if it.permission is None else {"x-batchq-permission": it.permission.name}),
        "security": [] if it.security is Security.NONE else [{it.security.value: []}],
        "parameters": [*_in_path(path), *target, *(_in_query(it.query) if it.query else ())],
        **({"requestBody": {"required": True} | _content(refs.requests[it.body], it.media)} if it.body else {}),
        "responses": {**answer, **_errors()},
    }


def _text(it: OperationDoc) -> str:
    permitted = "" if it.permission is None else PERMITTED[it.permission]
    return it.refused or "\n\n".join(filter(None, (it.description, permitted)))


def _success(it: OperationDoc, refs: _Refs) -> Json:
    media = it.response_media or it.media
    content = {} if it.status is HTTPStatus.NO_CONTENT else _content(_answer(it, refs, media), media)
    return {"description": it.status.phrase, **content}


def _answer(it: OperationDoc, refs: _Refs, media: str) -> Json:
    match it.answer:
        case None:
            return _STRING if media == TEXT else _OBJECT
        case AwsAnswer() as answer:
            return refs.aws[answer]
        case tuple() as several:
            return {"anyOf": [refs.structs[each] for each in several]}
        case struct:
            return refs.structs[struct]


def _in_path(path: str) -> list[Json]:
    return [_parameter(name, "path", _STRING) for name in re.findall(r"{(\w+)}", path)]


def _in_query(shape: type[BaseModel]) -> Iterator[Json]:
    described = shape.model_json_schema(schema_generator=PlainSchema)
    for name, schema in described["properties"].items():
        yield _parameter(name, "query", schema, required=name in described.get("required", ()))


def _parameter(name: str, where: str, schema: Json, *, required: bool = True) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema}


def _errors() -> Json:
    return {str(it.value): {"$ref": f"#/components/responses/{it.name}"} for it in ERRORS}


def _error(text: str) -> Json:
    headers = {name: {"required": True, "schema": _STRING} for name in ("x-amzn-ErrorType", "x-amzn-RequestId")}
    content = {media: {"schema": _ERROR} for media in sorted(JSON)}
    return {"description": text, "headers": headers, "content": content}


def _content(schema: Json, media: str = MEDIA) -> Json:
    return {"content": {media: {"schema": schema}}}
