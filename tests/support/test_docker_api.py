"""Tests use the engine that DOCKER_HOST names, in an API version that it supports. Shown with a fake engine."""

from contextlib import closing

from tests.support.docker_api import docker_api
from tests.support.fake_engine import engine
from tests.support.service import Service


def docker_29(handler):
    """An engine with API version 1.44 at least, and one container."""
    asks_version = handler.path.endswith("/version")
    body = b'{"ApiVersion": "1.45", "MinAPIVersion": "1.44"}' if asks_version else b'[{"Id": "there"}]'
    handler.send_response(200 if asks_version or handler.path.startswith("/v1.45/") else 400)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_the_containers_that_are_counted_are_those_of_the_engine_that_docker_host_names(tmp_path, monkeypatch):
    with engine(tmp_path, docker_29) as url:
        monkeypatch.setenv("DOCKER_HOST", url)

        assert Service(tmp_path / "data").containers() == [{"Id": "there"}]
        with closing(docker_api()) as client:
            assert client.api_version == "1.45"
