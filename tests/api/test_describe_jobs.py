"""DescribeJobs."""

from datetime import timedelta

import pytest

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.describe_jobs import job_detail
from batchq.domain import events as on
from batchq.domain.ids import JobId, Tag
from batchq.services.job_views import JobView
from tests.api.conftest import ARN, CONTAINER
from tests.support import builders
from tests.support.builders import NOON

MS = 1795262400000  # noon
UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"


def task(job_id, attempt):
    return Tag(job_id=JobId(job_id), attempt=attempt).task_id


async def test_a_submitted_job_has_the_request_and_no_attempt(submit, described):
    request = {
        "parameters": {"a": "b"},
        "tags": {"team": "blue"},
        "timeout": {"attemptDurationSeconds": 90},
        "propagateTags": True,
    }
    retry = {"attempts": 3, "evaluateOnExit": [{"onExitCode": "1*", "action": "EXIT"}]}

    job = await described(await submit(**request, retryStrategy=retry, schedulingPriorityOverride=7))

    retry = {"attempts": 3, "evaluateOnExit": [{"onExitCode": "1*", "action": "exit"}]}
    assert (request | {"retryStrategy": retry, "schedulingPriority": 7, "attempts": []}).items() <= job.items()


async def test_an_active_job_has_a_task_and_from_its_start_a_log_stream(server, submit, described):
    job_id = await submit()
    await server.engine.happens(JobId(job_id), on.DependenciesMet(), on.Placed(environment="local"))
    starting = await described(job_id)
    await server.engine.happens(JobId(job_id), on.ContainerStarted(attempt=1, started_at=NOON))
    running = await described(job_id)

    container = starting["container"]
    assert starting["status"] == "STARTING"
    assert container["taskArn"] == f"arn:aws:ecs:eu-central-1:123456789012:task/batchq/{task(job_id, 1)}"
    assert container["containerInstanceArn"].startswith("arn:aws:ecs:eu-central-1:123456789012:container-instance/")
    assert ("logStreamName" in container, "startedAt" in starting) == (False, False)
    assert (running["status"], running["startedAt"], running["attempts"]) == ("RUNNING", MS, [])
    assert running["container"] == container | {"logStreamName": f"sleeper/default/{job_id}"}
    assert "stoppedAt" not in running


async def test_a_finished_job_has_its_times(server, submit, described):
    job_id = await submit()
    await server.runs(job_id)
    await server.ends(job_id)

    job = await described(job_id)

    for ended in (job, *job["attempts"]):
        assert (ended["startedAt"], ended["stoppedAt"]) == (MS, MS + 90000)


async def test_each_attempt_has_its_own_task_and_log_stream(server, submit, described):
    job_id = await submit(retryStrategy={"attempts": 2})
    await server.runs(job_id)
    await server.ends(job_id, exit_code=1)
    await server.runs(job_id, attempt=2)

    job = await described(job_id)

    assert [attempt["container"]["exitCode"] for attempt in job["attempts"]] == [1]
    assert job["attempts"][0]["container"]["logStreamName"] == f"sleeper/default/{task(job_id, 1)}"
    assert job["container"]["logStreamName"] == f"sleeper/default/{task(job_id, 2)}"
    assert "exitCode" not in job["container"]


async def test_an_attempt_that_never_started_has_a_reason_and_no_exit_code(server, submit, described):
    job_id = await submit()
    reason = "CannotPullContainerError: no such image"
    await server.engine.happens(
        JobId(job_id), on.DependenciesMet(), on.Placed(environment="local"), on.StartFailed(attempt=1, reason=reason)
    )

    job = await described(job_id)

    assert (job["status"], job["statusReason"]) == ("FAILED", "Task failed to start")
    assert job["container"]["reason"] == reason
    assert job["attempts"][0]["container"]["reason"] == reason
    assert "exitCode" not in job["container"]
    assert "logStreamName" not in job["container"]
    assert "startedAt" not in job


CREATED = "Host path '/scratch/dta' did not exist and was created."


