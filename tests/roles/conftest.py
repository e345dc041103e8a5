"""A server that all tests of roles share."""

import pytest

from tests.roles import cast
from tests.roles.props import Props


@pytest.fixture(scope="package")
def stage(tmp_path_factory):
    with cast.stage(tmp_path_factory.mktemp("roles") / "data") as stage:
        yield stage


@pytest.fixture(scope="package")
def props(stage):
    props = Props(stage)
    props.prepare()
    return props
