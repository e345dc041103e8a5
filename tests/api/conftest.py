"""A server with the whole API on loopback, and two clients: boto3 and plain HTTP."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, partial
from socket import create_server

import aiohttp
import botocore.session
import pytest
from aiohttp import web, web_app
from botocore.config import Config
from yarl import URL

from batchq.api.auth.authentication import open_gate
from batchq.api.batch import routes as batch_routes
from batchq.api.native import accounts, activity, bulk_stop, groups, job_details, job_search, machines, overview
from batchq.api.native import jobs as native_jobs
from batchq.api.serving import app as api
from batchq.api.serving.server import ListeningSite
from batchq.api.training.modelarts import operations as modelarts
from batchq.domain import events as on
from batchq.domain.ids import JobId
from batchq.ports.responses.server import HealthReport
from tests.api.fakes import ACCOUNT, Backend
from tests.support.answers import parsed
from tests.support.builders import ADMIN, NOON
from tests.support.described import watch
from tests.support.stubs import request_metrics

REGION = "eu-central-1"  # of the client; the server's own is another
ARN = f"arn:aws:batch:{REGION}:{ACCOUNT}:"
BOTOCORE = botocore.session.get_session()
THREADS = ThreadPoolExecutor(thread_name_prefix="boto3")
PLACEHOLDER = "http://server.invalid"


def requirements(**values):
    return [{"type": kind, "value": amount} for kind, amount in values.items()]


CONTAINER = {
    "image": "batchq-test:latest",
    "command": ["sleep", "1"],
    "resourceRequirements": requirements(VCPU="1", MEMORY="64"),
}


def padded(request, size):
    """The JSON of the request, of exactly `size` bytes."""
    bare = json.dumps(request | {"parameters": {"x": ""}})
    return json.dumps(request | {"parameters": {"x": "y" * (size - len(bare))}}).encode()


class Server(Backend):
    """The backend behind HTTP.

    `changed_by_errors`: the requests that were refused and changed stored data.
    `undescribed`: the responses that /openapi.json does not describe.
    """

    def __init__(self):
        super().__init__()
        self.health = HealthReport(status="ok")
        self.changed_by_errors = []
        self.undescribed = []
        self._begun = self._under_way = 0
        tables = (
            native_jobs.operations,
            bulk_stop.operations,
            job_search.operations,
            groups.operations,
            job_details.operations,
            machines.operations,
            overview.operations,
            activity.operations,
            accounts.operations,
        )
        dialects = [table.dialect(self.parts) for table in (batch_routes, *tables, modelarts)]
        app = api.build(
            requests=request_metrics(),
            dialects=dialects,
            health=self.report_health,
            hosts=["batchq.example"],
            gate=open_gate(ADMIN.user, now=lambda: NOON),
        )
        app.middlewares.insert(0, self._watch())
        app.middlewares.insert(0, watch(self.undescribed))
        self._runner = api.runner(app, drain_seconds=1)

    def _watch(self):
        """Ignores concurrent requests: a change may be that of another request."""

        @web.middleware
        async def watch(request, handler):
            alone, before = self._under_way == 0, self.store.connection.total_changes
            self._begun += 1
            self._under_way += 1
            number = self._begun
            try:
                answer = await handler(request)
            finally:
                self._under_way -= 1
            alone = alone and number == self._begun
            if alone and 400 <= answer.status < 500 and self.store.connection.total_changes != before:
                self.changed_by_errors.append(f"{request.method} {request.path}: {answer.status}")
            return answer

        return watch

    async def start(self):
        await self._runner.setup()
        await ListeningSite(self._runner, listener=create_server(("127.0.0.1", 0)), certificate=None).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self):
        await self._runner.cleanup()
        await self.store.close()
        web_app._cached_build_middleware.cache_clear()  # else a process keeps the servers of 1,024 tests in memory

    async def report_health(self):
        return self.health

    async def runs(self, job_id, *, attempt=1):
        """Apply the events until the job is RUNNING."""
        events = [on.DependenciesMet()] if attempt == 1 else []
        events += [on.Placed(environment="local"), on.ContainerStarted(attempt=attempt, started_at=NOON)]
        await self.engine.happens(JobId(job_id), *events)

    async def ends(self, job_id, *, exit_code=0, attempt=1):
        stopped = NOON + timedelta(seconds=90)
        event = on.ContainerExited(attempt=attempt, exit_code=exit_code, started_at=NOON, stopped_at=stopped)
        await self.engine.happens(JobId(job_id), event)


class Boto:
    """A boto3 client with awaitable calls, because the server runs in the same event loop."""

    def __init__(self, client):
        self._client = client
        self.exceptions = client.exceptions

    def __getattr__(self, name):
        return partial(in_thread, getattr(self._client, name))

    async def pages(self, operation, **members):
        """All pages of a list operation."""
        return await in_thread(lambda: list(self._client.get_paginator(operation).paginate(**members)))


async def in_thread(call, *args, **kwargs):
    """As `asyncio.to_thread`, on threads that all tests share."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, partial(call, *args, **kwargs))


