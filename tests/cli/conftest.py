"""Fixtures of the tests of commands."""

import pytest

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
