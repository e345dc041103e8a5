"""/openapi.json: the OpenAPI description, generated from the routes and the shapes of their requests. Decision 0019.

All operations of CloudWatch Logs are `POST /`. Here each has a path of its own, with a fragment that is never sent.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import cast

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from batchq import __version__
from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import PROFILES, TARGET, DialectProfile, DialectProfiles
from batchq.api.operations.middleware import JSON
from batchq.api.operations.operations import ADDITIONS, OPERATIONS, Operation, Public
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
    Public.METRICS_TOKEN.value: {
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


class ApiDescription:
    """The description of an application's API."""

    def __init__(self, app: web.Application, *, signed: bool) -> None:
        """`signed`: whether the server requires signatures, and a token for its metrics.

        If not, no operation has security.
        """
        self._app = app
        self._signed = signed
        self._generated: Description | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> Description:
        """Generated for the first request, when all routes exist, and in a thread, since it takes long."""
        async with self._lock:
            if self._generated is None:
                self._generated = await asyncio.to_thread(openapi_document, self._app, signed=self._signed)
        return self._generated


def openapi_document(app: web.Application, *, signed: bool) -> Description:
    """Return the OpenAPI document. `signed`: as for `ApiDescription`."""
    described = {
        route: operations
        for route, operations in app[OPERATIONS].items()
        if not app[PROFILES].find(operations[0].path, "").has_pages
    }
    additions = app[ADDITIONS]
    refs, schemas = _schemas(
        [operation for operations in described.values() for operation in operations],
        additions=additions,
        errors=[profile.error_body for profile in app[PROFILES] if profile.error_body is not None],
    )
    paths: dict[str, Json] = {}
    for route, operations in described.items():
        for path, operation in _operations(route, operations, refs, app[PROFILES]):
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
    operations: Sequence[Operation], *, additions: Additions, errors: Sequence[type[Struct]]
) -> tuple[_Refs, Json]:
    """References to the schemas of requests, answers and bodies of errors, and the schemas by name."""
    requests, schemas = request_schemas(operation.body for operation in operations if operation.body is not None)
    structs = [shape for operation in operations for shape in _structs(operation)]
    answers, own = answer_schemas([*structs, *additions.values(), *errors])
    aws, of_aws = aws_schemas(
        (operation.answer for operation in operations if isinstance(operation.answer, AwsResponse)), additions, answers
    )
    both = schemas.keys() & own.keys()  # enumerations of requests and answers have the same schema
    assert all("enum" in cast("Json", own[text]) for text in both), f"a request and an answer have one name: {both}"
    refs = _Refs(requests=requests, structs=answers, aws=aws)
    return refs, {**schemas, **own, **of_aws}


def _structs(operation: Operation) -> Sequence[type[Struct]]:
    """The Structs of an answer; none for an answer of AWS, and for text."""
    if operation.answer is None or isinstance(operation.answer, AwsResponse):
        return ()
    return operation.answer if isinstance(operation.answer, tuple) else (operation.answer,)


def _operations(
    route: web.AbstractRoute, operations: Sequence[Operation], refs: _Refs, profiles: DialectProfiles
) -> Iterator[tuple[str, Json]]:
    """The operations of a route, each with its path."""
    assert route.resource is not None
    path = route.resource.canonical
    for operation in operations:
        profile = profiles.find(path, operation.target)
        yield (
            f"{path}#{TARGET}={operation.target}" if operation.target else path,
            _documented(operation, path, refs, profile),
        )


def _documented(operation: Operation, path: str, refs: _Refs, profile: DialectProfile) -> Json:
    target = [_parameter(TARGET, "header", {"const": operation.target})] if operation.target else []
    answer = {str(operation.status.value): _success(operation, refs)} if not operation.refused else {}
    answer |= {str(status.value): {"description": status.phrase} for status in operation.empty_statuses}
    return {
        "operationId": operation.name,
        **({"summary": operation.summary} if operation.summary else {}),
        "description": _text(operation),
        **({} if isinstance(operation.access, Public) else {"x-batchq-permission": operation.access.name}),
        "security": _security(operation, profile),
        "parameters": [*_in_path(path), *target, *(_in_query(operation.query) if operation.query else ())],
        **_request_body(operation, refs),
        "responses": {**answer, **_errors(profile)},
    }


def _request_body(operation: Operation, refs: _Refs) -> Json:
    if operation.body is None:
        return {}
    return {
        "requestBody": {"required": not operation.optional_body}
        | _content(refs.requests[operation.body], operation.media)
    }


def _security(operation: Operation, profile: DialectProfile) -> list[Json]:
    """The alternatives of authentication."""
    match operation.access:
        case Public.ANYONE:
            return []
        case Public.METRICS_TOKEN:
            return [{Public.METRICS_TOKEN.value: []}]
        case Permission():
            return [{scheme.value: []} for scheme in Scheme if scheme in profile.schemes]


def _text(operation: Operation) -> str:
    permitted = "" if isinstance(operation.access, Public) else PERMITTED[operation.access]
    return operation.refused or "\n\n".join(filter(None, (operation.description, permitted)))


def _success(operation: Operation, refs: _Refs) -> Json:
    media = operation.response_media or operation.media
    content = {} if operation.status is HTTPStatus.NO_CONTENT else _content(_answer(operation, refs), media)
    return {"description": operation.status.phrase, **content}


def _answer(operation: Operation, refs: _Refs) -> Json:
    match operation.answer:
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
