"""CreateConsumableResource, UpdateConsumableResource, DeleteConsumableResource, DescribeConsumableResource, List."""

import pytest

from tests.api.conftest import ARN
from tests.support.usage import Taken

ARN_OF = ARN + "consumable-resource/"
MOST = 2**63 - 1


@pytest.fixture
async def it(boto):
    """The resource `it`, 10 units."""
    await boto.create_consumable_resource(consumableResourceName="it", totalQuantity=10)


@pytest.fixture
def told(boto):
    async def told(name="it"):
        answer = await boto.describe_consumable_resource(consumableResource=name)
        del answer["ResponseMetadata"]
        return answer

    return told


async def test_a_resource_is_told_as_it_was_made(server, boto, told):
    made = await boto.create_consumable_resource(consumableResourceName="it", totalQuantity=10, tags={"a": "b"})

    assert (made["consumableResourceName"], made["consumableResourceArn"]) == ("it", ARN_OF + "it")
    answer = await told(ARN_OF + "it")
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


async def test_what_jobs_take_is_told(server, it, boto, told):
    server.catalog.consumable_resources.usage = Taken(in_use=4)

    answer = await told()
    (listed,) = (await boto.list_consumable_resources())["consumableResources"]

    assert (answer["totalQuantity"], answer["inUseQuantity"], answer["availableQuantity"]) == (10, 4, 6)
    assert (listed["totalQuantity"], listed["inUseQuantity"]) == (10, 4)


async def test_what_is_used_up_is_gone(server, boto, told):
    await boto.create_consumable_resource(
        consumableResourceName="it", totalQuantity=10, resourceType="NON_REPLENISHABLE"
    )
    server.catalog.consumable_resources.usage = Taken(in_use=1, used_up=4)

    answer = await told()

    assert (answer["totalQuantity"], answer["availableQuantity"]) == (6, 6)
    assert answer["resourceType"] == "NON_REPLENISHABLE"


@pytest.mark.parametrize(
    ("asked", "total"),
    [({}, 0), ({"totalQuantity": 0}, 0), ({"totalQuantity": MOST}, MOST), ({"resourceType": ""}, 0)],
    ids=str,
)
async def test_what_aws_takes_is_taken(http, told, asked, total):
    status, _, answer = await http.post("CreateConsumableResource", {"consumableResourceName": "it"} | asked)

    assert status == 200, answer
    assert (await told())["totalQuantity"] == total


REFUSED = [
    ({"consumableResourceName": ""}, "consumableResourceName must be"),
    ({"consumableResourceName": "r" * 129}, "consumableResourceName must be"),
    ({"consumableResourceName": None}, "consumableResourceName"),
    ({"totalQuantity": -1}, "between 0 and"),
    ({"totalQuantity": MOST + 1}, "totalQuantity"),
    ({"totalQuantity": "1"}, "totalQuantity"),
    ({"totalQuantity": 1.0}, "totalQuantity"),
    ({"resourceType": "RENEWABLE"}, "resourceType must be one of REPLENISHABLE, NON_REPLENISHABLE"),
    ({"resourceType": 1}, "resourceType"),
    ({"tags": {"": ""}}, "tags"),
]


