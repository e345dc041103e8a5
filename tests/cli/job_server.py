"""A scripted server that takes one job through the states of a test, with its log, explanation and stop requests."""

import asyncio
import json

from aiohttp import web

from tests.cli.native_server import job_id

JOB = job_id("8f2c51a7")
SECOND = 1000  # milliseconds


def attempt(code=0, reason="Essential container in task exited", **more):
    container = {} if code is None else {"exitCode": code}
    return {"container": container | more, "statusReason": reason, "startedAt": 0, "stoppedAt": SECOND}


def state(status, *attempts, **more):
    """The job as DescribeJobs returns it."""
    times = {"startedAt": 0} if attempts or status == "RUNNING" else {}
    ended = {"stoppedAt": 3 * SECOND} if status in ("SUCCEEDED", "FAILED") and attempts else {}
    reason = {"statusReason": attempts[-1]["statusReason"]} if attempts else {}
    job = {"jobId": JOB, "jobName": "train", "status": status, "attempts": list(attempts), "createdAt": 0}
    return job | times | ended | reason | more


class JobServer:
    """Each DescribeJobs returns the next state, and the last one again. `lines` are the output of each attempt."""

    def __init__(self):
        self.states = [state("SUCCEEDED", attempt())]
        self.lines = {1: []}
        self.sentence = None
        #: The number of further requests that are answered with 503.
        self.away = 0
        #: The state that follows a stop request.
        self.stopped = None
        #: The message with which log requests are refused; None: they are answered.
        self.log_refusal = None
        #: Whether submissions are accepted and not answered.
        self.is_mute = False
        #: Set at the first submission.
        self.requested = asyncio.Event()
        self.submitted, self.stops, self.log_requests, self.described = [], [], [], 0
        self.is_followed = asyncio.Event()

    def app(self):
        app = web.Application(middlewares=[self._away])
        app.router.add_post("/v1/registerjobdefinition", self._register)
        app.router.add_post("/v1/describejobdefinitions", self._definitions)
        app.router.add_post("/v1/submitjob", self._submit)
        app.router.add_post("/v1/describejobs", self._describe)
        app.router.add_get("/v1/batchq/jobs/{id}/log", self._log)
        app.router.add_get("/v1/batchq/jobs/{id}/why", self._why)
        app.router.add_post("/v1/batchq/{verb:canceljobs|terminatejobs}", self._stop)
        return app

    @web.middleware
    async def _away(self, request, handler):
        if self.away and self.submitted:
            self.away -= 1
            return web.json_response({"message": "The server is starting."}, status=503)
        return await handler(request)

    async def _register(self, request):
        name = (await request.json())["jobDefinitionName"]
        return web.json_response({"jobDefinitionName": name, "revision": 1})

    async def _definitions(self, _):
        return web.json_response({"jobDefinitions": []})

    async def _submit(self, request):
        content = await request.json()
        if content["jobQueue"] == "none":
            return web.json_response({"message": "JobQueue none not found."}, status=400)
        self.submitted.append(content)
        self.requested.set()
        if self.is_mute:
            await asyncio.sleep(60)
        return web.json_response({"jobId": JOB, "jobName": "train"})

    async def _describe(self, _):
        self.described += 1
        current = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if len(self.states) == 1:
            self.is_followed.set()
        return web.json_response({"jobs": [current] if current else []})

    async def _log(self, request):
        self.log_requests.append(request.match_info["id"])
        if self.log_refusal:
            return web.json_response({"message": self.log_refusal}, status=400)
        number, after = int(request.query["attempt"]), int(request.query.get("after", 0))
        found = self.lines.get(number, [])[after : after + 2]
        over = after + len(found) >= len(self.lines.get(number, []))
        lines = [{"at": 0, "message": it} for it in found]
        return web.json_response({"lines": lines, "next": after + len(found), "over": over})

    async def _why(self, _):
        if self.sentence is None:
            return web.json_response({"message": "No such operation."}, status=404)
        return web.json_response({"jobId": JOB, "code": "ANY", "sentence": self.sentence, "facts": {}})

    async def _stop(self, request):
        verb = request.match_info["verb"].removesuffix("jobs")
        self.stops.append((verb, (await request.json())["jobs"]))
        outcome = {"cancel": "NOT_RETRIED", "terminate": "STOPPING"}[verb]
        if self.stopped is not None:
            self.states = [self.stopped]
        lines = [{"jobId": JOB, "outcome": outcome}, {"counts": {outcome: 1}, "dryRun": False}]
        body = "".join(f"{json.dumps(it)}\n" for it in lines)
        return web.Response(text=body, content_type="application/x-ndjson")
