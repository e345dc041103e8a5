"""Operations on consumable resources, and ListJobsByConsumableResource."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.job import ConsumableRequirement
from batchq.ports.jobs import Changes
from tests.api.conftest import ARN
from tests.support.builders import NOON, job, job_id
from tests.support.stubs import FixedUsage

ARN_OF = ARN + "consumable-resource/"
BY_NAME = "CONSUMABLE_RESOURCE_NAME"
MOST = 2**63 - 1


@pytest.fixture
async def resource(boto):
    """The resource `it`, 10 units."""
    await boto.create_consumable_resource(consumableResourceName="it", totalQuantity=10)


@pytest.fixture
def described(boto):
    async def described(name="it"):
        answer = await boto.describe_consumable_resource(consumableResource=name)
        del answer["ResponseMetadata"]
        return answer

    return described


async def test_a_resource_is_described_as_created(server, boto, described):
    made = await boto.create_consumable_resource(consumableResourceName="it", totalQuantity=10, tags={"a": "b"})

    assert (made["consumableResourceName"], made["consumableResourceArn"]) == ("it", ARN_OF + "it")
    answer = await described(ARN_OF + "it")
    assert answer.pop("createdAt") > 0
    assert answer == {
        "consumableResourceName": "it",
        "consumableResourceArn": ARN_OF + "it",
        "totalQuantity": 10,
        "inUseQuantity": 0,
        "availableQuantity": 10,
        "resourceType": "REPLENISHABLE",
        "tags": {"a": "b"},
    }


async def test_units_in_use_are_described(server, resource, boto, described):
    server.catalog.consumable_resources.usage = FixedUsage(in_use=4)

    answer = await described()
    (listed,) = (await boto.list_consumable_resources())["consumableResources"]

    assert (answer["totalQuantity"], answer["inUseQuantity"], answer["availableQuantity"]) == (10, 4, 6)
    assert listed == {
        "consumableResourceName": "it",
        "consumableResourceArn": ARN_OF + "it",
        "totalQuantity": 10,
        "inUseQuantity": 4,
        "resourceType": "REPLENISHABLE",
    }


async def test_used_units_of_a_non_replenishable_resource_are_gone(server, boto, described):
    await boto.create_consumable_resource(
        consumableResourceName="it", totalQuantity=10, resourceType="NON_REPLENISHABLE"
    )
    server.catalog.consumable_resources.usage = FixedUsage(in_use=1, used_up=4)

    answer = await described()

    assert (answer["totalQuantity"], answer["availableQuantity"]) == (6, 6)
    assert answer["resourceType"] == "NON_REPLENISHABLE"


@pytest.mark.parametrize(
    ("members", "total"),
    [({}, 0), ({"totalQuantity": 0}, 0), ({"totalQuantity": MOST}, MOST), ({"resourceType": ""}, 0)],
    ids=str,
)
async def test_requests_that_aws_accepts_are_accepted(accepted, described, members, total):
    await accepted("CreateConsumableResource", {"consumableResourceName": "it"} | members)

    assert (await described())["totalQuantity"] == total


REFUSED = [
    ({"consumableResourceName": None}, "consumableResourceName"),
    ({"totalQuantity": -1}, "between 0 and"),
    *(({"totalQuantity": quantity}, "totalQuantity") for quantity in (MOST + 1, "1", 1.0)),
    ({"resourceType": "RENEWABLE"}, "resourceType must be one of REPLENISHABLE, NON_REPLENISHABLE"),
    ({"resourceType": 1}, "resourceType"),
    ({"tags": {"": ""}}, "tags"),
]


async def test_invalid_requests_are_refused_and_store_nothing(refuses):
    await refuses("CreateConsumableResource", REFUSED, consumableResourceName="it")


@pytest.mark.parametrize(("operation", "left"), [("SET", 3), ("ADD", 13), ("REMOVE", 7)])
async def test_an_update_changes_and_returns_the_total(resource, boto, described, operation, left):
    made = await boto.update_consumable_resource(consumableResource=ARN_OF + "it", operation=operation, quantity=3)

    assert (made["consumableResourceName"], made["consumableResourceArn"]) == ("it", ARN_OF + "it")
    assert made["totalQuantity"] == (await described())["totalQuantity"] == left


async def test_the_same_token_changes_it_once(resource, boto):
    members = {"consumableResource": "it", "operation": "ADD", "quantity": 5, "clientToken": "t" * 64}

    described = [(await boto.update_consumable_resource(**members))["totalQuantity"] for _ in range(2)]
    for other in ({"quantity": 6}, {"operation": "REMOVE"}):
        with pytest.raises(boto.exceptions.ClientException, match="clientToken was used already"):
            await boto.update_consumable_resource(**members | other)

    assert described == [15, 15]


BAD_UPDATES = [
    ({"consumableResource": ""}, "'consumableResource' is a required field"),
    ({"consumableResource": "nothing"}, "ConsumableResource nothing not found"),
    ({"consumableResource": ARN + "job-queue/it"}, "not found"),
    *(({"operation": operation}, "'operation' is a required field") for operation in (None, "")),
    *(({"operation": name}, "operation must be one of SET, ADD, REMOVE") for name in ("DOUBLE", "set")),
    ({"quantity": None}, "'quantity' is a required field"),
    ({"quantity": -1}, "between 0 and"),
    ({"quantity": 11}, "The total quantity is 10"),
    ({"operation": "ADD", "quantity": MOST - 9}, "The total quantity is 10"),
    *(({"clientToken": text}, "clientToken") for text in ("", "t" * 65, "\0")),
]


async def test_an_invalid_update_changes_nothing(resource, refuses):
    valid = {"consumableResource": "it", "operation": "REMOVE", "quantity": 1, "clientToken": "token"}
    await refuses("UpdateConsumableResource", BAD_UPDATES, **valid)


@pytest.fixture
async def many(boto):
    for name in ("Beta", "alpha", "albatross", "gamma"):
        await boto.create_consumable_resource(consumableResourceName=name, totalQuantity=1)


def names(answer):
    return [resource["consumableResourceName"] for resource in answer["consumableResources"]]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["BETA"], ["Beta"]),
        (["AL*"], ["albatross", "alpha"]),
        (["*"], ["Beta", "albatross", "alpha", "gamma"]),
        (["al*", "gamma", "delta"], ["albatross", "alpha", "gamma"]),
        (["al"], []),
        (["a*a"], []),
    ],
)
async def test_a_filter_selects_by_name(many, boto, values, found):
    answer = await boto.list_consumable_resources(filters=[{"name": BY_NAME, "values": values}])

    assert names(answer) == found


async def test_a_token_of_another_filter_and_an_unknown_name_are_refused(many, boto, refused):
    token = (await boto.list_consumable_resources(maxResults=1))["nextToken"]

    other = {"nextToken": token, "filters": [{"name": BY_NAME, "values": ["a*"]}]}
    assert "nextToken is not valid" in await refused("ListConsumableResources", other)
    message = await refused("DescribeConsumableResource", {"consumableResource": "nothing"})
    assert "ConsumableResource nothing not found" in message


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([{"name": "NAME", "values": ["a"]}], "must be one of CONSUMABLE_RESOURCE_NAME"),
        ([{"values": ["a"]}], "must be one of CONSUMABLE_RESOURCE_NAME"),
        ([{"name": BY_NAME}], "must have a value"),
        ([{"name": BY_NAME, "values": []}], "must have a value"),
        ([{"name": BY_NAME, "values": ["a"] * 101}], "at most 100 values"),
        ([{"name": BY_NAME, "values": ["a"]}] * 2, "Only one filter"),
    ],
    ids=lambda case: str(case)[:60],
)
async def test_invalid_filters_are_refused(refused, filters, text):
    assert text in await refused("ListConsumableResources", {"filters": filters})


NOON_MS = int(NOON.timestamp() * 1000)


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
        return [other_job["jobName"] for other_job in answer["jobs"]]

    return listed


async def test_a_job_has_all_its_required_resources(jobs, boto):
    answer = await boto.list_jobs_by_consumable_resource(consumableResource=ARN_OF + "licences")

    newest, _, with_share, oldest = answer["jobs"]
    needs = [
        {"consumableResource": ARN_OF + "other", "quantity": 1},
        {"consumableResource": ARN_OF + "licences", "quantity": 2},
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

    assert [[other_job["jobName"] for other_job in page["jobs"]] for page in pages] == [
        ["a-job", "gamma"],
        ["beta", "alphabet"],
        ["Alpha"],
    ]


INVALID_QUERIES = [
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
]


async def test_invalid_queries_are_refused(jobs, refuses):
    await refuses("ListJobsByConsumableResource", INVALID_QUERIES, consumableResource="licences")
