"""Fixtures of the tests of commands."""

import pytest

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
