"""/openapi.json: the OpenAPI description, generated from the routes and the shapes of their requests. Decision 0019.

All operations of CloudWatch Logs are `POST /`. Here each has a path of its own, with a fragment that is never sent.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from batchq import __version__
from batchq.api.http import reply
from batchq.api.middleware import JSON, WITH_BODY

PATH = "/openapi.json"
MEDIA = "application/json"
TARGET = "X-Amz-Target"
ERROR_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

Json = dict[str, object]
Refs = Mapping[type, JsonSchemaValue]

_TEXT: Json = {"type": "string"}
_OBJECT: Json = {"type": "object"}
_ERROR: Json = {"type": "object", "required": ["message"], "properties": {"message": _TEXT, "__type": _TEXT}}


class OperationDoc(Struct, frozen=True, kw_only=True):
    """The description of one operation, in addition to its route's method and path."""

    #: As `SubmitJob`.
    name: str
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""
    #: The X-Amz-Target header, if it distinguishes operations of one route; else empty.
    target: str = ""
    #: The media type of the request body.
    media: str = MEDIA
    #: The media type of a successful response; None: as `media`.
    response_media: str | None = None


_DOCS: web.AppKey[dict[web.AbstractRoute, list[OperationDoc]]] = web.AppKey("operation_docs")


def mount(app: web.Application) -> None:
    """Add the route of /openapi.json. Must be called before the dialects, which call `document`.

    The description is generated for the first request, when all routes exist.
    """
    app[_DOCS] = {}
    cached = cache(lambda: describe(app))

    async def openapi(_: web.Request) -> web.Response:
        return reply(cached())

    app.router.add_get(PATH, openapi)


def document(app: web.Application, route: web.AbstractRoute, doc: OperationDoc) -> None:
    """Describe an operation of `route`; a route may have several."""
    app[_DOCS].setdefault(route, []).append(doc)


def operations(app: web.Application) -> dict[tuple[str, str], tuple[OperationDoc, ...]]:
    """All operations by method and path. A route without an OperationDoc is named after its handler."""
    found: dict[tuple[str, str], tuple[OperationDoc, ...]] = {}
    for route in app.router.routes():
        assert route.resource is not None
        documents = app[_DOCS].get(route, [OperationDoc(name=route.handler.__name__)])
        key = route.method, route.resource.canonical
        found[key] = (*found.get(key, ()), *documents)
    return found


def describe(app: web.Application) -> Json:
    """Return the OpenAPI document. A route without an OperationDoc is described by its path and method."""
    refs, schemas = _schemas(it for docs in app[_DOCS].values() for it in docs)
    paths: dict[str, Json] = {}
    for route in app.router.routes():
        if route.method != "HEAD":  # aiohttp adds it to each GET
            for path, operation in _operations(route, app[_DOCS].get(route, []), refs):
                paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "batchq", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "responses": {each.name: _error(each) for each in ERROR_STATUSES}},
    }


class _Plain(GenerateJsonSchema):
    """Schemas without titles, which repeat the names, and without defaults: None means an omitted member."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic passes it
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def _schemas(docs: Iterable[OperationDoc]) -> tuple[Refs, JsonSchemaValue]:
    """A reference to the schema of each request body, and the schemas."""
    bodies = dict.fromkeys(it.body for it in docs if it.body is not None)
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(shape, "validation") for shape in bodies]
    refs, schemas = models_json_schema(wanted, ref_template="#/components/schemas/{model}", schema_generator=_Plain)
    return {shape: ref for (shape, _), ref in refs.items()}, schemas.get("$defs", {})


def _operations(route: web.AbstractRoute, docs: Sequence[OperationDoc], refs: Refs) -> Iterator[tuple[str, Json]]:
    """The operations of a route, each with its path."""
    assert route.resource is not None
    path = route.resource.canonical
    if not docs:
        yield path, _undocumented(route, path)
    for it in docs:
        yield f"{path}#{TARGET}={it.target}" if it.target else path, _documented(it, path, refs)


def _undocumented(route: web.AbstractRoute, path: str) -> Json:
    body = {"requestBody": _content(_OBJECT)} if route.method in WITH_BODY else {}
    return {"operationId": route.handler.__name__, "parameters": _in_path(path), **body, "responses": _responses()}


def _documented(it: OperationDoc, path: str, refs: Refs) -> Json:
    target = [_parameter(TARGET, "header", {"const": it.target})] if it.target else []
    return {
        "operationId": it.name,
        **({"description": it.refused} if it.refused else {}),
        "parameters": [*_in_path(path), *target, *(_in_query(it.query) if it.query else ())],
        **({"requestBody": {"required": True} | _content(refs[it.body], it.media)} if it.body else {}),
        "responses": _responses(it.response_media or it.media, served=not it.refused),
    }


def _in_path(path: str) -> list[Json]:
    return [_parameter(name, "path", _TEXT) for name in re.findall(r"{(\w+)}", path)]


def _in_query(shape: type[BaseModel]) -> Iterator[Json]:
    described = shape.model_json_schema(schema_generator=_Plain)
    for name, schema in described["properties"].items():
        yield _parameter(name, "query", schema, required=name in described.get("required", ()))


def _parameter(name: str, where: str, schema: Json, *, required: bool = True) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema}


def _responses(media: str = MEDIA, *, served: bool = True) -> Json:
    answer = {"description": HTTPStatus.OK.phrase, **_content(_OBJECT, media)}
    errors = {str(each.value): {"$ref": f"#/components/responses/{each.name}"} for each in ERROR_STATUSES}
    return {**({"200": answer} if served else {}), **errors}


def _error(status: HTTPStatus) -> Json:
    headers = {name: {"required": True, "schema": _TEXT} for name in ("x-amzn-ErrorType", "x-amzn-RequestId")}
    content = {media: {"schema": _ERROR} for media in sorted(JSON)}
    return {"description": status.phrase, "headers": headers, "content": content}


def _content(schema: Json, media: str = MEDIA) -> Json:
    return {"content": {media: {"schema": schema}}}
