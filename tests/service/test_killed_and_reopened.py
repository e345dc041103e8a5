"""Data of a server that was killed: the next server describes all of it identically."""

import pytest

from batchq.compute.simulated.script import Script
from batchq.store.backup import check_file
from tests.service.job_queue import playing, run
from tests.service.waiting import container, reaches
from tests.support.service import serving_forked

LOGS = "/aws/batch/job"
PRINTS = Script(output=("one line", "another line"))
FAILS = Script(exit_code=3)
NEVER = Script(seconds=None)
STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
SECONDS = 300  # longer than any wait below: a share's usage does not decay to another number meanwhile


@pytest.fixture
def service(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


def test_the_data_of_a_killed_server_is_described_identically_by_the_next(service):
    make_catalog(service)
    jobs = make_jobs(service)
    before = describe(service, jobs)
    assert [what for what, found in before.items() if not found] == []

    service.kill()
    service.start()

    assert describe(service, jobs) == before
    assert check_file(service.data / "batchq.db").problems == ()


# -------------------------------------------------------------------------------------------------- what the data holds


def make_catalog(service):
    batch = service.client()
    run("account", "add", "lab", "--data", service.data)
    run("user", "add", "amy", "--role", "admin", "--data", service.data)
    run("user", "add", "ada", "--account", "lab", "--data", service.data)
    run("key", "create", "--user", "ada", "--data", service.data)
    shares = [{"shareIdentifier": "red*", "weightFactor": 0.5}]
    policy = batch.create_scheduling_policy(
        name="fair",
        fairsharePolicy={"shareDecaySeconds": SECONDS, "computeReservation": 10, "shareDistribution": shares},
        tags={"a": "b"},
    )
    batch.create_compute_environment(
        computeEnvironmentName="large",
        type="MANAGED",
        computeResources={"type": "EC2", "minvCpus": 0, "maxvCpus": 8, "subnets": [], "instanceRole": "none"},
        tags={"where": "here"},
    )
    for name, more in {"plain": {}, "shared": {"schedulingPolicyArn": policy["arn"]}}.items():
        order = [{"order": 1, "computeEnvironment": "large"}]
        batch.create_job_queue(jobQueueName=name, priority=5, computeEnvironmentOrder=order, **more)
    batch.create_consumable_resource(consumableResourceName="licences", totalQuantity=9, resourceType="REPLENISHABLE")
    batch.create_consumable_resource(consumableResourceName="tokens", totalQuantity=5, resourceType="NON_REPLENISHABLE")
    batch.update_consumable_resource(consumableResource="licences", operation="ADD", quantity=1)
    for name, script in {"prints": PRINTS, "fails": FAILS, "never": NEVER}.items():
        register(batch, name, script)
    register(batch, "prints", PRINTS)
    batch.deregister_job_definition(jobDefinition="prints:2")
    batch.register_job_definition(
        jobDefinitionName="too-large", type="container", containerProperties=container("true", vcpus=64)
    )
    nodes = [{"targetNodes": "0:", "container": playing(PRINTS)}]
    batch.register_job_definition(
        jobDefinitionName="nodes",
        type="multinode",
        nodeProperties={"numNodes": 2, "mainNode": 0, "nodeRangeProperties": nodes},
    )
    several = [playing(PRINTS) | {"name": name, "essential": name == "main"} for name in ("main", "sidecar")]
    batch.register_job_definition(
        jobDefinitionName="task", type="container", ecsProperties={"taskProperties": [{"containers": several}]}
    )


def register(batch, name, script):
    batch.register_job_definition(
        jobDefinitionName=name,
        type="container",
        containerProperties=playing(script),
        retryStrategy={"attempts": 2},
        timeout={"attemptDurationSeconds": 3600},
        tags={"made": "once"},
    )


def make_jobs(service):
    """The ids of jobs that are all at rest: over, or waiting for what does not come."""
    batch = service.client()

    def submit(definition, queue="plain", **more):
        members = {"jobName": "a-job", "jobQueue": queue, "jobDefinition": definition}
        return batch.submit_job(**members, **more)["jobId"]

    consumes = {
        "consumableResourceList": [{"consumableResource": name, "quantity": 1} for name in ("licences", "tokens")]
    }
    done = submit("prints:1", tags={"x": "y"}, propagateTags=True, consumableResourcePropertiesOverride=consumes)
    shared = submit("prints:1", "shared", shareIdentifier="red1", schedulingPriorityOverride=3)
    over = [
        done,
        shared,
        submit("fails"),
        submit("nodes"),
        submit("task"),
        submit("prints:1", arrayProperties={"size": 3}),
    ]
    for job in over:
        reaches(batch, job, "SUCCEEDED", "FAILED")
    terminated, swept = submit("never"), submit("never")
    for job in (terminated, swept):
        reaches(batch, job, "RUNNING")
    batch.terminate_job(jobId=terminated, reason="enough of it")
    run("terminate", swept, "--reason", "all of them", "--url", service.url)
    for job in (terminated, swept):
        reaches(batch, job, "FAILED")
    blocked = submit("too-large")
    waiting = submit("prints:1", dependsOn=[{"jobId": blocked}])
    cancelled = submit("prints:1", dependsOn=[{"jobId": blocked}])
    batch.cancel_job(jobId=cancelled, reason="not wanted")
    array = submit("prints:1", arrayProperties={"size": 2}, dependsOn=[{"jobId": blocked}])
    reaches(batch, cancelled, "FAILED")
    return [*over, terminated, swept, blocked, waiting, cancelled, array]


# -------------------------------------------------------------------------------------------------- how it is described


def describe(service, jobs):
    batch, logs = service.client(), service.client("logs")
    children = [other_job["jobId"] for job in jobs for other_job in batch.list_jobs(arrayJobId=job)["jobSummaryList"]]
    nodes = [other_job["jobId"] for job in jobs for other_job in batch.list_jobs(multiNodeJobId=job)["jobSummaryList"]]
    every_job = [*jobs, *children, *nodes]
    queues = plain(batch.describe_job_queues())["jobQueues"]
    policies = batch.list_scheduling_policies()["schedulingPolicies"]
    resources = [
        resource["consumableResourceName"] for resource in batch.list_consumable_resources()["consumableResources"]
    ]
    streams = plain(logs.describe_log_streams(logGroupName=LOGS))["logStreams"]
    return {
        "environments": plain(batch.describe_compute_environments())["computeEnvironments"],
        "queues": queues,
        "definitions": plain(batch.describe_job_definitions())["jobDefinitions"],
        "policies": plain(batch.describe_scheduling_policies(arns=[policy["arn"] for policy in policies]))[
            "schedulingPolicies"
        ],
        "resources": [plain(batch.describe_consumable_resource(consumableResource=resource)) for resource in resources],
        "jobs of resources": [
            plain(batch.list_jobs_by_consumable_resource(consumableResource=resource))["jobs"] for resource in resources
        ],
        "jobs": plain(batch.describe_jobs(jobs=every_job))["jobs"],
        "children and nodes": [children, nodes],
        "lists": {
            (queue["jobQueueName"], status): plain(batch.list_jobs(jobQueue=queue["jobQueueName"], jobStatus=status))[
                "jobSummaryList"
            ]
            for queue in queues
            for status in STATUSES
        },
        "fronts": [
            batch.get_job_queue_snapshot(jobQueue=queue["jobQueueName"])["frontOfQueue"]["jobs"] for queue in queues
        ],
        "tags": batch.list_tags_for_resource(resourceArn=policies[0]["arn"])["tags"],
        "history": [service.native(f"jobs/{job}/history")[1] for job in jobs],
        "streams": streams,
        "events": [
            plain(logs.get_log_events(logGroupName=LOGS, logStreamName=stream["logStreamName"], startFromHead=True))[
                "events"
            ]
            for stream in streams
        ],
        "audit": run("audit", "-o", "json", "--url", service.url),
        "users": run("user", "list", "-o", "json", "--data", service.data),
        "accounts": run("account", "list", "-o", "json", "--data", service.data),
        "keys": run("key", "list", "--data", service.data),
        "health": {name: value for name, value in service.health().items() if name not in {"now", "eventLoop"}},
    }


def plain(answer):
    assert "nextToken" not in answer
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}
