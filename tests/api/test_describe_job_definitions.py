"""DescribeJobDefinitions and DeregisterJobDefinition."""

import pytest

from tests.api.conftest import ARN, CONTAINER


@pytest.fixture
def register(boto):
    async def register(name="it", **asked):
        return await boto.register_job_definition(
            jobDefinitionName=name, type="container", containerProperties=CONTAINER, **asked
        )

    return register


def named(answer):
    return [f"{it['jobDefinitionName']}:{it['revision']}" for it in answer["jobDefinitions"]]


async def test_a_bare_definition_is_told_with_the_lists_it_left_out(register, boto):
    await register()

    (told,) = (await boto.describe_job_definitions())["jobDefinitions"]

    assert told == {
        "jobDefinitionName": "it",
        "jobDefinitionArn": ARN + "job-definition/it:1",
        "revision": 1,
        "status": "ACTIVE",
        "type": "container",
        "containerOrchestrationType": "ECS",
        "platformCapabilities": ["EC2"],
        "parameters": {},
        "tags": {},
        "containerProperties": CONTAINER
        | {"environment": [], "mountPoints": [], "secrets": [], "ulimits": [], "volumes": []},
    }


async def test_the_actions_of_a_retry_strategy_are_answered_in_lower_case(register, boto):
    rules = [{"action": "RETRY", "onReason": "Cannot*"}, {"action": "Exit"}]
    await register(retryStrategy={"attempts": 2, "evaluateOnExit": rules})

    (told,) = (await boto.describe_job_definitions())["jobDefinitions"]

    shown = [{"action": "retry", "onReason": "Cannot*"}, {"action": "exit"}]
    assert told["retryStrategy"] == {"attempts": 2, "evaluateOnExit": shown}


async def test_they_are_told_by_name_or_by_arn_and_unknown_ones_are_left_out(register, boto):
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


async def test_all_revisions_of_a_name_are_told(register, boto):
    for name in ("it", "other", "it"):
        await register(name)

    assert named(await boto.describe_job_definitions(jobDefinitionName="it")) == ["it:1", "it:2"]


async def test_a_deregistered_one_is_inactive_and_still_there(register, boto):
    await register()
    await register()

    await boto.deregister_job_definition(jobDefinition="it:1")

    assert named(await boto.describe_job_definitions(jobDefinitionName="it", status="ACTIVE")) == ["it:2"]
    assert named(await boto.describe_job_definitions(status="INACTIVE")) == ["it:1"]
    assert named(await boto.describe_job_definitions(status="SLEEPING")) == []


@pytest.mark.parametrize("said", ["it:1", ARN + "job-definition/it:1", "it:9"])
async def test_deregistering_twice_or_what_never_was_is_no_error(register, boto, said):
    await register()

    await boto.deregister_job_definition(jobDefinition=said)
    answer = await boto.deregister_job_definition(jobDefinition=said)

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("said", ["it", "", "it:x", ARN + "job-definition/it", ARN + "job/it:1", "it:0"])
async def test_a_revision_must_be_said_to_deregister(server, register, boto, said):
    await register()
    before = server.remembers()

    with pytest.raises(boto.exceptions.ClientException, match="name:revision"):
        await boto.deregister_job_definition(jobDefinition=said)

    assert server.remembers() == before


@pytest.mark.parametrize(
    "other", [{"jobDefinitionName": "it"}, {"status": "ACTIVE"}, {"maxResults": 1}, {"nextToken": "x"}], ids=str
)
async def test_names_go_with_nothing_else(boto, other):
    with pytest.raises(boto.exceptions.ClientException, match="cannot be used with other parameters"):
        await boto.describe_job_definitions(jobDefinitions=["it:1"], **other)


@pytest.mark.parametrize("asked", [{"maxResults": 0}, {"maxResults": 101}, {"jobDefinitions": ["it:1"] * 101}], ids=str)
async def test_more_than_a_hundred_at_a_time_are_too_many(boto, asked):
    with pytest.raises(boto.exceptions.ClientException):
        await boto.describe_job_definitions(**asked)


async def test_pages_tell_every_revision_once(register, boto):
    for name in ("b", "a", "b", "c", "b"):
        await register(name)

    pages = await boto.pages("describe_job_definitions", PaginationConfig={"PageSize": 2})

    assert [named(page) for page in pages] == [["a:1", "b:1"], ["b:2", "b:3"], ["c:1"]]


async def test_a_token_serves_the_query_it_was_made_for(register, boto):
    await register()
    await register()
    token = (await boto.describe_job_definitions(maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.describe_job_definitions(status="ACTIVE", nextToken=token)
    assert named(await boto.describe_job_definitions(nextToken=token)) == ["it:2"]
