"""An engine that answers invalid data: nothing of it is used, and nothing fails (EN24)."""

import asyncio
import threading
from contextlib import suppress
from itertools import product

import pytest

from batchq.compute.docker.operation_pools import Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.errors import ContainerRuntimeError, ImageUnavailable
from tests.support.containers import RUNTIME_CALLS
from tests.support.fake_engine import engine, responds


async def listen(runtime):
    async with runtime.deaths() as deaths:
        return [tag async for tag in deaths]


CALLS = RUNTIME_CALLS | {"deaths": listen}
BODIES = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b'"text"',
    b"[null]",
    b"[{}]",
    b"<html>502 Bad Gateway</html>",
    b"\xff\xfe\0",
    b'{"Id": 5, "State": null, "Config": [], "ApiVersion": "x.y"}',
    b'[{"Id": "i", "State": "dreaming", "Labels": {"io.batchq.instance": "i"}}]',
    b'[{"Id": "i", "State": 5, "Labels": {"io.batchq.instance": "i", "io.batchq.job": "j", "io.batchq.attempt": "1"}}]',
    b'{"error": {"not": "text"}}',
]
STATUSES = [200, 301, 404, 409, 500]
#: The same code reads the bodies of all error statuses: `make check` sends all bodies with 200 and 500, and two bodies
#: with the other statuses.
QUICK = {*product(BODIES, (200, 500)), *product(BODIES[3:5], STATUSES)}
RESPONSES = [
    pytest.param(*response, marks=() if response in QUICK else pytest.mark.exhaustive)
    for response in product(BODIES, STATUSES)
]


def breaks_off(handler):
    if handler.path.endswith("/version"):
        responds(200, b"")(handler)
        return
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"Id": "')
    handler.close_connection = True


async def breaks_nothing(url, calls):
    """Each call returns in time, or raises one of batchq's errors."""
    runtime = DockerRuntime(instance="i", base_url=url, limits=Limits(receive_timeout=2, pull_receive_timeout=2))
    try:
        for call in calls:
            with suppress(ContainerRuntimeError):
                async with asyncio.timeout(30):  # a few times the receive timeout, also on a busy machine
                    await call(runtime)
    finally:
        await runtime.close()


@pytest.mark.parametrize(("body", "status"), RESPONSES)
@pytest.mark.fault("EN24")
async def test_invalid_responses_raise_only_known_errors(tmp_path, status, body):
    with engine(tmp_path, responds(status, body)) as url:
        await breaks_nothing(url, CALLS.values())


@pytest.mark.parametrize("body", BODIES)
async def test_an_invalid_version_is_no_engine(tmp_path, body):
    with engine(tmp_path, responds(200, body, speaks_version=False)) as url:
        runtime = DockerRuntime(instance="i", base_url=url)

        with pytest.raises(ContainerRuntimeError):
            await runtime.survey()

        await runtime.close()


@pytest.mark.parametrize("first", [b"", b'{"status": "Pulling"}'], ids=["silent", "begun"])
@pytest.mark.fault("EN19")
async def test_a_pull_without_progress_fails_on_a_responsive_engine(tmp_path, first):
    go = threading.Event()

    def answer(handler):
        if "/images/create" not in handler.path:
            responds(200, b"OK")(handler)
            return
        if first:
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(first), first))
        go.wait(60)
        handler.close_connection = True

    with engine(tmp_path, answer) as url:
        runtime = DockerRuntime(instance="i", base_url=url, limits=Limits(pull_receive_timeout=0.2))

        with pytest.raises(ImageUnavailable, match="CannotPullContainerError: no progress"):
            await runtime.pull("slow:latest", None)

        go.set()
        await runtime.close()


@pytest.mark.parametrize("call", [call for name, call in CALLS.items() if name != "deaths"], ids=lambda _: "")
@pytest.mark.fault("EN24")
async def test_an_interrupted_response_is_no_answer(tmp_path, call):
    with engine(tmp_path, breaks_off) as url:
        runtime = DockerRuntime(instance="i", base_url=url)

        with pytest.raises(ContainerRuntimeError):
            await call(runtime)

        await runtime.close()
