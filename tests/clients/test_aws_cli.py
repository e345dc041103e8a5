"""The AWS CLI, version 1: the commands people use, with --query."""

import json
import time

import pytest

from tests.service.waiting import PATIENCE, container, reaches

GROUP = "/aws/batch/job"


@pytest.fixture
def aws(client):
    """The words that a command of the CLI prints, by --output text."""

    def ask(*words, status=0):
        done = client.run("aws", *words, "--output", "text", status=status)
        return (done.stdout or done.stderr).split()

    return ask


@pytest.fixture
def submit(aws):
    def ask(name, *command):
        properties = json.dumps(container(*command))
        naming = ("--job-definition-name", name, "--type", "container", "--container-properties", properties)
        aws("batch", "register-job-definition", *naming)
        submitting = ("--job-name", name, "--job-queue", "default", "--job-definition", name, "--query", "jobId")
        (job,) = aws("batch", "submit-job", *submitting)
        return job

    return ask


def await_status(aws, job, status):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        (seen,) = aws("batch", "describe-jobs", "--jobs", job, "--query", "jobs[0].status")
        if seen == status:
            return
    raise AssertionError(f"{job} is {seen}, not {status}")


def test_a_job_is_submitted_watched_and_read(aws, submit):
    job = submit("cli-hello", "sh", "-c", "echo hello from the CLI")

    await_status(aws, job, "SUCCEEDED")

    exit_code, stream = aws(
        "batch", "describe-jobs", "--jobs", job, "--query", "jobs[0].container.[exitCode,logStreamName]"
    )
    assert exit_code == "0"
    reading = ("--log-group-name", GROUP, "--log-stream-name", stream, "--query", "events[].message")
    assert aws("logs", "get-log-events", *reading) == ["hello", "from", "the", "CLI"]
    describing = ("--log-group-name", GROUP, "--log-stream-name-prefix", "cli-hello/")
    assert aws("logs", "describe-log-streams", *describing, "--query", "logStreams[].logStreamName") == [stream]
    assert aws("logs", "filter-log-events", *reading[:2], "--log-stream-names", stream, "--query", "events[0].message")


def test_jobs_are_listed_by_status_and_by_name(aws, submit):
    job = submit("cli-listed", "sleep", "600")
    await_status(aws, job, "RUNNING")

    running = aws("batch", "list-jobs", "--job-queue", "default", "--query", "jobSummaryList[].jobId")
    named = aws(
        "batch", "list-jobs", "--job-queue", "default", "--filters", "name=JOB_NAME,values=cli-lis*",
        "--query", "jobSummaryList[].[jobId,status]",
    )  # fmt: skip

    assert job in running
    assert named == [job, "RUNNING"]
    aws("batch", "terminate-job", "--job-id", job, "--reason", "listed")


def test_a_running_job_is_terminated(aws, submit):
    job = submit("cli-sleeps", "sleep", "600")
    await_status(aws, job, "RUNNING")

    assert aws("batch", "terminate-job", "--job-id", job, "--reason", "enough") == []

    await_status(aws, job, "FAILED")
    printed = aws("batch", "describe-jobs", "--jobs", job, "--query", "jobs[0].[statusReason,isTerminated,isCancelled]")
    assert printed == ["enough", "True", "False"]


def test_a_waiting_job_is_cancelled(aws, submit, client):
    first = submit("cli-first", "sleep", "600")
    waiting = ("--job-name", "waits", "--job-queue", "default", "--job-definition", "cli-first")
    (second,) = aws("batch", "submit-job", *waiting, "--depends-on", f"jobId={first}", "--query", "jobId")

    aws("batch", "cancel-job", "--job-id", second, "--reason", "not-now")

    reaches(client.service.client(), second, "FAILED")
    printed = aws("batch", "describe-jobs", "--jobs", second, "--query", "jobs[0].[statusReason,isCancelled]")
    assert printed == ["not-now", "True"]
    aws("batch", "terminate-job", "--job-id", first, "--reason", "done")


def test_resources_are_made_shown_tagged_and_deleted(aws):
    resources = json.dumps({"type": "EC2", "minvCpus": 0, "maxvCpus": 2, "subnets": ["s"], "instanceRole": "r"})
    making = ("--compute-environment-name", "cli", "--type", "MANAGED", "--compute-resources", resources)
    aws("batch", "create-compute-environment", *making)
    order = ("--compute-environment-order", "order=1,computeEnvironment=cli")
    making = ("--job-queue-name", "cli", "--priority", "3", *order, "--query", "jobQueueArn")
    (arn,) = aws("batch", "create-job-queue", *making)
    aws("batch", "tag-resource", "--resource-arn", arn, "--tags", "team=blue")
    assert aws("batch", "list-tags-for-resource", "--resource-arn", arn, "--query", "tags.team") == ["blue"]
    aws("batch", "untag-resource", "--resource-arn", arn, "--tag-keys", "team")
    describing = (
        "batch",
        "describe-job-queues",
        "--job-queues",
        "cli",
        "--query",
        "jobQueues[].[state,status,priority]",
    )
    assert aws(*describing) == ["ENABLED", "VALID", "3"]

    aws("batch", "update-job-queue", "--job-queue", "cli", "--state", "DISABLED")
    aws("batch", "delete-job-queue", "--job-queue", "cli")
    aws("batch", "update-compute-environment", "--compute-environment", "cli", "--state", "DISABLED")
    aws("batch", "delete-compute-environment", "--compute-environment", "cli")

    assert aws(*describing) == []


def test_a_refusal_is_printed_as_the_services_own(aws):
    naming = ("--job-name", "lost", "--job-queue", "nowhere", "--job-definition", "nothing")

    printed = " ".join(aws("batch", "submit-job", *naming, status=255))

    assert "An error occurred (ClientException) when calling the SubmitJob operation" in printed
