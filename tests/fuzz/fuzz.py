"""schemathesis against a real server with simulated containers, from /openapi.json."""

import json
import os
import socketserver
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

from tests.service.waiting import register
from tests.support.service import serving

ROOT = Path(__file__).parents[2]
REQUEST_TIMEOUT = 10.0  # seconds
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
)


# Values by member that make requests valid; `fuzzed_server` adds those of existing resources.
VALID_VALUES = {
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
    "image_url": "there",
    "command": "true",
    "flavor_id": "batchq.cpu.1u1g",
    "pool_id": "default",
    "action_type": "terminate",
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
    "targetNodes": "0:",
    "logGroupName": "/aws/batch/job",
    "TrainingJobName": "there",
    "TrainingImage": "there",
    "InstanceType": "batchq.cpu.1u1g",
    "Tags": [],
    "NameContains": "there",
    "webhookName": "new",
    "url": "http://127.0.0.1:9/",
}


@contextmanager
def fuzzed_server(data, *flags):
    """A server with a resource for each name in VALID_VALUES, and the valid values by member."""
    with serving(data, "--runtime", "simulated", "--webhook-hosts", "127.0.0.1:9", *flags) as service:
        batch = service.client()
        register(batch, "there", "true")
        batch.create_consumable_resource(consumableResourceName="there", totalQuantity=10)
        policy = batch.create_scheduling_policy(name="there", fairsharePolicy={})["arn"]
        job = batch.submit_job(jobName="there", jobQueue="default", jobDefinition="there")["jobId"]
        service.client("sagemaker").create_training_job(
            TrainingJobName="there",
            AlgorithmSpecification={"TrainingImage": "there", "TrainingInputMode": "File"},
            RoleArn="arn:aws:iam::123456789012:role/there",
            OutputDataConfig={"S3OutputPath": "s3://there"},
            ResourceConfig={"InstanceType": "batchq.cpu.1u1g", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 600},
        )
        hook = {"webhookName": "there", "url": VALID_VALUES["url"]}
        _, created = service.native("createwebhook", hook)
        webhook = created["webhook"]["webhookId"]
        yield (
            service,
            VALID_VALUES
            | {"arn": policy, "webhook": webhook}
            | dict.fromkeys(["jobId", "arrayJobId", "multiNodeJobId"], job),
        )


def fuzz(service, valid_values, *, examples, seed, phases="coverage,fuzzing", url=None, paths=None):
    """Run schemathesis. Returns the finished process; its exit status is 0 if it found nothing.

    `url`: where to call the service, if not at its port. `paths`: a pattern of the paths that are called; None: all.
    """
    schemathesis = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(Path(__file__).with_suffix(".toml"))]
    command = [*schemathesis, "run", f"{url or service.url}/openapi.json", "--no-color"]
    options = ["--phases", phases, "--checks", ",".join(CHECKS), "--warnings", "off", "--continue-on-failure"]
    bounds = ["--max-examples", str(examples), "--seed", str(seed), "--request-timeout", str(REQUEST_TIMEOUT)]
    selected = [] if paths is None else ["--include-path-regex", paths]
    variables = {"SCHEMATHESIS_HOOKS": "tests.fuzz.hooks", "BATCHQ_VALID_VALUES": json.dumps(valid_values)}
    return subprocess.run(
        [*command, *options, *bounds, *selected],
        cwd=service.data.parent,
        env=os.environ | variables | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextmanager
def forwarded(path):
    """The URL of the port."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self):
            with socket(AF_UNIX, SOCK_STREAM) as server:
                server.connect(str(path))
                back = threading.Thread(target=copy, args=(server, self.request))
                back.start()
                copy(self.request, server)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as port:
        port.daemon_threads = True
        serving = threading.Thread(target=port.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{port.server_address[1]}"
        finally:
            port.shutdown()
            serving.join()


def copy(source, target):
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(SHUT_WR)
    except OSError:
        pass
