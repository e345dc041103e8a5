"""Fixtures of the tests of commands."""

from contextlib import asynccontextmanager

import pytest

from tests.cli.servers import JobServer, NativeServer, StopServer
from tests.support.server import serving

VARIABLES = ("AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "NO_COLOR", "FORCE_COLOR")


@asynccontextmanager
async def called(server, monkeypatch):
    """A server that commands call, without a key and without other settings of this machine."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    async with serving(server.app()) as url:
        monkeypatch.setenv("BATCHQ_URL", url)
        server.url = url
        yield server
    assert server.mistakes == []


@pytest.fixture
async def server(monkeypatch):
    async with called(StopServer(), monkeypatch) as server:
        yield server
        server.never.set()


@pytest.fixture
async def native(monkeypatch):
    """The native read API, from rows that the test lists."""
    async with called(NativeServer(), monkeypatch) as server:
        yield server


@pytest.fixture
async def job_server(monkeypatch, tmp_path):
    """A server with one job, whose states the test lists."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with called(JobServer(), monkeypatch) as server:
        yield server
