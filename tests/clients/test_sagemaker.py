"""SageMaker's clients: boto3 with its waiter, the AWS CLI, and Airflow's operator."""

import json

import pytest

from tests.support.builders import IMAGE

TRAINER = (
    "trap 'touch /opt/ml/checkpoints/.x && mv /opt/ml/checkpoints/.x /opt/ml/checkpoints/step=7; exit 0' TERM; "
    "echo loss=0.25; cat /opt/ml/input/config/hyperparameters.json; echo; echo $SM_HP_LR $TRAINING_JOB_NAME; "
    "while true; do sleep 0.1; done"
)


def request(name, script, **members):
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["sh", "-c"],
            "ContainerArguments": [script],
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
        },
        "RoleArn": "arn:aws:iam::123456789012:role/any",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
        "ResourceConfig": {"InstanceType": "batchq.cpu.0.1u0.0625g", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **members,
    }


@pytest.fixture
def aws(client):
    """The JSON that a command of `aws sagemaker` prints; None if it prints nothing."""

    def ask(*words, status=0):
        done = client.run("aws", "sagemaker", *words, "--output", "json", status=status)
        return json.loads(done.stdout) if done.stdout.strip() else None

    return ask


def until_training(aws, name):
    for _ in range(100):
        found = aws("describe-training-job", "--training-job-name", name)
        if found["SecondaryStatus"] == "Training":
            return
    pytest.fail(f"{name} is {found['SecondaryStatus']}")


def test_the_cli_stops_a_trainer_that_writes_a_checkpoint_at_sigterm(aws, client):
    members = request("cli-stopped", TRAINER, HyperParameters={"lr": "0.1"}, CheckpointConfig={"S3Uri": "s3://b/k"})
    aws("create-training-job", "--cli-input-json", json.dumps(members))
    until_training(aws, "cli-stopped")

    aws("stop-training-job", "--training-job-name", "cli-stopped")
    aws("wait", "training-job-completed-or-stopped", "--training-job-name", "cli-stopped")

    job = aws("describe-training-job", "--training-job-name", "cli-stopped")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert [(metric["MetricName"], metric["Value"]) for metric in job["FinalMetricDataList"]] == [("loss", 0.25)]
    assert job["BillableTimeInSeconds"] >= 1
    named = ("--log-group-name", "/aws/sagemaker/TrainingJobs", "--log-stream-name-prefix", "cli-stopped/")
    log = client.run("aws", "logs", "filter-log-events", *named, "--query", "events[].message").stdout
    assert {'{"lr":"0.1"}', "0.1 cli-stopped"} <= set(json.loads(log))
    folders = client.service.data.parent.glob(f"{client.service.data.name}-checkpoints/*/step=7")
    assert len(list(folders)) == 1
    aws("delete-training-job", "--training-job-name", "cli-stopped")
    assert aws("list-training-jobs", "--name-contains", "cli-stopped")["TrainingJobSummaries"] == []


def test_inputs_and_the_model_are_folders_below_the_s3_root(aws, client):
    bucket = client.service.data.parent / "s3" / "bucket"
    (bucket / "in").mkdir(parents=True)
    (bucket / "in" / "x").write_text("data")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/in"}}
    script = "cat /opt/ml/input/data/train/x > /opt/ml/model/weights; ! touch /opt/ml/input/data/train/y"
    members = request("cli-stored", script, InputDataConfig=[{"ChannelName": "train", "DataSource": source}])

    aws("create-training-job", "--cli-input-json", json.dumps(members))
    aws("wait", "training-job-completed-or-stopped", "--training-job-name", "cli-stored")

    job = aws("describe-training-job", "--training-job-name", "cli-stored")
    assert job["TrainingJobStatus"] == "Completed"
    assert job["ModelArtifacts"] == {"S3ModelArtifacts": "s3://bucket/key/cli-stored/output/model/"}
    assert (bucket / "key" / "cli-stored" / "output" / "model" / "weights").read_text() == "data"


def test_airflow_trains_reads_the_log_and_reports_a_failure(client):
    done = client.run("python", client.program("airflow_training"), IMAGE)

    report = json.loads(done.stdout.splitlines()[-1])
    assert report["logged"] == "Completed"
    assert "AlgorithmError" in report["failed"]
    assert "already exists" in report["again"]
    assert "seen by airflow" in done.stdout
