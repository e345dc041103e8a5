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
from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import PROFILES, TARGET, DialectProfile, DialectProfiles
from batchq.api.http.http import reply
from batchq.api.operations.middleware import JSON
from batchq.api.operations.schemas import (
    Additions,
    AwsRefs,
    AwsResponse,
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

    #: By a credential that the dialect accepts, or by the peer credentials of a unix socket.
    CREDENTIAL = "credential"
    #: By the bearer token of --metrics-token-file.
    METRICS_TOKEN = "metricsToken"  # noqa: S105 - the name of a scheme
    #: Not at all.
    NONE = "none"


_LOCAL = "Not required by a server with --auth none, or on its unix socket, where the caller is the connected user."

SCHEMES: Json = {
    Scheme.SIGV4.value: {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "x-amazon-apigateway-authtype": "awsSigv4",
        "description": f"AWS Signature Version 4 with an access key of `batchq key`. {_LOCAL}",
    },
    Scheme.SDK_HMAC.value: {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": f"SDK-HMAC-SHA256 of Huawei Cloud's SDKs with an access key of `batchq key`. {_LOCAL}",
    },
    Scheme.BEARER.value: {
        "type": "http",
        "scheme": "bearer",
        "description": f"`KEYID.SECRET` of an access key; over TLS or from the server's machine only. {_LOCAL}",
    },
    Scheme.AUTH_TOKEN.value: {
        "type": "apiKey",
        "in": "header",
        "name": "X-Auth-Token",
        "description": f"`KEYID.SECRET` of an access key; over TLS or from the server's machine only. {_LOCAL}",
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
    #: Whether the body may be omitted.
    optional_body: bool = False
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The shape of a successful response, or of one line of NDJSON: a Struct of batchq that the handler passes to
    #: `reply`, alternatives of them, or an answer of AWS. None for plain text.
    answer: type[Struct] | tuple[type[Struct], ...] | AwsResponse | None = None
    #: The status of a successful response. With 204 it has no body, and `answer` is None.
    status: HTTPStatus = HTTPStatus.OK
    #: The statuses of other successful responses, which have no body.
    empty_statuses: tuple[HTTPStatus, ...] = ()
    #: The permission that the handler requires of the caller; None if it does not depend on the caller.
    permission: Permission | None = Permission.SELF
    security: Security = Security.CREDENTIAL
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


def mount_openapi(app: web.Application, *, signed: bool) -> None:
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
                generated.append(await asyncio.to_thread(openapi_document, app, signed=signed))
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


def _is_page(route: web.AbstractRoute, profiles: DialectProfiles) -> bool:
    assert route.resource is not None
    return profiles.find(route.resource.canonical, "").has_pages


def openapi_document(app: web.Application, *, signed: bool) -> Description:
    """Return the OpenAPI document. `signed`: as for `mount_openapi`."""
    refs, schemas = _schemas(
        [doc for docs in app[_DOCS].values() for doc in docs],
        additions={k: value for each in app[_ADDITIONS] for k, value in each.items()},
        errors=[profile.error_body for profile in app[PROFILES] if profile.error_body is not None],
    )
    paths: dict[str, Json] = {}
    for route in app.router.routes():
        if route.method != "HEAD" and not _is_page(route, app[PROFILES]):  # aiohttp adds HEAD to each GET
            for path, operation in _operations(route, app[_DOCS].get(route, []), refs, app[PROFILES]):
                if not signed:
                    operation["security"] = []
                paths.setdefault(path, {})[route.method.lower()] = operation
    responses: Json = {}
    for profile in app[PROFILES]:
        body = refs.structs[profile.error_body] if profile.error_body else _ERROR
        texts = {**ERRORS, **profile.more_errors}
        responses |= {_name(profile, status): _error(text, profile, body) for status, text in texts.items()}
    return Description(
        openapi="3.1.0",
        info={"title": "batchq", "version": __version__},
        paths=paths,
        components={"schemas": schemas, "responses": responses, "securitySchemes": SCHEMES},
    )


def _schemas(
    docs: Sequence[OperationDoc], *, additions: Additions, errors: Sequence[type[Struct]]
) -> tuple[_Refs, Json]:
    """References to the schemas of requests, answers and bodies of errors, and the schemas by name."""
    requests, schemas = request_schemas(doc.body for doc in docs if doc.body is not None)
    structs = [shape for doc in docs for shape in _structs(doc)]
    answers, own = answer_schemas([*structs, *additions.values(), *errors])
    aws, of_aws = aws_schemas((doc.answer for doc in docs if isinstance(doc.answer, AwsResponse)), additions, answers)
    both = schemas.keys() & own.keys()  # enumerations of requests and answers have the same schema
    assert all("enum" in cast("Json", own[text]) for text in both), f"a request and an answer have one name: {both}"
    refs = _Refs(requests=requests, structs=answers, aws=aws)
    return refs, {**schemas, **own, **of_aws}


def _structs(doc: OperationDoc) -> Sequence[type[Struct]]:
    """The Structs of an answer; none for an answer of AWS, and for text."""
    if doc.answer is None or isinstance(doc.answer, AwsResponse):
        return ()
    return doc.answer if isinstance(doc.answer, tuple) else (doc.answer,)


def _operations(
    route: web.AbstractRoute, docs: Sequence[OperationDoc], refs: _Refs, profiles: DialectProfiles
) -> Iterator[tuple[str, Json]]:
    """The operations of a route, each with its path."""
    assert route.resource is not None
    path = route.resource.canonical
    for doc in docs:
        profile = profiles.find(path, doc.target)
        yield f"{path}#{TARGET}={doc.target}" if doc.target else path, _documented(doc, path, refs, profile)


def _documented(doc: OperationDoc, path: str, refs: _Refs, profile: DialectProfile) -> Json:
    target = [_parameter(TARGET, "header", {"const": doc.target})] if doc.target else []
    answer = {str(doc.status.value): _success(doc, refs)} if not doc.refused else {}
    answer |= {str(status.value): {"description": status.phrase} for status in doc.empty_statuses}
    return {
        "operationId": doc.name,
        **({"summary": doc.summary} if doc.summary else {}),
        "description": _text(doc),
        **({} if doc.permission is None else {"x-batchq-permission": doc.permission.name}),
        "security": _security(doc, profile),
        "parameters": [*_in_path(path), *target, *(_in_query(doc.query) if doc.query else ())],
        **_request_body(doc, refs),
        "responses": {**answer, **_errors(profile)},
    }


def _request_body(doc: OperationDoc, refs: _Refs) -> Json:
    if doc.body is None:
        return {}
    return {"requestBody": {"required": not doc.optional_body} | _content(refs.requests[doc.body], doc.media)}


def _security(doc: OperationDoc, profile: DialectProfile) -> list[Json]:
    """The alternatives of authentication."""
    match doc.security:
        case Security.NONE:
            return []
        case Security.METRICS_TOKEN:
            return [{doc.security.value: []}]
        case Security.CREDENTIAL:
            return [{scheme.value: []} for scheme in Scheme if scheme in profile.schemes]


def _text(doc: OperationDoc) -> str:
    permitted = "" if doc.permission is None else PERMITTED[doc.permission]
    return doc.refused or "\n\n".join(filter(None, (doc.description, permitted)))


def _success(doc: OperationDoc, refs: _Refs) -> Json:
    media = doc.response_media or doc.media
    content = {} if doc.status is HTTPStatus.NO_CONTENT else _content(_answer(doc, refs), media)
    return {"description": doc.status.phrase, **content}


def _answer(doc: OperationDoc, refs: _Refs) -> Json:
    match doc.answer:
        case None:
            return _STRING
        case AwsResponse() as answer:
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
        text = {"description": schema.pop("description")} if "description" in schema else {}
        yield _parameter(name, "query", schema, required=name in described.get("required", ())) | text


def _parameter(name: str, where: str, schema: Json, *, required: bool = True) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema}


def _errors(profile: DialectProfile) -> Json:
    statuses = sorted({**ERRORS, **profile.more_errors})
    return {str(status.value): {"$ref": f"#/components/responses/{_name(profile, status)}"} for status in statuses}


def _name(profile: DialectProfile, status: HTTPStatus) -> str:
    return f"{profile.name}.{status.name}"


def _error(text: str, profile: DialectProfile, body: Json) -> Json:
    headers = {
        header: {"required": True, "schema": _STRING} for header in (*profile.error_headers, profile.request_id_header)
    }
    return {"description": text, "headers": headers, "content": {media: {"schema": body} for media in sorted(JSON)}}


def _content(schema: Json, media: str = MEDIA) -> Json:
    return {"content": {media: {"schema": schema}}}
