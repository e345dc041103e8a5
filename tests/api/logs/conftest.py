"""CloudWatch Logs on loopback, with logs in memory, and its clients."""

import json

import aiohttp
import pytest

from batchq.api.auth.authentication import open_gate
from batchq.api.logs import routes
from batchq.api.serving import app as api
from batchq.domain.container import Logging
from batchq.domain.enums import Status
from batchq.logs.service import GROUP, CloudWatchLogs
from batchq.ports.jobs import Changes
from tests.api.conftest import ACCOUNT, REGION, boto_at
from tests.logs.fakes import Engine, StillClock
from tests.support.builders import ADMIN, NOON, job, log_stream
from tests.support.described import healthy, watch
from tests.support.inline import InlineLogFiles, InlineStore
from tests.support.parts import make_parts
from tests.support.server import serving
from tests.support.stubs import UNLIMITED, request_metrics

MILLISECOND = 10**6  # nanoseconds
STARTED = int(NOON.timestamp() * 1000)
FULL_NAME = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{GROUP}"


class LogBackend:
    """The backend of the server: running jobs and their output."""

    def __init__(self, archive):
        self.store = InlineStore()
        self.engine = Engine()
        self.clock = StillClock()
        self.logs = CloudWatchLogs(
            store=self.store, archive=archive, runtime=self.engine, clock=self.clock, quota=UNLIMITED
        )

    async def runs(self, *lines, name=None, created_at=NOON, group=None):
        """A running job that has written lines, a millisecond between them. Returns its stream."""
        of = job(status=Status.RUNNING, logging=Logging(group=group))
        stream = log_stream(of, created_at=created_at, **({"name": name} if name else {}))
        await self.store.commit(Changes(inserted=(of,), streams=(stream,)))
        self.writes(stream, *lines)
        return stream

    def writes(self, stream, *lines, after=0):
        """`after` milliseconds from the start."""
        for number, line in enumerate(lines):
            self.engine.write(stream.tag, line, at=(STARTED + after + number) * MILLISECOND)
        self.clock.pass_seconds(1)


class Raw:
    """Sends requests without a client library. Returns the status, the headers and the parsed response."""

    def __init__(self, session, url):
        self._session = session
        self._url = url

    async def post(self, operation, content=None, *, body=None, **headers):
        given = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"Logs_20140328.{operation}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in given.items() if value is not None}
        data = json.dumps(content).encode() if body is None else body
        async with self._session.post(self._url, data=data, headers=kept) as answer:
            return answer.status, answer.headers, json.loads(await answer.read())


@pytest.fixture
def archive(request):
    return getattr(request, "param", None) or InlineLogFiles()


@pytest.fixture
def backend(archive):
    return LogBackend(archive)


@pytest.fixture
async def url(backend):
    parts = make_parts(logs=backend.logs, account=ACCOUNT, installed_at=NOON)

    app = api.build(
        requests=request_metrics(),
        dialects=[routes.dialect(parts)],
        health=healthy,
        hosts=[],
        gate=open_gate(ADMIN.user, now=lambda: NOON),
    )
    app.middlewares.insert(0, watch(undescribed := []))
    async with serving(app) as url:
        yield url
    assert undescribed == []


@pytest.fixture
async def boto(url):
    with boto_at(url, "logs") as boto:
        yield boto


@pytest.fixture
async def raw(url):
    async with aiohttp.ClientSession() as session:
        yield Raw(session, url)


@pytest.fixture
def refused(raw):
    """Send an invalid request; returns the text of the error."""

    async def refused(operation, content=None, *, body=None, code="InvalidParameterException"):
        status, headers, answer = await raw.post(operation, content, body=body)
        assert (status, headers["x-amzn-ErrorType"], answer["__type"]) == (400, code, code)
        return answer["message"]

    return refused
