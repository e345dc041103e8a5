"""Scripted servers for the tests of commands, and the calls of commands."""

import asyncio
import json
from inspect import isawaitable

from aiohttp import web

from batchq.cli.main import main
from tests.cli.responses import AT, caller, details, explanation, line_type, mistakes_in, mistakes_of, stop_order

DAY = 86_400_000  # milliseconds
SECOND = 1000  # milliseconds
ARRAY = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"
GANG = "9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002"
NOWHERE = "http://127.0.0.1:1"


async def batchq(*words):
    return await asyncio.to_thread(main, words)


async def ended(*words):
    """Run a command. Returns its exit status, also of a command that sent no request."""
    try:
        return await batchq(*words)
    except SystemExit as left:
        return left.code


def job_id(beginning, number=1):
    return f"{beginning:0<8}-0000-4000-8000-{number:012}"


JOB = job_id("8f2c51a7")


def row(name="train", status="RUNNING", **more):
    return {
        "jobId": job_id("8f2c51a7"),
        "jobArn": f"arn:aws:batch:us-east-1:123456789012:job/{job_id('8f2c51a7')}",
        "jobName": name,
        "jobQueue": "default",
        "jobDefinition": "train:3",
        "status": status,
        "user": "ada",
        "account": "lab",
        "createdAt": AT,
        "attempt": 1,
        "maxAttempts": 1,
        "vcpus": 2.0,
        "memoryMiB": 512,
    } | more


class ScriptedServer:
    """A server whose responses are of the API's types."""

    def __init__(self):
        #: What the API would not have answered. The fixtures require that it is empty.
        self.mistakes = []

    def json(self, request, document):
        self.mistakes += mistakes_of(request.path, document)
        return web.json_response(document)

    def lines(self, lines):
        """The body of the response to a bulk stop."""
        self.mistakes += [mistake for line in lines for mistake in mistakes_in(line, line_type(line))]
        return "".join(f"{json.dumps(line)}\n" for line in lines)


