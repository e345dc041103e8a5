"""No route of the API is without the check that its table names."""

from http import HTTPStatus

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from batchq.api.auth.authentication import CALLER, Throttle, open_gate
from batchq.api.http.dialect_profiles import PROFILE, PROFILES, TARGET
from batchq.api.http.http import REQUEST_ID, HttpRefusal
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import OPERATIONS, Call, Operation, Public, aws_operation
from batchq.api.operations.parts import Parts
from batchq.api.serving import app as api
from batchq.domain.access.accounts import Directory, Permission
from tests.api.signed import KEY
from tests.support.builders import ADMIN, NOON
from tests.support.described import healthy, whole_app
from tests.support.gates import key_gate
from tests.support.stubs import request_metrics


def every_operation():
    return [operation for operations in whole_app()[OPERATIONS].values() for operation in operations]


def test_every_operation_names_its_permission():
    for operation in every_operation():
        assert isinstance(operation.access, Permission | Public), operation.name


def test_the_operations_without_a_permission_are_these():
    public = {
        (checkpoint.method, checkpoint.path, checkpoint.access)
        for checkpoint in every_operation()
        if isinstance(checkpoint.access, Public)
    }

    assert {pair for pair in public if not pair[1].startswith("/ui/static/")} == {
        ("GET", "/healthz", Public.ANYONE),
        ("GET", "/livez", Public.ANYONE),
        ("GET", "/readyz", Public.ANYONE),
        ("GET", "/metrics", Public.METRICS_TOKEN),
        ("GET", "/ui/login", Public.ANYONE),
        ("POST", "/ui/login", Public.ANYONE),
        ("POST", "/ui/logout", Public.ANYONE),
    }


def test_an_operation_without_a_permission_cannot_be_written():
    async def handle(parts: Parts, call: Call[None]) -> None:
        """Does nothing."""

    async def aws(parts: Parts, request: object) -> dict[str, object]:
        return {}

    with pytest.raises(TypeError):
        OperationTable().add("Do", "POST", "/do")(handle)
    with pytest.raises(TypeError):
        Operation(name="Do", method="POST", path="/do", handle=handle)
    with pytest.raises(TypeError):
        aws_operation("batch", "Do", handle=aws)


def test_an_application_with_a_route_of_no_table_is_not_built():
    async def handle(_request):
        return web.Response()

    with pytest.raises(AssertionError, match="no table has the route"):
        api.build(
            requests=request_metrics(),
            dialects=[lambda app: app.router.add_get("/secret", handle)],
            health=healthy,
            hosts=[],
            gate=open_gate(ADMIN.user, now=lambda: NOON),
        )


class Powerless:
    """A caller without any permission. `asked` has those that were required."""

    user, request_id = "eve", "a request"

    def __init__(self):
        self.asked = []

    def has(self, permission):
        self.asked.append(permission)
        return False


@pytest.mark.fault("SE08")
async def test_every_endpoint_refuses_a_caller_without_the_permission_in_its_table():
    """The handlers have no parts, so that one of them which is called fails in another way."""
    required, first = {}, make_mocked_request("GET", "/")
    for route, operations in whole_app()[OPERATIONS].items():
        for operation in operations:
            request = first.clone(method=operation.method, headers={TARGET: operation.target})
            request[CALLER] = caller = Powerless()
            if isinstance(operation.access, Permission):
                with pytest.raises(HttpRefusal) as refused:
                    await route.handler(request)
                assert refused.value.status == HTTPStatus.FORBIDDEN
                required[operation.method, operation.path, operation.target] = caller.asked == [operation.access]

    assert len(required) > 150
    assert {place for place, is_asked in required.items() if not is_asked} == set()


async def test_the_gate_admits_requests_without_a_credential_to_public_operations_only():
    app = whole_app()
    gate = key_gate({KEY.id: KEY}, directory=Directory, throttle=Throttle(rate=1_000_000, now=lambda: NOON))
    wrong, first = [], make_mocked_request("GET", "/")
    for route, operations in app[OPERATIONS].items():
        for operation in operations:
            path = route.resource.canonical
            request = first.clone(method=operation.method, rel_url=path, headers={TARGET: operation.target})
            request[REQUEST_ID], request[PROFILE] = "a request", app[PROFILES].find(path, operation.target)
            try:
                async with gate(request):
                    admitted = True
            except HttpRefusal:
                admitted = False
            if admitted is not isinstance(operation.access, Public):
                wrong.append((operation.method, path))

    assert wrong == []
