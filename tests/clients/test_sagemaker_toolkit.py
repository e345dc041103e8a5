"""AWS's sagemaker-training, the entry of SageMaker's framework images, as the program of training jobs.

The toolkit reads its configuration, waits until all host names are resolved, trains, and states a failure in a file.
"""

import json

import pytest

from tests.clients.image import NAME

TRAIN = """
import argparse, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--fail")
given = parser.parse_args()
print("hosts", os.environ["SM_HOSTS"], "host", os.environ["SM_CURRENT_HOST"], "lr", given.lr)
print("channels", os.environ["SM_CHANNELS"], "type", os.environ["SM_CURRENT_INSTANCE_TYPE"])
if given.fail:
    raise SystemExit(3)
data = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "x").read_text()
if os.environ["SM_CURRENT_HOST"] == "algo-1":
    pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").write_text(data)
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "plot").write_text("plotted")
"""
TYPE = "batchq.cpu.0.5u0.5g"


@pytest.fixture
def bucket(client):
    """A bucket with the training script and its data."""
    folder = client.service.data.parent / "s3" / "toolkit"
    for name, content in (("code/train.py", TRAIN), ("in/x", "data")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def trained(client, image, bucket):
    """Run a training job to its end; returns its description and its log lines."""

    def aws(*words):
        done = client.run("aws", *words, "--output", "json")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def trained(name, *, instances=1, inputs="s3://toolkit/in", **hyperparameters):
        settings = {"sagemaker_program": "train.py", "sagemaker_submit_directory": "/opt/ml/input/data/code"}
        request = {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": NAME, "TrainingInputMode": "File"},
            "RoleArn": "arn:aws:iam::123456789012:role/any",
            "InputDataConfig": [channel("code", "s3://toolkit/code"), channel("train", inputs)],
            "OutputDataConfig": {"S3OutputPath": "s3://toolkit/out"},
            "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": instances, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 150},
            "HyperParameters": settings | hyperparameters,
        }
        aws("sagemaker", "create-training-job", "--cli-input-json", json.dumps(request))
        # The waiter has a status of its own for a job that failed.
        waits = ("wait", "training-job-completed-or-stopped", "--training-job-name", name)
        client.run("aws", "sagemaker", *waits, status=None)
        named = ("--log-group-name", "/aws/sagemaker/TrainingJobs", "--log-stream-name-prefix", f"{name}/")
        lines = aws("logs", "filter-log-events", *named, "--query", "events[].message")
        return aws("sagemaker", "describe-training-job", "--training-job-name", name), lines

    return trained


def channel(name, uri):
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}}


def test_the_toolkit_trains_on_two_instances_that_resolve_their_names(trained, bucket):
    job, lines = trained("toolkit-trained", instances=2, lr="0.5")

    assert job["TrainingJobStatus"] == "Completed", (job, lines)
    hosts = [f'hosts ["algo-1","algo-2"] host {name} lr 0.5' for name in ("algo-1", "algo-2")]
    assert {*hosts, f'channels ["code","train"] type {TYPE}'} <= set(lines)
    output = bucket / "out" / "toolkit-trained" / "output"
    assert (output / "model" / "weights").read_text() == "data"
    assert (output / "data" / "plot").read_text() == "plotted"


def test_the_toolkit_states_the_failure_of_the_script(trained):
    job, lines = trained("toolkit-failed", fail="yes")

    assert job["TrainingJobStatus"] == "Failed"
    assert 'hosts ["algo-1"] host algo-1 lr None' in lines
    reason = job["FailureReason"]
    assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 3\n"), (reason, lines)
    assert reason.endswith(", exit code: 1")


def test_a_missing_input_fails_the_job_and_is_not_created(trained, bucket):
    job, _ = trained("toolkit-missing", inputs="s3://toolkit/none")

    assert (job["TrainingJobStatus"], job["FailureReason"]) == (
        "Failed",
        "ClientError: Data download failed: No S3 objects found under S3 URL s3://toolkit/none",
    )
    assert not (bucket / "none").exists()