@pytest.fixture
async def created(server, submit):
    """A RUNNING job whose host path did not exist."""
    job_id = await submit()
    await server.engine.happens(
        JobId(job_id),
        on.DependenciesMet(),
        on.Placed(environment="local"),
        on.ContainerCreated(attempt=1, container_id="first", created_host_paths=("/scratch/dta",)),
        on.ContainerCreated(attempt=1, container_id="second"),
        on.ContainerStarted(attempt=1, started_at=NOON),
    )
    return job_id


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"exit_code": 1}, None),
        ({"exit_code": 137, "out_of_memory": True}, "OutOfMemoryError: Container killed due to memory usage"),
    ],
)
async def test_the_reasons_of_a_running_job_and_of_a_failure_are_followed_by_a_host_path_that_was_created(
    server, created, described, end, reason
):
    running = await described(created)
    await server.engine.happens(JobId(created), on.ContainerExited(attempt=1, started_at=NOON, stopped_at=NOON, **end))

    job = await described(created)

    assert (running["statusReason"], running["container"]["reason"]) == (CREATED, CREATED)
    shown = CREATED if reason is None else f"{reason}. {CREATED}"
    assert job["statusReason"] == f"Essential container in task exited. {CREATED}"
    assert job["attempts"][0]["statusReason"] == "Essential container in task exited"
    assert [job["container"]["reason"], job["attempts"][0]["container"]["reason"]] == [shown, shown]


async def test_a_job_is_described_after_its_definition_was_deregistered(submit, described, boto):
    job_id = await submit()
    await boto.deregister_job_definition(jobDefinition="sleeper:1")

    job = await described(job_id)
    assert job["container"]["image"] == CONTAINER["image"]
    assert job["retryStrategy"] == {"attempts": 1, "evaluateOnExit": []}
    assert "timeout" not in job


def test_a_job_without_a_stored_definition_has_its_images():
    lost = builders.job(image="busybox", command=("true",), millicpus=250, memory_mib=64)

    container = job_detail(JobView(job=lost), BatchArns(account="123456789012", region="eu-central-1"))["container"]

    assert (container["image"], container["command"]) == ("busybox", ["true"])
    assert container["resourceRequirements"] == [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "64"}]


@pytest.mark.fault("IN19", "IN21")
async def test_jobs_are_described_in_the_requested_order_without_unknown_ones(submit, boto):
    first, second = await submit(), await submit()

    found = await boto.describe_jobs(
        jobs=[second, UNKNOWN_ID, "garbage", "", f"{ARN}job/{first}", second, "../../etc", f"{ARN}job-queue/x"]
    )
    elsewhere = await boto.describe_jobs(jobs=[f"{ARN.replace('123456789012', '210987654321')}job/{first}"])
    none = await boto.describe_jobs(jobs=[])

    assert [job["jobId"] for job in found["jobs"]] == [second, first]
    assert (elsewhere["jobs"], none["jobs"]) == ([], [])


@pytest.mark.fault("IN21")
async def test_a_hundred_ids_are_accepted_and_one_more_refused(submit, boto, refused):
    ids = [UNKNOWN_ID] * 99 + [await submit()]

    found = await boto.describe_jobs(jobs=ids)

    assert [job["jobId"] for job in found["jobs"]] == ids[-1:]
    assert "Maximum number of jobs supported is  100 ." in await refused("DescribeJobs", {"jobs": [*ids, UNKNOWN_ID]})


async def test_integers_are_returned_as_integers(server, submit, http):
    job_id = await submit(timeout={"attemptDurationSeconds": 60})
    await server.engine.happens(JobId(job_id), on.DependenciesMet(), on.Placed(environment="local"))
    odd = NOON + timedelta(microseconds=1999)
    await server.engine.happens(JobId(job_id), on.ContainerStarted(attempt=1, started_at=odd))

    _, _, answer = await http.post("DescribeJobs", {"jobs": [job_id]})

    job = answer["jobs"][0]
    assert repr((job["startedAt"], job["timeout"])) == repr((MS + 1, {"attemptDurationSeconds": 60}))
