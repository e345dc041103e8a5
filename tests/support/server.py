"""An application served for a test as it is served for real: on a socket of loopback, on a port that is free."""

from contextlib import asynccontextmanager

from aiohttp import web

from api import app as api


@asynccontextmanager
async def serving(app):
    """The URL at which it answers."""
    runner = api.runner(app, drain_seconds=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
