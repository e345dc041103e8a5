"""Each worker has one real server with real containers, and the clients of `.ci/clients` beside it.

The containers run on Docker, or on the cluster of BATCHQ_TEST_KUBERNETES (`make use-on-kubernetes`). The server
requires signed requests over TLS, with a certificate that the clients must verify.
"""

import os

import pytest

from tests.clients.client import HOME, PATIENCE, Client
from tests.clients.image import ensure_clients_image
from tests.kubernetes.bed.__main__ import load_image
from tests.kubernetes.service import CLUSTER, service_kind
from tests.service.test_keys import Keys
from tests.support.certificates import Authority
from tests.support.service import serving


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HOME):
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.docker)
            item.add_marker(pytest.mark.timeout(PATIENCE + 60))


@pytest.fixture(scope="session")
def server(tmp_path_factory, docker_engine):
    # Snakemake's jobs ask for privileges that they do not need, and that no engine within a sandbox can give.
    settings = ("--stop-grace", "2", "--privileged", "drop", "--auth", "sigv4")
    folder = tmp_path_factory.mktemp("clients")
    files, key = Authority(folder).issue(), Keys(folder / "data").create()
    stored = ("--s3-root", str(folder / "s3"))
    access = {"bundle": files.bundle, "key": key, "kind": service_kind()}
    with serving(folder / "data", *settings, *stored, *files.flags(), **access) as service:
        yield service
    service.remove_containers()


@pytest.fixture
def client(server, tmp_path):
    """Programs and libraries of the clients' own environment, pointed at the server by variables alone."""
    return Client(server, tmp_path)


@pytest.fixture(scope="session")
def image(docker_engine):
    """The name of an image with bash, Python and the clients: what jobs of workflow engines run in."""
    name = ensure_clients_image()
    if CLUSTER in os.environ:
        load_image(name)
    return name
