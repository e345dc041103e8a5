"""Compares answers with /openapi.json, strictly: a member that the description does not have is an error."""

import json
from functools import cache
from importlib import import_module

import jsonschema_rs
from aiohttp import web
from msgspec import to_builtins

from batchq.api.auth.authentication import open_gate
from batchq.api.http.dialect_profiles import TARGET
from batchq.api.operations.openapi import openapi_document
from batchq.api.operations.operation_table import OperationTable
from batchq.api.serving import app as api
from batchq.ports.responses.server import HealthReport
from tests.house.rooms import ROOT, module, sources
from tests.support.answers import NDJSON
from tests.support.builders import ADMIN, NOON
from tests.support.stubs import request_metrics


async def healthy():
    return HealthReport(status="ok")


def dialects():
    """All dialects and tables of batchq's own operations; their handlers are never called."""
    modules = [import_module(module(source)) for source in sources() if source.is_relative_to(ROOT / "api")]
    native = [other_module for other_module in modules if ".native." in other_module.__name__]
    tables = [var for module in native for var in vars(module).values() if isinstance(var, OperationTable)]
    return [other_module.dialect(None) for other_module in (*modules, *tables) if hasattr(other_module, "dialect")]


def whole_app():
    """The whole API."""
    return api.build(
        requests=request_metrics(),
        dialects=dialects(),
        health=healthy,
        hosts=[],
        gate=open_gate(ADMIN.user, now=lambda: NOON),
    )


@cache
def description():
    return to_builtins(openapi_document(whole_app(), signed=True))


@cache
def responses():
    """The responses of each operation by status, by method, path and X-Amz-Target."""
    found = {}
    for path, methods in description()["paths"].items():
        plain, _, target = path.partition(f"#{TARGET}=")
        for method, operation in methods.items():
            found[method.upper(), plain, target] = operation["responses"]
    return found


@cache
def schemas():
    return {name: strict(schema) for name, schema in description()["components"]["schemas"].items()}


def strict(schema):
    """The schema with no further members in objects that name theirs."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def referenced(schema, found):
    """Add the names of the schemas that this one refers to, directly or through others, to `found`."""
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            referenced(part, found)
    if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name not in found:
            found.add(name)
            referenced(schemas()[name], found)


@cache
def validator_of(text):
    """The validator of a schema in JSON. It copies its document, so the document has the referenced schemas only."""
    schema = json.loads(text)
    referenced(schema, names := set())
    return jsonschema_rs.Draft202012Validator(
        {**schema, "components": {"schemas": {name: schemas()[name] for name in names}}}
    )


@cache
def validator(route, status, media):
    """The validator of a body; None if the description has no such response."""
    response = responses()[route].get(str(status))
    if response is not None and "$ref" in response:
        response = description()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    content = (response or {}).get("content", {}).get(media)
    if content is None:
        return None
    return validator_of(json.dumps(strict(content["schema"])))


def difference(route, status, media, body):
    """The differences between a response and the description; empty without differences.

    `route`: the method, the path as the description has it, and the X-Amz-Target or an empty text.
    """
    found = validator(route, status, media)
    if found is None:
        return f"{route}: {status} {media} is not described"
    parts = [json.loads(line) for line in (body.splitlines() if media == NDJSON else [body])]
    errors = [error for part in parts for error in found.iter_errors(part)]
    return f"{route}: {status}: {errors[0].message[:300]} at {errors[0].instance_path}" if errors else ""


def watch(found):
    """A middleware that appends the differences of JSON responses of described operations to `found`."""

    @web.middleware
    async def check(request, handler):
        answer = await handler(request)
        route = described_route(request)
        if route in responses() and isinstance(answer, web.Response) and answer.content_type.endswith("json"):
            wrong = difference(route, answer.status, answer.content_type, answer.body)
            found.extend([wrong] if wrong else ())
        return answer

    return check


def described_route(request):
    """The key in `responses`; a request that aiohttp does not route has a fixed path."""
    target = request.headers.get(TARGET, "") if (request.method, request.path) == ("POST", "/") else ""
    if target or (request.method, request.path, target) in responses() or request.path == "/":
        return request.method, request.path, target
    resource = request.match_info.route.resource
    return request.method, "" if resource is None else resource.canonical, ""
