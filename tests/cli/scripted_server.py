"""A scripted server that records requests to stop jobs, and the commands that call it."""

import asyncio
import json

from aiohttp import web

from batchq.cli.main import main

ARRAY = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"
GANG = "9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002"
NOWHERE = "http://127.0.0.1:1"


class Server:
    """Records the requests, and returns the responses that the test sets."""

    def __init__(self):
        self.requests = []
        self.jobs = []
        self.knows = {"user": "ann"}
        self.refuses = None
        self.answer = None
        self.media = "application/x-ndjson"
        self.breaks_off = False
        self.holds_after = None
        self.requested, self.never = asyncio.Event(), asyncio.Event()

    def app(self):
        app = web.Application()
        app.router.add_post("/v1/batchq/{operation}", self._answer)
        return app

    async def _answer(self, request):
        content = await request.json()
        if request.match_info["operation"] == "whoami":
            return web.json_response(self.knows)
        self.requests.append((request.match_info["operation"], content))
        if self.refuses:
            status, message = self.refuses
            return web.json_response({"message": message}, status=status)
        counts = {it["outcome"]: 1 for it in self.jobs}
        lines = [*self.jobs, {"counts": counts, "dryRun": content["dryRun"]}]
        answer = "".join(f"{json.dumps(it)}\n" for it in lines).encode() if self.answer is None else self.answer
        if self.breaks_off or self.holds_after is not None:
            return await self._give_some(request, answer)
        return web.Response(body=answer, content_type=self.media)

    async def _give_some(self, request, text):
        """Sends the first part of the response, if any, and closes: at once, or when the client has disconnected."""
        response = web.StreamResponse(headers={"Content-Type": self.media})
        response.enable_chunked_encoding()
        if self.holds_after != 0:
            await response.prepare(request)
            await response.write(text[:-40])
        self.requested.set()
        if self.holds_after is not None:
            await self.never.wait()
        request.transport.abort()
        return response


async def batchq(*words):
    return await asyncio.to_thread(main, words)


async def ended(*words):
    """Run a command. Returns its exit status, also of a command that sent no request."""
    try:
        return await batchq(*words)
    except SystemExit as left:
        return left.code


def job(outcome, **more):
    return {"jobId": ARRAY, "jobName": "sim", "status": "RUNNABLE", "outcome": outcome} | more
