"""The compose file: batchq and a Prometheus of this machine come up, and Prometheus scrapes batchq with its token."""

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import docker
import pytest

from tests.house.test_wheel import built
from tests.image.build import PACKAGING, build_image
from tests.image.service import USER
from tests.service.test_monitoring import program
from tests.service.waiting import until
from tests.support.docker_api import engine_socket
from tests.support.images import file_system, shared_libraries
from tests.support.service import reserved

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]
PROMETHEUS = "batchq-prometheus:test"
PROJECT = "batchqtest"


@pytest.fixture(scope="module")
def images(docker_engine, tmp_path_factory):
    """The variables of the image of batchq, and of an image with this machine's Prometheus."""
    folder = tmp_path_factory.mktemp("image")
    (context := folder / "context").mkdir()
    binary = Path(program("prometheus")).resolve()
    changes = [
        "USER 65534",
        'ENTRYPOINT ["/bin/prometheus"]',
        'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/tmp"]',
    ]
    with closing(docker.from_env(timeout=300)) as engine:
        files = [(binary, "bin/prometheus"), *((library, str(library)) for library in shared_libraries([binary]))]
        name, tag = PROMETHEUS.split(":")
        engine.api.import_image_from_data(file_system(engine, files), repository=name, tag=tag, changes=changes)
    return {"BATCHQ_IMAGE": build_image(built(folder), context), "PROMETHEUS_IMAGE": PROMETHEUS}


@pytest.fixture
def compose(images, tmp_path):
    """Run a command of compose; at the end everything is removed."""
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    (folder := tmp_path / "data").mkdir()
    (token := tmp_path / "metrics.token").write_text("a-token-of-the-test\n")
    token.chmod(0o640)
    os.chown(token, -1, USER)
    os.chown(folder, USER, USER)
    with reserved() as first, reserved() as second:
        ports = {"BATCHQ_PORT": first.getsockname()[1], "PROMETHEUS_PORT": second.getsockname()[1]}
    socket = engine_socket()
    engine = {"DOCKER_SOCKET": socket, "DOCKER_GID": socket.stat().st_gid}
    own = {"BATCHQ_DIR": folder, "METRICS_TOKEN": token, **engine, **ports}
    variables = os.environ | images | {name: str(value) for name, value in own.items()}

    def run(*words, must_succeed=True):
        words = [*command, "--project-name", PROJECT, "--file", str(PACKAGING / "compose.yaml"), *words]
        ended = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        assert ended.returncode == 0 or not must_succeed, ended.stderr
        return ended.stdout

    yield run
    run("down", "--volumes", "--timeout", "20")


def test_prometheus_scrapes_the_server_of_the_compose_file(compose):
    compose("up", "--detach", "batchq", "prometheus")

    def is_scraped():
        # Prometheus accepts a connection in its start, and may never answer it.
        query = ["timeout", "5", "wget", "-q", "-O", "-", "http://127.0.0.1:9090/api/v1/query?query=up"]
        ended = compose("exec", "-T", "prometheus", *query, must_succeed=False)
        found = json.loads(ended)["data"]["result"] if ended else []
        return [series["value"][1] for series in found if series["metric"]["job"] == "batchq"] == ["1"]

    until(is_scraped)
    created = compose("exec", "-T", "batchq", "batchq", "key", "create", "--user", "amy")
    assert "export AWS_ACCESS_KEY_ID=" in created


def test_the_compose_file_has_the_three_services_and_files_that_exist(compose):
    services = compose("config", "--services").split()

    assert sorted(services) == ["batchq", "grafana", "prometheus"]
    for name in (
        "prometheus.yml",
        "grafana/datasource.yml",
        "grafana/dashboard.yml",
        "../docs/alerts.yml",
        "../docs/grafana.json",
    ):
        assert (PACKAGING / name).exists()
