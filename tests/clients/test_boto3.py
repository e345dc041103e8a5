"""boto3 as others install it: every paginator of the service, a resource a page."""

import json

import pytest

from tests.kubernetes.service import service_kind
from tests.service.waiting import create_queue, reaches, register
from tests.support.service import serving

REFUSED = {"describe_service_environments", "list_quota_shares", "list_service_jobs"}


@pytest.fixture
def server(tmp_path, docker_engine):
    """A server without resources of other clients."""
    with serving(tmp_path / "data", "--stop-grace", "2", kind=service_kind()) as service:
        yield service
    service.remove_containers()


@pytest.fixture
def pages(client):
    """Create three resources of each kind with pages. Returns the results of the paginators."""
    batch = client.service.client()
    batch.create_consumable_resource(consumableResourceName="licences", totalQuantity=100)
    for number in range(3):
        register(batch, f"paged-{number}", "sleep", "600")
        batch.create_consumable_resource(consumableResourceName=f"licence-{number}", totalQuantity=1)
        batch.create_scheduling_policy(name=f"paged-{number}", fairsharePolicy={})
    for number in range(2):
        create_queue(batch, f"paged-{number}", vcpus=4)
    needs = {"consumableResourceList": [{"consumableResource": "licences", "quantity": 1}]}
    jobs = [
        batch.submit_job(
            jobName="paged", jobQueue="paged-0", jobDefinition="paged-0", consumableResourcePropertiesOverride=needs
        )["jobId"]
        for _ in range(3)
    ]
    pages = client.result_of("boto3_pages", json.dumps(queries()))
    for job in jobs:
        batch.terminate_job(jobId=job, reason="seen")
        reaches(batch, job, "FAILED")
    return pages


def queries():
    every_job = [{"name": "JOB_NAME", "values": ["paged"]}]
    return {
        "describe_job_definitions": {"status": "ACTIVE"},
        "list_jobs": {"jobQueue": "paged-0", "filters": every_job},
        "list_jobs_by_consumable_resource": {"consumableResource": "licences"},
        "list_quota_shares": {"jobQueue": "paged-0"},
        "list_service_jobs": {"jobQueue": "paged-0"},
    }


def test_every_paginator_ends_and_returns_each_resource_once(pages):
    walked = {operation: found for operation, found in pages.items() if operation not in REFUSED}

    counts = {operation: len(found) for operation, found in walked.items() if isinstance(found, list)}
    assert counts == {
        "describe_compute_environments": 3,
        "describe_job_definitions": 3,
        "describe_job_queues": 3,
        "list_consumable_resources": 4,
        "list_jobs": 3,
        "list_jobs_by_consumable_resource": 3,
        "list_scheduling_policies": 3,
    }, walked
    assert all(len(set(found)) == len(found) for found in walked.values())
    assert {operation: found for operation, found in pages.items() if operation in REFUSED and "not" not in found} == {}
