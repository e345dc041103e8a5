"""A real server in a process of its own."""

import pytest

from batchq.cli import config
from batchq.cli.main import main
from tests.service.job_queue import NUMBERS
from tests.support.service import serving, serving_forked


@pytest.fixture
def simulated(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


@pytest.fixture
def simulated_command(tmp_path):
    """A server with simulated containers that is started by the command `batchq`: for tests of the process."""
    with serving(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


@pytest.fixture(scope="package")
def shared(tmp_path_factory):
    """A server for tests that neither change queues and environments nor stop the server.

    The server has jobs and definitions of other tests. A test that selects some by name uses `own_name`.
    """
    with serving_forked(tmp_path_factory.mktemp("shared") / "data", "--runtime", "simulated") as service:
        yield service
        assert service.blocked_by() == []


@pytest.fixture
def own_name():
    """A name of jobs and definitions that no other test uses. `NAME-*` matches no name of another test."""
    return f"test-{next(NUMBERS)}"


@pytest.fixture
def docker_service(tmp_path):
    with serving_forked(tmp_path / "data", "--stop-grace", "2", "--min-timeout", "1") as service:
        yield service
        assert service.blocked_by() == []
    service.remove_containers()


@pytest.fixture
def connect(monkeypatch, tmp_path):
    """Commands that this test calls send their requests to the given server, and read no configuration."""

    def connect(service):
        monkeypatch.setenv("BATCHQ_URL", service.url)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "system.toml")

    return connect


@pytest.fixture
def batchq(capsys):
    """Run a command that ends with `status`. Returns stdout; with `errors` also stderr."""

    def run(*words, status=0, errors=False):
        try:
            ended = main([str(word) for word in words])
        except SystemExit as raised:
            ended = raised.code
        printed = capsys.readouterr()
        assert ended == status, printed
        return (printed.out, printed.err) if errors else printed.out

    return run


@pytest.fixture
def batchq_lines(batchq):
    """Run a command that ends with `status`. Returns the lines of stdout and of stderr."""

    def run(*words, status=0):
        out, err = batchq(*words, status=status, errors=True)
        return out.splitlines(), err.splitlines()

    return run
