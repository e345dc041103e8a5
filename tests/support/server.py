"""An application served for a test as it is served for real: on a socket of loopback, on a port that is free."""

from contextlib import asynccontextmanager
from socket import create_server

from api import app as api
from api.connections import LIMITS, Site


@asynccontextmanager
async def serving(app, *, limits=LIMITS):
    """The URL at which it answers."""
    runner = api.runner(app, drain_seconds=1)
    await runner.setup()
    try:
        await Site(runner, door=create_server(("127.0.0.1", 0)), limits=limits).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