@pytest.mark.parametrize(("asked", "text"), REFUSED, ids=lambda it: str(it)[:60])
async def test_what_cannot_be_is_refused_and_nothing_is_stored(server, http, asked, text):
    before = server.remembers()

    status, headers, answer = await http.post("CreateConsumableResource", {"consumableResourceName": "it"} | asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
    assert server.remembers() == before


async def test_a_taken_name_is_refused(it, boto):
    with pytest.raises(boto.exceptions.ClientException, match="Object already exists"):
        await boto.create_consumable_resource(consumableResourceName="it")


@pytest.mark.parametrize(("operation", "left"), [("SET", 3), ("ADD", 13), ("REMOVE", 7)])
async def test_an_update_changes_the_total_and_tells_it(it, boto, told, operation, left):
    made = await boto.update_consumable_resource(consumableResource=ARN_OF + "it", operation=operation, quantity=3)

    assert (made["consumableResourceName"], made["consumableResourceArn"]) == ("it", ARN_OF + "it")
    assert made["totalQuantity"] == (await told())["totalQuantity"] == left


async def test_the_same_token_changes_it_once(it, boto):
    asked = {"consumableResource": "it", "operation": "ADD", "quantity": 5, "clientToken": "t" * 64}

    told = [(await boto.update_consumable_resource(**asked))["totalQuantity"] for _ in range(2)]
    with pytest.raises(boto.exceptions.ClientException, match="clientToken was used already"):
        await boto.update_consumable_resource(**asked | {"quantity": 6})

    assert told == [15, 15]


BAD_UPDATES = [
    ({"consumableResource": ""}, "'consumableResource' is a required field"),
    ({"consumableResource": "nothing"}, "ConsumableResource nothing not found"),
    ({"consumableResource": ARN + "job-queue/it"}, "not found"),
    ({"operation": None}, "'operation' is a required field"),
    ({"operation": ""}, "'operation' is a required field"),
    ({"operation": "DOUBLE"}, "operation must be one of SET, ADD, REMOVE"),
    ({"operation": "set"}, "operation must be one of"),
    ({"quantity": None}, "'quantity' is a required field"),
    ({"quantity": -1}, "between 0 and"),
    ({"quantity": 11}, "The total quantity is 10"),
    ({"operation": "ADD", "quantity": MOST}, "The total quantity is 10"),
    ({"clientToken": ""}, "clientToken"),
    ({"clientToken": "t" * 65}, "clientToken"),
    ({"clientToken": "\0"}, "clientToken"),
]


@pytest.mark.parametrize(("asked", "text"), BAD_UPDATES, ids=lambda it: str(it)[:60])
async def test_an_update_that_cannot_be_changes_nothing(server, it, http, asked, text):
    before = server.remembers()

    well = {"consumableResource": "it", "operation": "REMOVE", "quantity": 1, "clientToken": "token"}
    status, headers, answer = await http.post("UpdateConsumableResource", well | asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
    assert server.remembers() == before


async def test_one_is_deleted_and_one_that_never_was_is_gone(it, boto):
    await boto.delete_consumable_resource(consumableResource=ARN_OF + "it")
    await boto.delete_consumable_resource(consumableResource="it")

    with pytest.raises(boto.exceptions.ClientException, match="ConsumableResource it not found"):
        await boto.describe_consumable_resource(consumableResource="it")


@pytest.fixture
async def many(boto):
    for name in ("Beta", "alpha", "albatross", "gamma"):
        await boto.create_consumable_resource(consumableResourceName=name, totalQuantity=1)


def names(answer):
    return [it["consumableResourceName"] for it in answer["consumableResources"]]


async def test_they_are_listed_by_name_page_by_page(many, boto):
    pages = await boto.pages("list_consumable_resources", PaginationConfig={"PageSize": 3})

    assert [names(page) for page in pages] == [["Beta", "albatross", "alpha"], ["gamma"]]
    assert pages[0]["consumableResources"][0] == {
        "consumableResourceName": "Beta",
        "consumableResourceArn": ARN_OF + "Beta",
        "totalQuantity": 1,
        "inUseQuantity": 0,
        "resourceType": "REPLENISHABLE",
    }


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
async def test_they_are_found_by_name(many, boto, values, found):
    answer = await boto.list_consumable_resources(filters=[{"name": "CONSUMABLE_RESOURCE_NAME", "values": values}])

    assert names(answer) == found


async def test_a_token_is_of_the_listing_it_came_from(many, boto):
    token = (await boto.list_consumable_resources(maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.list_consumable_resources(
            nextToken=token, filters=[{"name": "CONSUMABLE_RESOURCE_NAME", "values": ["a*"]}]
        )


BY_NAME = "CONSUMABLE_RESOURCE_NAME"


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
    ids=lambda it: str(it)[:60],
)
async def test_filters_that_cannot_be_are_refused(http, filters, text):
    status, headers, answer = await http.post("ListConsumableResources", {"filters": filters})

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
