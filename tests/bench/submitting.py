"""Durable SubmitJob calls a second over 32 connections, and the same server's answers that need no write."""

import asyncio
import json
import time

import aiohttp

from tests.support.service import Service

CONNECTIONS = 32
HEADERS = {"Content-Type": "application/json"}
SUBMIT = json.dumps({"jobName": "load", "jobQueue": "waiting", "jobDefinition": "true"}).encode()
DESCRIBE = json.dumps({"jobs": ["00000000-0000-4000-8000-000000000000"]}).encode()


def stage(service: Service) -> None:
    """A queue whose environment takes nothing, so that only the submitting is measured."""
    batch = service.client()
    batch.create_compute_environment(
        computeEnvironmentName="waiting",
        type="MANAGED",
        state="DISABLED",
        computeResources={"type": "EC2", "minvCpus": 0, "maxvCpus": 1, "subnets": [], "instanceRole": "none"},
    )
    order = [{"order": 1, "computeEnvironment": "waiting"}]
    batch.create_job_queue(jobQueueName="waiting", priority=1, computeEnvironmentOrder=order)


def rate(service: Service, path: str, body: bytes, count: int) -> float:
    return asyncio.run(_rate(f"{service.url}/v1/{path}", body, count))


async def _rate(url: str, body: bytes, count: int) -> float:
    left = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS), headers=HEADERS) as session:

        async def one_connection() -> None:
            for _ in left:
                async with session.post(url, data=body) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
        return count / (time.perf_counter() - began)
