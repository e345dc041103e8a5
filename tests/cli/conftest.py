"""Fixtures of the tests of commands."""

import pytest

from tests.cli.job_server import JobServer
from tests.cli.native_server import NativeServer
from tests.cli.scripted_server import Server
from tests.support.server import serving


@pytest.fixture
async def server(monkeypatch):
    for name in ("BATCHQ_URL", "AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    server = Server()
    async with serving(server.app()) as url:
        monkeypatch.setenv("BATCHQ_URL", url)
        yield server
        server.never.set()


@pytest.fixture
async def native(monkeypatch):
    """The native read API, from rows that the test lists."""
    for name in ("AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")
    server = NativeServer()
    async with serving(server.app()) as url:
        monkeypatch.setenv("BATCHQ_URL", url)
        server.url = url
        yield server


@pytest.fixture
async def job_server(monkeypatch, tmp_path):
    """A server with one job, whose states the test lists."""
    for name in ("AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    server = JobServer()
    async with serving(server.app()) as url:
        monkeypatch.setenv("BATCHQ_URL", url)
        yield server
