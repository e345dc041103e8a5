"""A server that all tests of roles share."""

import pytest

from tests.roles import people
from tests.roles.resources import ENDPOINT_HOST, Resources


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    with people.serve(tmp_path_factory.mktemp("roles") / "data", webhook_hosts=(ENDPOINT_HOST,)) as server:
        yield server


@pytest.fixture(scope="package")
def resources(server):
    resources = Resources(server)
    resources.prepare()
    return resources
