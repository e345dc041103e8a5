"""/openapi.json describes every route and every shape of this server, and no others."""

from importlib import import_module

import pytest
import schemathesis
from msgspec import to_builtins

from batchq.api import app as api
from batchq.api.authentication import open_gate
from batchq.api.batch import routes as batch
from batchq.api.logs import routes as logs
from batchq.api.openapi import describe
from tests.api.model import SERVED
from tests.house.rooms import ROOT, module, sources
from tests.support.builders import ADMIN, NOON
from tests.support.observing import request_metrics

OPERATIONS = SERVED | logs.OPERATIONS


async def well():
    return {"status": "ok"}


def dialects():
    """Of every module that has one; nobody will ask it anything."""
    modules = [import_module(module(it)) for it in sources() if it.is_relative_to(ROOT / "api")]
    return [it.dialect(None) for it in modules if hasattr(it, "dialect")]


@pytest.fixture(scope="module")
def app():
    return api.build(
        requests=request_metrics(),
        dialects=dialects(),
        health=well,
        hosts=[],
        gate=open_gate(ADMIN.user, now=lambda: NOON),
    )


@pytest.fixture(scope="module")
def described(app):
    return to_builtins(describe(app))


@pytest.fixture(scope="module")
def operations(described):
    """By name."""
    return {it["operationId"]: it for methods in described["paths"].values() for it in methods.values()}


def test_the_description_is_valid_openapi(described):
    schemathesis.openapi.from_dict(described).validate()


def test_every_route_is_described(app, described):
    routes = {(it.resource.canonical, it.method.lower()) for it in app.router.routes() if it.method != "HEAD"}

    assert {(path.partition("#")[0], method) for path, it in described["paths"].items() for method in it} == routes


def test_every_operation_is_described_by_its_name(app, described, operations):
    number = sum(len(methods) for methods in described["paths"].values())

    assert operations.keys() >= OPERATIONS.keys() | batch.UNSUPPORTED.keys()
    assert len(operations) == number, "two operations have one name"


@pytest.mark.parametrize("name", [name for name, it in OPERATIONS.items() if it.body])
def test_the_body_of_an_operation_has_its_shape(described, operations, name):
    (content,) = operations[name]["requestBody"]["content"].values()
    place = content["schema"]["$ref"].rpartition("/")[2]

    shape = OPERATIONS[name].body

    assert place == shape.__name__
    assert described["components"]["schemas"][place]["properties"].keys() == shape.model_fields.keys()


def test_path_query_and_header_parameters_are_described(operations):
    untag = {(it["in"], it["name"]) for it in operations["UntagResource"]["parameters"]}
    (target,) = operations["GetLogEvents"]["parameters"]

    assert untag == {("path", "arn"), ("query", "tagKeys")}
    assert (target["in"], target["schema"]) == ("header", {"const": "Logs_20140328.GetLogEvents"})


def test_unsupported_operations_are_described_with_their_reason(operations):
    refused = operations["SubmitServiceJob"]

    assert "SageMaker" in refused["description"]
    assert "200" not in refused["responses"]


async def test_a_server_returns_the_description(server, http):
    status, _, content = await http.ask("GET", "/openapi.json")

    assert (status, content["openapi"]) == (200, "3.1.0")
    assert content == (await http.ask("GET", "/openapi.json"))[2]
