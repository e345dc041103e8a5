"""Baseline servers. `python -m tests.bench.beside parsing|shaping|instant` serves until its input ends.

`parsing` is the application of batchq with one handler, which parses and validates the body of SubmitJob; `shaping`
checks its shape only; `instant` answers every request with the same bytes.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from batchq.api.auth.authentication import open_gate
from batchq.api.batch import routes, submit_job
from batchq.api.batch.submit_job import SubmitJob
from batchq.api.serving import app as http
from batchq.cli.serve import tune_gc
from batchq.domain.access.accounts import Permission, UserName
from batchq.domain.overrides import merge
from batchq.system.clock import SystemClock
from tests.support.builders import definition
from tests.support.parts import make_parts
from tests.support.server import serving as site
from tests.support.stubs import request_metrics

JOB_ID = "00000000-0000-4000-8000-000000000000"
ANSWER = {"jobArn": f"arn:aws:batch:us-east-1:123456789012:job/{JOB_ID}", "jobName": "load", "jobId": JOB_ID}
RESPONSE = http.reply(ANSWER).body
DEFINITION = definition(name="true", command=("true",), memory_mib=32)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


@contextmanager
def beside(kind: str) -> Iterator[str]:
    """The URL of such a server, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.beside", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()


async def shaped(_parts, _call, body: SubmitJob):
    return ANSWER


async def validated(parts, call, body: SubmitJob):
    requested = submit_job.to_job_request(
        body, arns=call.arns, limits=parts.limits, key=submit_job.submission_key(call)
    )
    merge(requested, DEFINITION, requested.parameters)
    return ANSWER


def dialect(handler):
    submit = routes.batch_operation("SubmitJob", Permission.SELF, handler, check_body=submit_job.check_submission_size)
    return routes.batch_table([submit]).dialect(make_parts(clock=SystemClock()))


async def nothing():
    return {}


class Instant(asyncio.Protocol):
    def connection_made(self, transport):
        self._transport, self._received = transport, b""

    def data_received(self, data):
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self._received = b""
            self._transport.write(HEAD + str(len(RESPONSE)).encode() + b"\r\n\r\n" + RESPONSE)


async def serve(kind: str) -> None:
    loop = asyncio.get_running_loop()
    if kind == "instant":
        server = await loop.create_server(Instant, "127.0.0.1", 0)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        return
    mount = dialect({"parsing": validated, "shaping": shaped}[kind])
    gate = open_gate(UserName("bench"), now=SystemClock().now)
    app = http.build(requests=request_metrics(), dialects=[mount], health=nothing, hosts=(), gate=gate)
    async with site(app) as url:
        print(url, flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    tune_gc()  # as the server that it is compared with
    asyncio.run(serve(sys.argv[1]))
