"""Each operation, for each role, on own resources and those of the same, lower, higher and other accounts."""

import re
from functools import cache, partial

import pytest

from batchq.api.batch.routes import JOBS, RESOURCES, TAGS, UNSUPPORTED
from batchq.api.logs import routes as logs
from tests.roles.people import Request, batch
from tests.roles.resources import absent
from tests.roles.rows import ROWS, WHOSE
from tests.service.waiting import container

REQUEST = re.compile(rb'RequestId: [0-9a-f-]{36}|"request_id":"[0-9a-f-]{36}","timestamp":"[^"]*"')


def outcome(server, resources, who, row, owner, *, missing):
    """The code of a response in the matrix, or an unexpected response itself."""
    owned = getattr(resources, row.kind)(owner) if row.changes else resources.kept(owner, row.kind)
    answer = server.send(who, row.request(owned)) if row.revealed is None else server.whole(who, row.request(owned))
    assert answer.status < 500, answer
    if answer.denied:
        return "X"
    if row.revealed is not None:
        return "D" if row.revealed(owned).encode() in answer.body else "H"
    if row.seen is not None and row.seen[1].encode() in server.send("amy", row.seen[0](owned)).body:
        return "D"
    return compared(answer, owned, *missing(), changes=row.seen is not None)


def response_for_missing(server, who, row):
    spec = absent()
    return server.send(who, row.request(spec)), spec


def compared(answer, owned, other, unknown, *, changes):
    """Compares bytes without the names and the request id."""
    if plain(answer, owned) == plain(other, unknown):
        return "H"
    return f"{answer} is not {other}" if changes else "D"


def plain(answer, owned):
    return answer.status, answer.headers, REQUEST.sub(b"", owned.masked(answer.body))


def cell(server, resources, who, row):
    if len(row.cells[who]) == 1:
        return "X" if server.send(who, row.request(absent())).denied else "D"
    missing = cache(partial(response_for_missing, server, who, row))  # the same for every owner
    return "".join(outcome(server, resources, who, row, owner or who, missing=missing) for owner in WHOSE.values())


@pytest.fixture(scope="module")
def public_definition(server, resources):
    """A definition that all users may use: its account is the parent of all others."""
    members = {"type": "container", "containerProperties": container("true")}
    server.do("rory", "RegisterJobDefinition", jobDefinitionName="everybodys", **members)


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("name", ROWS, ids=lambda value: " ".join(filter(None, value)))
@pytest.mark.usefixtures("public_definition")
def test_each_role_has_exactly_its_permissions_and_hidden_resources_do_not_exist(server, resources, name):
    row = ROWS[name]

    assert {who: cell(server, resources, who, row) for who in row.cells} == row.cells


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unknown_operations_are_refused_to_all_identically(server, name):
    answers = [server.send(who, batch(name)) for who in ("ada", "amy")]

    assert answers[0].status == 400
    assert plain(answers[0], absent()) == plain(answers[1], absent())


def test_every_operation_has_a_row(server):
    paths = server.send("ada", Request(path="/openapi.json", method="GET")).content["paths"]
    native = {
        way["operationId"]
        for path, ways in paths.items()
        if "/batchq/" in path or path.startswith("/v2/") or "SageMaker." in path
        for way in ways.values()
    }
    root = paths["/"]["get"]["operationId"]

    of_logs = {operation.name for operation in logs.operations.operations}
    assert {operation for operation, _ in ROWS} == {*JOBS, *RESOURCES, *TAGS, *of_logs, *native, root}
