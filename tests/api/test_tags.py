"""TagResource, UntagResource, ListTagsForResource."""

import asyncio
from itertools import product

import pytest

from batchq.domain.catalog import network_of, oci_runtime_of
from tests.api.conftest import ARN

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"


KINDS = [
    "compute-environment/local",
    "job-queue/default",
    "job-definition/sleeper:1",
    "job/{job}",
    "scheduling-policy/fair",
    "consumable-resource/licences",
]


@pytest.fixture(params=KINDS)
async def arn(request, boto, submit):
    """The ARN of each kind of resource that has tags."""
    await boto.create_scheduling_policy(name="fair")
    await boto.create_consumable_resource(consumableResourceName="licences")
    return ARN + request.param.format(job=await submit())


async def test_tags_are_added_and_removed(boto, arn):
    await boto.tag_resource(resourceArn=arn, tags={"a": "1", "b c": "ü/:", "d": ""})
    tagged = await boto.list_tags_for_resource(resourceArn=arn)
    await boto.tag_resource(resourceArn=arn, tags={"a": "2"})
    await boto.untag_resource(resourceArn=arn, tagKeys=["b c", "d", "never was"])
    left = await boto.list_tags_for_resource(resourceArn=arn)

    assert tagged["tags"] == {"a": "1", "b c": "ü/:", "d": ""}
    assert left["tags"] == {"a": "2"}


async def test_a_resource_has_at_most_fifty_tags(boto, arn):
    await boto.tag_resource(resourceArn=arn, tags={f"key-{n}": "x" for n in range(50)})
    await boto.tag_resource(resourceArn=arn, tags={"key-0": "changed"})
    with pytest.raises(boto.exceptions.ClientException, match="50"):
        await boto.tag_resource(resourceArn=arn, tags={"one more": "x"})


async def test_concurrent_requests_add_at_most_fifty_tags(boto, arn):
    calls = [boto.tag_resource(resourceArn=arn, tags={f"{who}-{n}": "x" for n in range(30)}) for who in "abcd"]
    answers = await asyncio.gather(*calls, return_exceptions=True)

    tagged = await boto.list_tags_for_resource(resourceArn=arn)

    assert sum(isinstance(answer, boto.exceptions.ClientException) for answer in answers) == 3
    assert len(tagged["tags"]) == 30


async def test_tags_are_returned_with_the_described_resource(submit, described, boto):
    job_id = await submit(tags={"a": "1"})

    await boto.tag_resource(resourceArn=f"{ARN}job/{job_id}", tags={"b": "2"})

    assert (await described(job_id))["tags"] == {"a": "1", "b": "2"}


UNKNOWN = [
    ARN + "job-queue/nowhere",
    ARN + "compute-environment/nowhere",
    ARN + "job-definition/nothing:1",
    ARN + "job-definition/sleeper",
    ARN + f"job/{UNKNOWN_ID}",
    ARN + "job/../../etc/passwd",
    ARN + "scheduling-policy/fair",
    ARN + "consumable-resource/licences",
    ARN + "service-environment/it",
    ARN + "quota-share/it",
    "arn:aws:s3:::bucket",
    "default",
    "%00",
    "a" * 5000,
]


FOREIGN = ARN.replace("123456789012", "210987654321") + "job-queue/default"
REFUSED = {
    **dict.fromkeys(UNKNOWN, "not found"),
    **dict.fromkeys(
        [f"{ARN}job/{UNKNOWN_ID}{text}" for text in (":0", ":9999", "#0", "#12")], "have no tags of their own"
    ),
    FOREIGN: "account 210987654321, and this server's account is 123456789012",
}


@pytest.mark.fault("IN19")
async def test_an_unknown_resource_a_child_and_a_node_have_no_tags(sleeper, boto):
    operations = ("tag", {"tags": {"a": "b"}}), ("untag", {"tagKeys": ["a"]}), ("list_tags_for", {})
    for arn, (operation, members) in product(REFUSED, operations):
        with pytest.raises(boto.exceptions.ClientException, match=REFUSED[arn]):
            await getattr(boto, f"{operation}_resource")(resourceArn=arn, **members)


