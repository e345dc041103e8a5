"""The image of packaging/Dockerfile: what it contains, that it becomes healthy, and the demo on the host's engine."""

from contextlib import closing

import docker
import pytest

from tests.demo import __main__ as demo
from tests.house.test_wheel import built
from tests.image.build import build_image
from tests.image.service import ImageService
from tests.service.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def engine(docker_engine):
    with closing(docker.from_env(timeout=300)) as engine:
        yield engine


@pytest.fixture(scope="module")
def image(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    (context := folder / "context").mkdir()
    return engine.images.get(build_image(built(folder), context))


def test_the_image_runs_a_user_without_rights_and_has_a_data_volume_a_health_check_and_labels(image):
    config = image.attrs["Config"]

    assert config["User"] == "10001:10001"
    assert list(config["Volumes"]) == ["/var/lib/batchq"]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert image.labels["org.opencontainers.image.version"] == "0.1.0"
    assert image.labels["org.opencontainers.image.licenses"] == "MIT AND Apache-2.0"


def test_a_container_of_the_image_becomes_healthy_and_refuses_requests_without_a_key(engine, image):
    often = {"interval": 500_000_000, "start_period": 60_000_000_000}
    container = engine.containers.run(
        image, detach=True, environment={"BATCHQ_RUNTIME": "simulated"}, healthcheck=often, network_mode="none"
    )
    try:
        until(lambda: engine.api.inspect_container(container.id)["State"]["Health"]["Status"] == "healthy")
        refused = container.exec_run(["batchq", "list"])
        created = container.exec_run(["batchq", "key", "create", "--user", "amy"])
        container.stop()
        status = container.wait()["StatusCode"]
    finally:
        container.remove(v=True, force=True)

    assert (refused.exit_code, b"AWS_ACCESS_KEY_ID" in refused.output) == (1, True)
    assert b"export AWS_ACCESS_KEY_ID=" in created.output
    assert status == 0


def test_the_demo_runs_in_the_image_against_the_engine_of_the_host(image, capsys):
    assert demo.main(kind=ImageService) == 0
    assert "0 unexpected jobs, 0 containers left over, the server ended with status 0" in capsys.readouterr().out
