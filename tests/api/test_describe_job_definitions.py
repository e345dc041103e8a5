"""DescribeJobDefinitions and DeregisterJobDefinition."""

import pytest

from tests.api.conftest import ARN, CONTAINER


@pytest.fixture
def register(boto):
    async def register(name="it", **members):
        return await boto.register_job_definition(
            jobDefinitionName=name, type="container", containerProperties=CONTAINER, **members
        )

    return register


def named(answer):
    return [f"{definition['jobDefinitionName']}:{definition['revision']}" for definition in answer["jobDefinitions"]]


async def test_the_actions_of_a_retry_strategy_are_returned_in_lower_case(register, boto):
    rules = [{"action": "RETRY", "onReason": "Cannot*"}, {"action": "Exit"}]
    await register(retryStrategy={"attempts": 2, "evaluateOnExit": rules})

    (described,) = (await boto.describe_job_definitions())["jobDefinitions"]

    shown = [{"action": "retry", "onReason": "Cannot*"}, {"action": "exit"}]
    assert described["retryStrategy"] == {"attempts": 2, "evaluateOnExit": shown}


async def test_definitions_are_described_by_name_or_arn_and_unknown_ones_are_omitted(register, boto):
    await register()
    await register()
    texts = [
        ARN + "job-definition/it:2",
        "it:1",
        "it:3",
        "it",
        "nothing:1",
        "",
        "it:1",
        "arn:aws:batch:x:123456789012:job/it:1",
    ]

    assert named(await boto.describe_job_definitions(jobDefinitions=texts)) == ["it:2", "it:1"]


async def test_definitions_are_described_by_name_and_status_newest_first(register, boto):
    for name in ("it", "other", "it"):
        await register(name)
    both = await boto.describe_job_definitions(jobDefinitionName="it")

    await boto.deregister_job_definition(jobDefinition="it:1")

    assert named(both) == ["it:2", "it:1"]
    assert named(await boto.describe_job_definitions(jobDefinitionName="it", status="ACTIVE")) == ["it:2"]
    assert named(await boto.describe_job_definitions(status="INACTIVE")) == ["it:1"]
    assert named(await boto.describe_job_definitions(status="SLEEPING")) == []


@pytest.mark.parametrize("definition", ["it:1", ARN + "job-definition/it:1", "it:9"])
async def test_deregistering_twice_or_an_unknown_definition_is_not_an_error(register, boto, definition):
    await register()

    await boto.deregister_job_definition(jobDefinition=definition)
    answer = await boto.deregister_job_definition(jobDefinition=definition)

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("definition", ["it", "", "it:x", ARN + "job-definition/it", ARN + "job/it:1", "it:0"])
async def test_deregistering_requires_a_revision(register, boto, definition):
    await register()
    with pytest.raises(boto.exceptions.ClientException, match="name:revision"):
        await boto.deregister_job_definition(jobDefinition=definition)


OTHERS = [{"jobDefinitionName": "it"}, {"status": "ACTIVE"}, {"maxResults": 1}, {"nextToken": "x"}]
WRONG = [
    *(({"jobDefinitions": ["it:1"]} | other, "cannot be used with other parameters") for other in OTHERS),
    *(({"maxResults": number}, "maxResults") for number in (0, 101)),
    ({"jobDefinitions": ["it:1"] * 101}, "jobDefinitions"),
]


@pytest.mark.parametrize(("members", "text"), WRONG, ids=lambda case: str(case)[:60])
async def test_invalid_queries_are_refused(refused, members, text):
    assert text in await refused("DescribeJobDefinitions", members)


async def test_pages_have_every_revision_once(register, boto):
    for name in ("b", "a", "b", "c", "b"):
        await register(name)

    pages = await boto.pages("describe_job_definitions", PaginationConfig={"PageSize": 2})

    assert [named(page) for page in pages] == [["a:1", "b:3"], ["b:2", "b:1"], ["c:1"]]


async def test_a_token_is_valid_for_its_own_query_only(register, boto):
    await register()
    await register()
    token = (await boto.describe_job_definitions(maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.describe_job_definitions(status="ACTIVE", nextToken=token)
    assert named(await boto.describe_job_definitions(nextToken=token)) == ["it:1"]


@pytest.mark.fault("SE25")
async def test_many_definitions_are_read_in_several_turns(server, register, boto, monkeypatch):
    monkeypatch.setattr("batchq.services.catalog_tables.DEFINITIONS_SLICE", 2)
    for _ in range(5):
        await register()
    read, limits = server.store.definitions, []

    async def definitions(**query):
        limits.append(query["limit"])
        return await read(**query)

    monkeypatch.setattr(server.store, "definitions", definitions)
    pages = await boto.pages("describe_job_definitions", PaginationConfig={"PageSize": 3})

    assert [named(page) for page in pages] == [["it:5", "it:4", "it:3"], ["it:2", "it:1"]]
    assert limits == [2, 2, 2, 2]
