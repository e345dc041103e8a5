"""An HTTP server on loopback that receives webhooks, and the verification of Standard Webhooks by its text."""

import base64
import hashlib
import hmac
import json
from contextlib import asynccontextmanager

from aiohttp import web

TOLERANCE = 300  # seconds


def verified(headers, body, secret, *, now=None):
    """The content of a message. Raises AssertionError for one that the holder of the secret did not send."""
    message_id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    assert now is None or abs(int(timestamp) - now) < TOLERANCE
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.new(key, f"{message_id}.{timestamp}.{body.decode()}".encode(), hashlib.sha256).digest()
    signatures = [each.split(",", 1) for each in headers["webhook-signature"].split(" ")]
    assert any(
        version == "v1" and hmac.compare_digest(base64.b64decode(signature), expected)
        for version, signature in signatures
    )
    return json.loads(body)


class Receiver:
    """`requests`: the method, path, headers and body of each. `answer`: a handler that a test may replace."""

    def __init__(self):
        self.requests = []
        self.port = 0

        async def answer(request):
            return web.Response(text="ok")

        self.answer = answer

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/secret-path"

    @property
    def host(self):
        """As `--webhook-hosts` names it."""
        return f"127.0.0.1:{self.port}"

    async def handle(self, request):
        self.requests.append((request.method, request.path, request.headers.copy(), await request.read()))
        return await self.answer(request)


@asynccontextmanager
async def receiving(port=0):
    receiver, app = Receiver(), web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        await runner.cleanup()
