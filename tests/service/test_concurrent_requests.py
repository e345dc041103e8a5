"""Concurrent requests to a real server and its database: each is carried out or refused, and all agree."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from batchq.store.backup import check_file
from tests.service.waiting import container, register

SIDE = {"jobQueue": "side"}
ENVIRONMENTS = [{"order": 1, "computeEnvironment": "local"}]


def together(works):
    """Their outcomes, each of a thread of its own."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [other_work.result() for other_work in [pool.submit(work) for work in works]]


@pytest.mark.fault("IN24")
def test_fifty_concurrent_registrations_get_the_revisions_one_to_fifty(shared, own_name):
    batch = shared.client()
    members = {"jobDefinitionName": own_name, "type": "container", "containerProperties": container("true")}

    made = together([lambda: batch.register_job_definition(**members)["revision"]] * 50)

    assert sorted(made) == list(range(1, 51))
    described = batch.get_paginator("describe_job_definitions").paginate(jobDefinitionName=own_name).build_full_result()
    assert sorted(definition["revision"] for definition in described["jobDefinitions"]) == list(range(1, 51))


def submits(batch, queue):
    """Jobs of a definition and to a queue that change all the while: the ids of those that were taken."""
    made = []
    for _ in range(40):
        with suppress(batch.exceptions.ClientException):
            made.append(batch.submit_job(jobName="it", jobQueue=queue, jobDefinition="it")["jobId"])
    return made


def changes_queues(batch):
    for number in range(20):
        batch.update_job_queue(jobQueue="default", state=("ENABLED", "DISABLED")[number % 2], priority=number)
        batch.update_job_queue(jobQueue="default", state="ENABLED")
    return []


def makes_and_deletes_a_queue(batch):
    """A queue with unfinished jobs cannot be deleted."""
    for _ in range(20):
        with suppress(batch.exceptions.ClientException):
            batch.create_job_queue(jobQueueName="side", priority=1, computeEnvironmentOrder=ENVIRONMENTS)
        with suppress(batch.exceptions.ClientException):
            batch.update_job_queue(**SIDE, state="DISABLED")
            batch.delete_job_queue(**SIDE)
    return []


def changes_definitions(batch):
    for revision in range(1, 20):
        register(batch, "it", "true", str(revision))
        batch.deregister_job_definition(jobDefinition=f"it:{revision}")
    return []


@pytest.mark.fault("IN25")
def test_jobs_submitted_while_queues_and_definitions_change_are_consistent(simulated):
    batch = simulated.client()
    register(batch, "it", "true")
    works = [lambda: submits(batch, "default"), lambda: submits(batch, "side")] * 2
    works += [
        lambda: changes_queues(batch),
        lambda: makes_and_deletes_a_queue(batch),
        lambda: changes_definitions(batch),
    ]

    made = [job_id for outcome in together(works) for job_id in outcome]

    jobs = [job for at in range(0, len(made), 100) for job in batch.describe_jobs(jobs=made[at : at + 100])["jobs"]]
    assert sorted(job["jobId"] for job in jobs) == sorted(set(made))
    assert made
    assert simulated.stop() == 0
    assert check_file(simulated.data / "batchq.db").problems == ()
    assert "ERROR" not in simulated.log.read_text()
