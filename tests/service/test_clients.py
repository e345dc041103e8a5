"""Unmodified boto3 and AWS CLI with an endpoint URL, on real containers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.waiting import (
    PATIENCE,
    UNTIL_SIGNALLED,
    container,
    end_by_signal,
    reaches,
    register,
    wait_for_output,
)

AWS = Path(sys.executable).parent / "aws"
GROUP = "/aws/batch/job"

pytestmark = pytest.mark.docker


def aws(service, *words):
    """The output of a command of the AWS CLI."""
    done = subprocess.run(
        [AWS, *words], capture_output=True, text=True, timeout=PATIENCE, check=False, env=service.environment()
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def test_the_aws_cli_works_after_one_register_job_definition(docker_service):
    shown = json.dumps(container("sh", "-c", "echo hello from the CLI"))
    words = ("--job-definition-name", "hello", "--type", "container", "--container-properties", shown)
    aws(docker_service, "batch", "register-job-definition", *words)
    submitting = ("--job-name", "hello", "--job-queue", "default", "--job-definition", "hello")

    job = aws(docker_service, "batch", "submit-job", *submitting)["jobId"]

    reaches(docker_service.client(), job, "SUCCEEDED")
    (described,) = aws(docker_service, "batch", "describe-jobs", "--jobs", job)["jobs"]
    stream = described["container"]["logStreamName"]
    events = aws(docker_service, "logs", "get-log-events", "--log-group-name", GROUP, "--log-stream-name", stream)
    assert [event["message"] for event in events["events"]] == ["hello from the CLI"]
    assert aws(docker_service, "batch", "cancel-job", "--job-id", job, "--reason", "late") is None
    assert aws(docker_service, "batch", "terminate-job", "--job-id", job, "--reason", "late") is None
    assert aws(docker_service, "batch", "describe-jobs", "--jobs", job)["jobs"] == [described]


def test_boto3_creates_all_resources_and_stops_its_jobs(docker_service):
    batch = docker_service.client()
    batch.create_compute_environment(
        computeEnvironmentName="mine",
        type="MANAGED",
        computeResources={"type": "EC2", "minvCpus": 0, "maxvCpus": 4, "subnets": ["s"], "instanceRole": "r"},
    )
    batch.create_job_queue(
        jobQueueName="mine", priority=5, computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "mine"}]
    )
    register(batch, "sleeps", "sleep", "600")
    job = batch.submit_job(jobName="sleeps", jobQueue="mine", jobDefinition="sleeps", retryStrategy={"attempts": 3})
    reaches(batch, job["jobId"], "RUNNING")

    batch.terminate_job(jobId=job["jobId"], reason="seen enough")

    done = reaches(batch, job["jobId"], "FAILED")
    assert done["statusReason"] == "seen enough"
    assert (done["isTerminated"], done["isCancelled"]) == (True, False)
    assert [attempt["container"]["exitCode"] for attempt in done["attempts"]] == [137]
    assert done["attempts"][0]["statusReason"] == "seen enough"


def test_filter_log_events_follows_a_job_as_aws_logs_tail_does(docker_service):
    """The tail of AWS CLI 2: search again from the last event's time on, and drop the ids that were seen."""
    batch, logs = docker_service.client(), docker_service.client("logs")
    register(batch, "talks", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 1; done; sleep 600")
    job = batch.submit_job(jobName="talks", jobQueue="default", jobDefinition="talks")["jobId"]
    reaches(batch, job, "RUNNING")

    seen, since = {}, 0
    while len(seen) < 3:
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=GROUP, startTime=since):
            seen |= {event["eventId"]: event for event in page["events"]}
        since = max((event["timestamp"] for event in seen.values()), default=0)

    assert [event["message"] for event in seen.values()] == ["line 1", "line 2", "line 3"]
    assert reaches(batch, job, "RUNNING")
    batch.terminate_job(jobId=job, reason="enough")


def test_sigterm_leaves_running_containers_alone(docker_service):
    batch = docker_service.client()
    register(batch, "runs", *UNTIL_SIGNALLED)
    job = batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"]
    wait_for_output(docker_service, job, "ready")

    assert docker_service.stop() == 0

    (left,) = docker_service.containers()
    assert left["State"] == "running"
    docker_service.start()
    end_by_signal([left["Id"]])
    done = reaches(docker_service.client(), job, "SUCCEEDED")
    assert len(done["attempts"]) == 1
