"""schemathesis asks a real server, on simulated containers, what /openapi.json says it can be asked, and what not."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from tests.service.waiting import register
from tests.support.service import serving

ROOT = Path(__file__).parents[2]
HANGS_AFTER = 10.0  # seconds
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
)


# By member, what a request may say so that it makes sense; beside what `grounded` adds.
SENSE = {
    "jobName": "there",
    "jobQueue": "default",
    "jobQueueName": "new",
    "jobDefinition": "there",
    "jobDefinitionName": "there",
    "computeEnvironment": "local",
    "computeEnvironmentName": "new",
    "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "local"}],
    "consumableResource": "there",
    "consumableResourceName": "new",
    "image": "there",
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
    "targetNodes": "0:",
    "logGroupName": "/aws/batch/job",
}


@contextmanager
def grounded(data):
    """A server that has something by each name that requests may say; and what they may say."""
    with serving(data, "--runtime", "simulated") as service:
        batch = service.client()
        register(batch, "there", "true")
        batch.create_consumable_resource(consumableResourceName="there", totalQuantity=10)
        policy = batch.create_scheduling_policy(name="there", fairsharePolicy={})["arn"]
        job = batch.submit_job(jobName="there", jobQueue="default", jobDefinition="there")["jobId"]
        yield service, SENSE | {"arn": policy} | dict.fromkeys(["jobId", "arrayJobId", "multiNodeJobId"], job)


def fuzz(service, there, *, examples, seed, phases="coverage,fuzzing"):
    """What schemathesis found, in its own words; its exit status is 0 when that is nothing."""
    schemathesis = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(Path(__file__).with_suffix(".toml"))]
    command = [*schemathesis, "run", f"{service.url}/openapi.json", "--no-color"]
    options = ["--phases", phases, "--checks", ",".join(CHECKS), "--warnings", "off", "--continue-on-failure"]
    bounds = ["--max-examples", str(examples), "--seed", str(seed), "--request-timeout", str(HANGS_AFTER)]
    told = {"SCHEMATHESIS_HOOKS": "tests.fuzz.hooks", "BATCHQ_THERE": json.dumps(there)}
    return subprocess.run(
        [*command, *options, *bounds],
        cwd=service.data.parent,
        env=os.environ | told | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