class NativeServer(ScriptedServer):
    """Answers listjobs by `idPrefix`, `jobNames`, `jobStatuses` and `parentId` alone, `page_size` rows a page."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.groups = []
        self.activity = {"at": AT, "first": AT, "bucketSeconds": 300, "buckets": []}
        self.page_size = 1000
        #: Responses of other paths, by path without the query: an object, or a function of the query, sync or async.
        self.responses = {}
        #: Method, path with query, and content of each request.
        self.requests = []

    def app(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._respond)
        return app

    @property
    def listed(self):
        """The contents of the listjobs requests."""
        return [content for _, path, content in self.requests if path == "/v1/batchq/listjobs"]

    async def _respond(self, request):
        content = await request.json() if request.method == "POST" else None
        self.requests.append((request.method, request.path_qs, content))
        if request.path == "/v1/batchq/listjobs":
            return self.json(request, self._page(content))
        if request.path == "/v1/batchq/listgroups":
            return self.json(request, {"groups": self.groups})
        if request.path == "/v1/batchq/activity":
            return self.json(request, self.activity)
        if request.path not in self.responses:
            return web.json_response({"message": f"{request.path} does not exist."}, status=404)
        response = self.responses[request.path]
        if callable(response):
            response = response(dict(request.query))
        return self.json(request, await response if isawaitable(response) else response)

    def _page(self, content):
        matching = [other_row for other_row in self.rows if self._matches(other_row, content)]
        start = int(content.get("nextToken", 0))
        end = start + min(self.page_size, content["maxResults"])
        page = {"jobs": matching[start:end], "complete": end >= len(matching)}
        return page if page["complete"] else page | {"nextToken": str(end), "searchedBackTo": AT - DAY}

    def _matches(self, other_job, content):
        return (
            other_job["jobId"].startswith(content.get("idPrefix", ""))
            and ("jobNames" not in content or other_job["jobName"] in content["jobNames"])
            and ("jobStatuses" not in content or other_job["status"] in content["jobStatuses"])
            and ("parentId" not in content or other_job.get("parentId") == content["parentId"])
        )


def job(outcome, **more):
    return {"jobId": ARRAY, "jobName": "sim", "status": "RUNNABLE", "outcome": outcome} | more


class StopServer(ScriptedServer):
    """Records requests to stop jobs, and returns the responses that the test sets."""

    def __init__(self):
        super().__init__()
        self.requests = []
        self.jobs = []
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
        self.requests.append((request.match_info["operation"], content))
        if self.refuses:
            status, message = self.refuses
            return web.json_response({"message": message}, status=status)
        counts = {other_job["outcome"]: 1 for other_job in self.jobs}
        lines = [*self.jobs, {"counts": counts, "dryRun": content["dryRun"]}]
        answer = self.lines(lines).encode() if self.answer is None else self.answer
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


def row_of(described):
    """The job as GetJob returns it, from the JSON of DescribeJobs."""
    attempts, array = described["attempts"], described.get("arrayProperties", {})
    exit_code = attempts[-1]["container"].get("exitCode") if attempts else None
    kind = "TERMINATE" if described.get("isTerminated") else "CANCEL" if described.get("isCancelled") else None
    members = {
        **{member: described.get(member) for member in ("statusReason", "startedAt", "stoppedAt")},
        "exitCode": exit_code,
        "arraySize": array.get("size"),
        "statusSummary": array.get("statusSummary"),
        "stopOrder": kind and stop_order(kind),
    }
    given = {member: content for member, content in members.items() if content is not None}
    return row(described["jobName"], described["status"], **given)


class JobServer(ScriptedServer):
    """Each DescribeJobs returns the next state, and the last one again. `output`: the lines of each attempt."""

    def __init__(self):
        super().__init__()
        self.states = [state("SUCCEEDED", attempt())]
        self.output = {1: []}
        self.sentence = None
        #: What the latest attempt used; None: it was not measured.
        self.use = None
        #: What the job cost; None: the server has no prices.
        self.cost = None
        #: Why no compute environment could hold the submitted job; empty: one could.
        self.warning = ""
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
        #: Set when a stop is requested; a test may delay the end of the stop.
        self.stop_began, self.stop_may_end = asyncio.Event(), asyncio.Event()
        self.stop_may_end.set()
        self.submitted, self.stops, self.log_requests, self.described = [], [], [], 0
        self.is_followed = asyncio.Event()

    def app(self):
        app = web.Application(middlewares=[self._away])
        app.router.add_post("/v1/registerjobdefinition", self._register)
        app.router.add_post("/v1/describejobdefinitions", self._definitions)
        app.router.add_post("/v1/batchq/whoami", self._whoami)
        app.router.add_post("/v1/submitjob", self._submit)
        app.router.add_post("/v1/describejobs", self._describe)
        app.router.add_get("/v1/batchq/jobs/{id}", self._get)
        app.router.add_get("/v1/batchq/jobs/{id}/cost", self._cost)
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
        return self.json(request, {"jobDefinitionName": name, "revision": 1})

    async def _whoami(self, request):
        return self.json(request, caller())

    async def _definitions(self, request):
        return self.json(request, {"jobDefinitions": []})

    async def _submit(self, request):
        content = await request.json()
        if content["jobQueue"] == "none":
            return web.json_response({"message": "JobQueue none not found."}, status=400)
        self.submitted.append(content)
        self.requested.set()
        if self.is_mute:
            await asyncio.sleep(60)
        additions = {"batchq": {"warning": self.warning}} if self.warning else {}
        return self.json(request, {"jobId": JOB, "jobName": "train"} | additions)

    async def _describe(self, request):
        self.described += 1
        current = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if len(self.states) == 1:
            self.is_followed.set()
        return self.json(request, {"jobs": [current] if current else []})

    async def _get(self, request):
        use = {} if self.use is None else {"use": self.use}
        cost = {} if self.cost is None else {"cost": self.cost}
        return self.json(request, {"job": details(row_of(self.states[0]) | use, **cost)})

    async def _cost(self, request):
        return self.json(request, {"jobId": JOB, "cost": self.cost})

    async def _log(self, request):
        self.log_requests.append(request.match_info["id"])
        if self.log_refusal:
            return web.json_response({"message": self.log_refusal}, status=400)
        number, after = int(request.query["attempt"]), int(request.query.get("after", 0))
        found = self.output.get(number, [])[after : after + 2]
        over = after + len(found) >= len(self.output.get(number, []))
        lines = [{"at": 0, "message": text} for text in found]
        return self.json(request, {"lines": lines, "next": str(after + len(found)), "over": over})

    async def _why(self, request):
        if self.sentence is None:
            return web.json_response({"message": "No such operation."}, status=404)
        return self.json(request, explanation(self.sentence, jobId=JOB))

    async def _stop(self, request):
        verb = request.match_info["verb"].removesuffix("jobs")
        self.stops.append((verb, (await request.json())["jobs"]))
        self.stop_began.set()
        await self.stop_may_end.wait()
        outcome = {"cancel": "NOT_RETRIED", "terminate": "STOPPING"}[verb]
        if self.stopped is not None:
            self.states = [self.stopped]
        lines = [{"jobId": JOB, "outcome": outcome}, {"counts": {outcome: 1}, "dryRun": False}]
        return web.Response(text=self.lines(lines), content_type="application/x-ndjson")
