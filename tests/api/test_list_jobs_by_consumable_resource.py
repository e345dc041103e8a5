"""ListJobsByConsumableResource."""

import pytest

from batchq.domain.job import ConsumableRequirement, Status
from batchq.ports.jobs import Changes
from tests.api.conftest import ARN
from tests.support.builders import NOON, job, job_id

NOON_MS = int(NOON.timestamp() * 1000)


def resource(name):
    return ARN + f"consumable-resource/{name}"


def needy(number, *, name="a-job", quantity=2, of="licences", **changes):
    needs = (ConsumableRequirement(resource="other", quantity=1), ConsumableRequirement(resource=of, quantity=quantity))
    return job(number=number, name=name, needs=needs, **changes)


@pytest.fixture
async def jobs(server, default_queue, boto):
    """Jobs 0 to 3 need `licences`, 4 another resource, and 5 none."""
    for name in ("licences", "other", "unwanted"):
        await boto.create_consumable_resource(consumableResourceName=name)
    listed = (
        needy(0, name="Alpha", status=Status.SUCCEEDED, status_reason="done", started_at=NOON),
        needy(1, name="alphabet", status=Status.RUNNABLE, share_identifier="team"),
        needy(2, name="beta", status=Status.RUNNABLE, quantity=7),
        needy(3, name="gamma", status=Status.PENDING),
        needy(4, of="unheard"),
        job(number=5),
    )
    await server.store.commit(Changes(inserted=listed))
    return listed


@pytest.fixture
def listed(boto):
    async def listed(name="licences", **filters):
        given = [{"name": name, "values": [value]} for name, value in filters.items()]
        answer = await boto.list_jobs_by_consumable_resource(consumableResource=name, filters=given)
        return [it["jobName"] for it in answer["jobs"]]

    return listed


async def test_a_job_has_all_its_required_resources(jobs, boto):
    answer = await boto.list_jobs_by_consumable_resource(consumableResource=resource("licences"))

    newest, _, with_share, oldest = answer["jobs"]
    needs = [
        {"consumableResource": resource("other"), "quantity": 1},
        {"consumableResource": resource("licences"), "quantity": 2},
    ]
    assert newest == {
        "jobArn": ARN + f"job/{job_id(3)}",
        "jobQueueArn": ARN + "job-queue/default",
        "jobName": "gamma",
        "jobDefinitionArn": ARN + "job-definition/a-definition:1",
        "jobStatus": "PENDING",
        "quantity": 2,
        "createdAt": NOON_MS,
        "consumableResourceProperties": {"consumableResourceList": needs},
    }
    assert with_share["shareIdentifier"] == "team"
    assert (oldest["jobStatus"], oldest["statusReason"], oldest["startedAt"]) == ("SUCCEEDED", "done", NOON_MS)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["gamma", "beta", "alphabet", "Alpha"]),
        ({"JOB_STATUS": "RUNNABLE"}, ["beta", "alphabet"]),
        ({"JOB_STATUS": "FAILED"}, []),
        ({"JOB_NAME": "ALPHA"}, ["Alpha"]),
        ({"JOB_NAME": "alpha*"}, ["alphabet", "Alpha"]),
        ({"JOB_NAME": "alpha*", "JOB_STATUS": "RUNNABLE"}, ["alphabet"]),
    ],
    ids=str,
)
async def test_jobs_are_found_by_status_and_name_newest_first(jobs, listed, filters, found):
    assert await listed(**filters) == found


async def test_an_unused_resource_has_no_jobs(jobs, listed):
    assert await listed("unwanted") == []


async def test_pages_are_complete(jobs, boto):
    pages = await boto.pages(
        "list_jobs_by_consumable_resource", consumableResource="other", PaginationConfig={"PageSize": 2}
    )

    assert [[it["jobName"] for it in page["jobs"]] for page in pages] == [
        ["a-job", "gamma"],
        ["beta", "alphabet"],
        ["Alpha"],
    ]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"consumableResource": ""}, "'consumableResource' is a required field"),
        ({"consumableResource": "nothing"}, "ConsumableResource nothing not found"),
        ({"consumableResource": ARN + "job-queue/default"}, "not found"),
        ({"filters": [{"name": "STATUS", "values": ["FAILED"]}]}, "must be one of JOB_STATUS, JOB_NAME"),
        ({"filters": [{"name": "JOB_STATUS", "values": ["OVER"]}]}, "Job status is not one of"),
        ({"filters": [{"name": "JOB_NAME", "values": []}]}, "must have a value"),
        ({"filters": [{"name": "JOB_NAME", "values": ["a", "b"]}]}, "must have one value"),
        ({"filters": [{"name": "JOB_NAME", "values": ["a"]}] * 2}, "must not be named more than once"),
        ({"maxResults": 101}, "maxResults"),
        ({"maxResults": 0}, "maxResults"),
        ({"nextToken": "x"}, "nextToken is not valid"),
    ],
    ids=lambda it: str(it)[:60],
)
async def test_invalid_queries_are_refused(jobs, refused, members, text):
    assert text in await refused("ListJobsByConsumableResource", {"consumableResource": "licences"} | members)