@pytest.mark.fault("IN19")
@pytest.mark.parametrize("path", ["%ff", "..%2f..%2fetc", "arn%3Aaws%3Abatch", "%00%01", "%E2%80%AE"])
async def test_a_path_without_an_arn_is_refused(sleeper, http, path):
    status, headers, _ = await http.send("GET", f"/v1/tags/{path}")

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")


BAD = [
    {"tags": {}},
    {"tags": None},
    {},
    {"tags": {"": "x"}},
    {"tags": {"k" * 129: "x"}},
    {"tags": {"k": "v" * 257}},
    {"tags": {"k": "\0"}},
    {"tags": {"k": 1}},
    {"tags": {"io.batchq.instance": "x"}},
    {"tags": {f"{n}": "" for n in range(51)}},
]


@pytest.mark.fault("IN14", "SE17")
async def test_invalid_tags_are_refused(default_queue, refuses):
    await refuses(f"tags/{ARN}job-queue/default", [(members, "") for members in BAD])


@pytest.mark.parametrize(
    "query", ["", "?tagKeys=", "?tagKeys=" + "k" * 129, "?" + "&".join(["tagKeys=k"] * 51)], ids=len
)
async def test_invalid_tag_keys_are_refused(default_queue, http, query):
    status, headers, _ = await http.send("DELETE", f"/v1/tags/{ARN}job-queue/default{query}")

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")


async def test_fifty_keys_of_128_characters_are_accepted(default_queue, http):
    tags = {f"{n:02}" + "k" * 126: "v" * 256 for n in range(50)}

    status, _, answer = await http.post(f"tags/{ARN}job-queue/default", {"tags": tags})

    assert (status, answer) == (200, {})
    assert (await http.send("GET", f"/v1/tags/{ARN}job-queue/default"))[2] == {"tags": tags}


# AWS has no member for the network of an environment's jobs, so a tag selects it.
@pytest.mark.parametrize("network", ["shared", "bridge", "host", "none"])
async def test_a_tag_selects_the_network_of_an_environment(server, default_queue, boto, network):
    arn = ARN + "compute-environment/local"

    await boto.tag_resource(resourceArn=ARN + "job-queue/default", tags={"batchq:network": "without a meaning"})
    await boto.tag_resource(resourceArn=arn, tags={"batchq:network": network})
    network_of_tag = network_of(server.catalog.environments["local"].tags)
    await boto.untag_resource(resourceArn=arn, tagKeys=["batchq:network"])

    assert network_of_tag == network
    assert network_of(server.catalog.environments["local"].tags) is None


async def test_an_unknown_network_is_refused(server, default_queue, refused):
    text = "one of shared, bridge, host, none"
    environment = {"computeEnvironmentName": "it", "type": "UNMANAGED", "tags": {"batchq:network": "own"}}

    assert text in await refused(f"tags/{ARN}compute-environment/local", {"tags": {"batchq:network": "Host"}})
    assert text in await refused("CreateComputeEnvironment", environment)

    assert "it" not in server.catalog.environments


async def test_a_tag_selects_the_container_runtime_of_an_environment(server, default_queue, boto, refused):
    arn = ARN + "compute-environment/local"

    await boto.tag_resource(resourceArn=arn, tags={"batchq:container-runtime": "crun"})
    assert "the name of an OCI runtime" in await refused(
        f"tags/{ARN}compute-environment/local", {"tags": {"batchq:container-runtime": "a/b"}}
    )
    of_tag = oci_runtime_of(server.catalog.environments["local"].tags)
    await boto.untag_resource(resourceArn=arn, tagKeys=["batchq:container-runtime"])

    assert of_tag == "crun"
    assert oci_runtime_of(server.catalog.environments["local"].tags) is None
