"""/openapi.json describes every route and every shape of this server, and no others."""

import ast
import json

import pytest
import schemathesis

from batchq.api.batch import routes as batch
from batchq.api.batch.additions import AttemptAdditions, DefinitionAdditions, JobDetailAdditions
from batchq.api.logs import routes as logs
from batchq.api.operations.schemas import MODELS, texts_of
from tests.api.model import SERVED
from tests.support.aws_models import cut_models, text_of
from tests.support.described import description, difference, whole_app

JOB = dict.fromkeys(("jobArn", "jobName", "jobId", "jobQueue", "jobDefinition"), "a") | {"startedAt": 1}
OPERATIONS = SERVED | {operation.name: operation for operation in logs.operations.operations}


@pytest.fixture(scope="module")
def app():
    return whole_app()


@pytest.fixture(scope="module")
def described():
    return description()


@pytest.fixture(scope="module")
def operations(described):
    """The operations by name."""
    return {method["operationId"]: method for methods in described["paths"].values() for method in methods.values()}


def test_the_description_is_valid_openapi(described):
    schemathesis.openapi.from_dict(described).validate()


def test_the_models_of_the_answers_of_aws_are_those_of_botocore():
    """`python -m tests.support.aws_models` writes them anew."""
    expected = {f"{service}.json": text_of(model) for service, model in cut_models().items()}

    assert {path.name: path.read_text() for path in MODELS.glob("*.json")} == expected


def test_every_route_but_those_of_pages_is_described(app, described):
    routes = {
        (route.resource.canonical, route.method.lower())
        for route in app.router.routes()
        if route.method != "HEAD" and not route.resource.canonical.startswith("/ui")
    }

    assert {
        (path.partition("#")[0], method) for path, methods in described["paths"].items() for method in methods
    } == routes


def test_head_is_served_wherever_get_is(app):
    paths = {"GET": set(), "HEAD": set()}
    for route in app.router.routes():
        paths.get(route.method, set()).add(route.resource.canonical)

    assert "/ui/" in paths["GET"]
    assert paths["HEAD"] == paths["GET"]


def test_every_operation_is_described_by_its_name(app, described, operations):
    number = sum(len(methods) for methods in described["paths"].values())

    assert operations.keys() >= OPERATIONS.keys() | batch.UNSUPPORTED.keys()
    assert len(operations) == number, "two operations have one name"


def test_every_operation_has_a_text_an_answer_and_security(operations):
    successes = {
        name: [res for status, res in operation["responses"].items() if status < "300"]
        for name, operation in operations.items()
    }
    served = {name: operation for name, operation in operations.items() if successes[name]}
    schemas = {
        name: [media_type["schema"] for media_type in success["content"].values()]
        for name in served
        for success in successes[name]
        if "content" in success
    }

    assert operations.keys() - served.keys() == batch.UNSUPPORTED.keys()
    assert [name for name, operation in served.items() if not operation.get("summary", "").endswith(".")] == []
    assert [name for name, operation in operations.items() if "security" not in operation] == []
    assert [name for name, (schema,) in schemas.items() if schema == {"type": "object"}] == []


def test_a_module_is_parsed_once_for_the_texts_of_all_its_shapes(monkeypatch):
    parsed, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, *more, **options: parsed.append(source) or parse(source, *more))

    assert all(texts_of(shape) for shape in (DefinitionAdditions, JobDetailAdditions, AttemptAdditions))

    assert len(parsed) == len(set(parsed))


def test_members_and_parameters_have_the_texts_of_their_comments(described, operations):
    members = {name: schema.get("properties", {}) for name, schema in described["components"]["schemas"].items()}
    (wait,) = (parameter for parameter in operations["ListEvents"]["parameters"] if parameter["name"] == "wait")

    assert wait["description"] == "Seconds to wait for an event if there is none."
    assert members["SearchJobsRequest"]["idPrefix"]["description"].startswith("The first")
    # Inherited, renamed, and in a shape that is a member of the answer.
    assert members["JobDetails"]["arraySize"]["description"] == "Of an array: the number of its children."
    assert members["AttemptResponse"]["number"]["description"] == "From 1."


def schemes_below(described, *prefixes):
    """The schemes of the operations whose paths begin with one of `prefixes`, by name."""
    found = [methods for path, methods in described["paths"].items() if path.startswith(prefixes)]
    return {
        operation["operationId"]: [*map(next, map(iter, operation["security"]))]
        for each in found
        for operation in each.values()
    }


def test_only_probes_need_no_signature(described):
    below_v2 = schemes_below(described, "/v2/")
    others = {name: scheme for name, scheme in schemes_below(described, "/").items() if name not in below_v2}

    assert {name: schemes or ["none"] for name, schemes in others.items() if schemes != ["signature"]} == {
        "GetHealth": ["none"],
        "GetLiveness": ["none"],
        "GetReadiness": ["none"],
        "GetMetrics": ["metricsToken"],
    }


def test_operations_of_modelarts_accept_the_vendors_signature_and_tokens(described):
    schemes = schemes_below(described, "/v2/{project}/")

    assert set(map(tuple, schemes.values())) == {("sdkHmac", "bearer", "authToken")}


@pytest.mark.parametrize("job", [{"status": "SLEEPING"}, {"status": 1}, {"shoeSize": 1}, {"status": None}])
def test_an_answer_that_is_not_as_described_is_noticed(job):
    def found(job):
        return difference(("POST", "/v1/describejobs", ""), 200, "application/json", json.dumps({"jobs": [job]}))

    assert not found(JOB | {"status": "RUNNING"})
    assert found(JOB | {"status": "RUNNING"} | job)


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.body])
def test_the_body_of_an_operation_has_its_shape(described, operations, name):
    (content,) = operations[name]["requestBody"]["content"].values()
    place = content["schema"]["$ref"].rpartition("/")[2]

    shape = OPERATIONS[name].body

    assert place == shape.__name__
    assert described["components"]["schemas"][place]["properties"].keys() == shape.model_fields.keys()


def test_path_query_and_header_parameters_are_described(operations):
    untag = {(parameter["in"], parameter["name"]) for parameter in operations["UntagResource"]["parameters"]}
    (target,) = operations["GetLogEvents"]["parameters"]

    assert untag == {("path", "arn"), ("query", "tagKeys")}
    assert (target["in"], target["schema"]) == ("header", {"const": "Logs_20140328.GetLogEvents"})


def test_unsupported_operations_are_described_with_their_reason(operations):
    refused = operations["SubmitServiceJob"]

    assert "SageMaker" in refused["description"]
    assert "200" not in refused["responses"]


async def test_a_server_returns_the_description(server, http):
    status, _, content = await http.send("GET", "/openapi.json")

    assert (status, content["openapi"]) == (200, "3.1.0")
    assert content == (await http.send("GET", "/openapi.json"))[2]
