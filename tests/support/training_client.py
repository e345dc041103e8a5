"""Calls the training dialect of a World in the same process: the whole middleware, without sockets."""

import asyncio
import json

from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.auth.authentication import open_gate
from batchq.api.serving import app as api
from batchq.api.training.rest.operations import dialect
from batchq.services.job_reads import JobSearchService
from batchq.services.training import CheckpointService
from tests.support.described import healthy, watch
from tests.support.parts import LIMITS, make_parts
from tests.support.stubs import request_metrics

JOBS = "/v2/training/jobs"


class Answer(Struct, frozen=True):
    """A response."""

    status: int
    #: The parsed body; None without one.
    content: object
    headers: dict[str, str]

    def __getitem__(self, member):
        return self.content[member]


class Journal:
    """Takes audit records, and stores none."""

    def append(self, record):
        pass


class TrainingClient:
    """`undescribed`: the responses that /openapi.json does not describe."""

    def __init__(self, world):
        self.undescribed = []
        self._world = world

    def _application(self):
        """The application of the present server of the world."""
        world, server = self._world, self._world.server
        parts = make_parts(
            jobs=world.jobs,
            submissions=world.submissions,
            search=JobSearchService(
                engine=world.engine, store=world.store, directory=lambda: world.people, queues=world.catalog.queues_of
            ),
            job_log=server.job_log,
            events=server.events,
            costs=server.costs,
            checkpoints=CheckpointService(
                engine=world.engine,
                store=world.store,
                checkpoints=world.checkpoints,
                journal=Journal(),
                clock=world.clock,
            ),
            clock=world.clock,
            limits=replace(LIMITS, min_timeout=1),
        )
        app = api.build(
            requests=request_metrics(),
            dialects=[dialect(parts)],
            health=healthy,
            hosts=[],
            gate=open_gate(world.caller.user, now=world.clock.now),
        )
        app.middlewares.insert(0, watch(self.undescribed))
        app.freeze()
        return app

    async def ask(self, method, path, content=None, **headers):
        """Send a request with a JSON body, or without one."""
        body = b"" if content is None else json.dumps(content).encode()
        sent = {"Host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if content is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        payload = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16)
        payload.feed_data(body)
        payload.feed_eof()
        app = self._application()
        request = make_mocked_request(method, JOBS + path, headers=sent, payload=payload, app=app)
        response = await app._handle(request)
        text = response.body
        return Answer(response.status, json.loads(text) if text else None, dict(response.headers))

    async def show(self, job_id, query=""):
        answer = await self.ask("GET", f"/{job_id}{query}")
        assert answer.status == 200, answer
        return answer

    async def cancel(self, job_id, **members):
        return await self.ask("POST", f"/{job_id}/cancel", members)
