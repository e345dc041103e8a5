"""The Docker SDK for tests: at DOCKER_HOST, in the newest API version that the engine and the SDK have in common."""

import os
from pathlib import Path

import docker
from docker.utils import kwargs_from_env


def docker_api(base_url: str | None = None) -> docker.APIClient:
    """A client of the engine that DOCKER_HOST names, or of the one at `base_url`."""
    address = kwargs_from_env() | ({"base_url": base_url} if base_url else {})
    return docker.APIClient(version="auto", **address)


def engine_socket() -> Path:
    """The unix socket of the engine that DOCKER_HOST names. Without one, the usual socket of Docker."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "").partition("://")
    return Path(path if scheme == "unix" else "/var/run/docker.sock")
