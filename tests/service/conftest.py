"""A real server in a process of its own."""

import pytest

from tests.support.forked_service import serving_forked
from tests.support.service import serving


@pytest.fixture
def simulated(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


@pytest.fixture
def simulated_command(tmp_path):
    """The same, started by the command `batchq`: for tests of the process."""
    with serving(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


@pytest.fixture(scope="package")
def shared(tmp_path_factory):
    """A simulated one for whoever leaves queues and environments as they are, and the server alive."""
    with serving_forked(tmp_path_factory.mktemp("shared") / "data", "--runtime", "simulated") as service:
        yield service
        assert service.blocked_by() == []


@pytest.fixture
def docker_service(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "2", "--min-timeout", "1") as service:
        yield service
        assert service.blocked_by() == []
    service.sweep()