@cache
def client_of(service):
    """Shared by all tests of a process, since to create a client takes longer than most tests. See `boto_at`."""
    return BOTOCORE.create_client(
        service,
        endpoint_url=PLACEHOLDER,
        region_name=REGION,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"max_attempts": 1}),
    )


@contextmanager
def boto_at(url, service):
    """A client of the service whose requests are sent to `url`."""

    def redirect(params, **_):
        params["url"] = params["url"].replace(PLACEHOLDER, url, 1)

    client = client_of(service)
    client.meta.events.register("before-call", redirect)
    yield Boto(client)
    client.meta.events.unregister("before-call", redirect)
    client.close()  # its connections: the next server may have the same port


class Http:
    """Sends raw requests, without a client library that would correct them."""

    def __init__(self, session, url):
        self._session = session
        self._url = url

    async def post(self, operation, content=None, *, body=None, **headers):
        """POST `content` as JSON, or `body`, to an operation. Returns status, headers and the parsed response."""
        body = json.dumps(content).encode() if body is None else body
        return await self.send("POST", f"/v1/{operation.lower()}", data=body, **headers)

    async def send(self, method, path, *, data=None, **headers):
        """A header that is None is not sent."""
        given = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        sent = {name: value for name, value in given.items() if value is not None}
        url = URL(self._url + path, encoded=True)
        async with self._session.request(
            method, url, data=data, headers=sent, skip_auto_headers=given.keys() - sent.keys()
        ) as answer:
            return answer.status, answer.headers, parsed(await answer.read(), answer.content_type)


@pytest.fixture
async def server():
    server = Server()
    await server.start()
    yield server
    await server.stop()
    assert server.changed_by_errors == [], "a refused request changed stored data"
    assert server.undescribed == [], "a response is not as /openapi.json describes it"


@pytest.fixture
async def default_queue(server):
    """The environment `local` and the queue `default`."""
    await server.create_default_queue()


@pytest.fixture
async def boto(server):
    with boto_at(server.url, "batch") as boto:
        yield boto


@pytest.fixture
async def http(server):
    async with aiohttp.ClientSession() as session:
        yield Http(session, server.url)


@pytest.fixture
def refused(http):
    """Send an invalid request; returns the text of the error. The fixture `server` checks that nothing was stored."""

    async def refused(operation, content=None, *, body=None):
        status, headers, answer = await http.post(operation, content, body=body)
        assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException"), answer
        return answer["message"]

    return refused


@pytest.fixture
def refuses(http):
    """Send the requests of a table: each must be refused with its text. The fixture `server` checks that none is saved.

    One server serves the whole table: a server costs more than a request.
    """

    async def refuses(operation, table, /, **common):
        wrong = []
        for members, text in table:
            status, headers, answer = await http.post(operation, common | members)
            if (status, headers.get("x-amzn-ErrorType")) != (400, "ClientException") or text not in answer["message"]:
                wrong.append((members, text, answer))
        assert wrong == []

    return refuses


@pytest.fixture
def accepts(http):
    """Send the requests of a list: each must be accepted."""

    async def accepts(operation, requests, /, **common):
        answers = [(members, await http.post(operation, common | members)) for members in requests]
        assert [(members, answer) for members, (status, _, answer) in answers if status != 200] == []

    return accepts


@pytest.fixture
def accepted(http):
    """Send a valid request; returns the response."""

    async def accepted(operation, content=None, *, body=None):
        status, _, answer = await http.post(operation, content, body=body)
        assert status == 200, answer
        return answer

    return accepted


@pytest.fixture
async def sleeper(default_queue, boto):
    """The ARN of the job definition `sleeper`."""
    made = await boto.register_job_definition(
        jobDefinitionName="sleeper", type="container", containerProperties=CONTAINER
    )
    return made["jobDefinitionArn"]


@pytest.fixture
async def submit(sleeper, boto):
    """Submit a job of `sleeper` to `default`; returns its id."""

    async def submit(name="a-job", **members):
        made = await boto.submit_job(jobName=name, **{"jobQueue": "default", "jobDefinition": "sleeper"} | members)
        return made["jobId"]

    return submit


@pytest.fixture
async def described(boto):
    """Describe one job with DescribeJobs."""

    async def described(job_id):
        return (await boto.describe_jobs(jobs=[job_id]))["jobs"][0]

    return described


@pytest.fixture
async def registered(accepted, server):
    """Register a definition, and return the stored one."""

    async def registered(members):
        answer = await accepted("RegisterJobDefinition", members)
        return await server.catalog.definitions.find(answer["jobDefinitionName"], None, caller=ADMIN)

    return registered
