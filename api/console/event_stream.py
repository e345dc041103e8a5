"""The stream of notices for open pages (text/event-stream).

A session that ends, and a caller who loses the permission to see a job, lose their stream within CHECK_INTERVAL.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from aiohttp import web
from pydantic import Field

from batchq.api.auth.authentication import is_still_admitted
from batchq.api.console.pages import PageTable
from batchq.api.console.refresh import NoticeStream
from batchq.api.console.state import ConsoleState
from batchq.api.http.http import RequestQuery, send_stream
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission

CHECK_INTERVAL = 15.0  # seconds between two checks of the session, each of which sends a comment
RETRY = b"retry: 2000\n\n"  # milliseconds until a browser connects again
COMMENT = b":\n\n"
BYE = b"event: bye\ndata:\n\n"
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}
MAX_NUMBER = 2**53

pages = PageTable()


class LiveQuery(RequestQuery):
    #: The number of the newest change that the page knows of.
    after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None


@pages.get("/live", Permission.SELF)
async def live(parts: Parts, visit: Call[LiveQuery]) -> web.StreamResponse:
    request = visit.http
    last = request.headers.get("Last-Event-ID", "")  # sent when a browser connects again, with the first query
    after = int(last) if last.isascii() and last.isdecimal() and len(last) <= len(str(MAX_NUMBER)) else None
    with parts.state(ConsoleState).notices.stream(
        visit.caller,
        session=visit.caller.key or request.remote or visit.caller.user,
        after=visit.input.after if after is None else after,
        is_connected=lambda: request.transport is not None,
    ) as stream:
        response = web.StreamResponse(headers=HEADERS)
        with suppress(ConnectionError):  # the client has disconnected
            await send_stream(request, response, _parts(stream, request))
    return response


async def _parts(stream: NoticeStream, request: web.Request) -> AsyncIterator[bytes]:
    yield RETRY
    loop = asyncio.get_running_loop()
    check_at = loop.time() + CHECK_INTERVAL
    while True:
        try:
            async with asyncio.timeout_at(check_at):
                frames = await stream.next()
        except TimeoutError:
            if not await is_still_admitted(request):
                return
            check_at = loop.time() + CHECK_INTERVAL
            frames = COMMENT
        if frames is None:
            yield BYE
            return
        yield frames
