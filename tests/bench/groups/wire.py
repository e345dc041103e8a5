"""Submissions a second, against a server that does nothing with them."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import boto3
from botocore.config import Config

from tests.bench.beside import beside
from tests.bench.figures import Figure, Scale, at_least, compared
from tests.bench.services import DISABLED_QUEUE, create_queues, simulated
from tests.bench.wire import request, send

CONNECTIONS = 32
THREADS = 4
SUBMIT = {
    "jobName": "load",
    "jobQueue": DISABLED_QUEUE,
    "jobDefinition": "true",
    "containerOverrides": {
        "command": ["python", "simulate.py", "--input", "s3://bucket/in/part-0001.csv", "--seed", "17"],
        "environment": [{"name": f"SETTING_{number}", "value": f"value-{number}" * 4} for number in range(10)],
    },
    "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"onExitCode": "137", "action": "RETRY"}]},
    "timeout": {"attemptDurationSeconds": 3600},
    "tags": {"project": "bench"},
}


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "data") as service, beside("parsing") as parsing, beside("instant") as instant:
        create_queues(service.client())
        yield compared(
            scale.pairs,
            lambda: submitted_raw(parsing, scale.submits),
            lambda: submitted_raw(service.url, scale.submits),
            name=f"SubmitJob/s, durable, {CONNECTIONS} connections",
            against="the same server's handler, parsing and validating only",
            goal=at_least(0.5),
        )
        yield compared(
            scale.pairs,
            lambda: submitted_by_boto3(instant, scale.calls),
            lambda: submitted_by_boto3(service.url, scale.calls),
            name=f"SubmitJob/s by boto3, 1 process of {THREADS} threads",
            against="a server that replies at once",
            goal=at_least(0.9),
        )


def submitted_raw(url: str, count: int) -> float:
    return send(url, repeat(request("submitjob", **SUBMIT), count), connections=CONNECTIONS).rate


def submitted_by_boto3(url: str, count: int) -> float:
    batch = boto3.client(
        "batch",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(max_pool_connections=THREADS),
    )
    batch.submit_job(**SUBMIT)  # the first call opens the connection, and reads the service's model
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda _: batch.submit_job(**SUBMIT), range(count)))
    return count / (time.perf_counter() - began)
