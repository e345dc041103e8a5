"""The AWS CLI with the endpoint URL of the server."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from batchq.logs.service import GROUP
from tests.api.logs.conftest import REGION, STARTED

AWS = Path(sys.executable).with_name("aws")


@pytest.fixture
def aws(url):
    """Run `aws logs`, and answer what it printed as JSON."""

    async def run(*arguments):
        process = await asyncio.create_subprocess_exec(
            AWS,
            "logs",
            *arguments,
            env={
                "PATH": os.environ["PATH"],
                "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": url,
                "AWS_REGION": REGION,
                "AWS_DEFAULT_REGION": REGION,
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_OUTPUT": "json",
                "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out)

    return run


@pytest.mark.exhaustive
async def test_the_aws_cli_reads_filters_and_describes(aws, backend):
    stream = await backend.runs(*"abcde")

    last, filtered, streams = await asyncio.gather(
        aws("get-log-events", "--log-group-name", GROUP, "--log-stream-name", stream.name, "--limit", "2"),
        aws("filter-log-events", "--log-group-name", GROUP, "--filter-pattern", "?a ?e", "--page-size", "1"),
        aws("describe-log-streams", "--log-group-name", GROUP, "--order-by", "LastEventTime", "--descending"),
    )

    assert [event["message"] for event in last["events"]] == ["d", "e"]
    assert [event["timestamp"] for event in filtered["events"]] == [STARTED, STARTED + 4]
    assert [it["logStreamName"] for it in streams["logStreams"]] == [stream.name]
