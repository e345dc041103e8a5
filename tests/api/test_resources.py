"""What compute environments, job queues, scheduling policies and consumable resources have in common."""

from typing import NamedTuple

import pytest

from tests.api.conftest import ARN

LOCAL = [{"order": 1, "computeEnvironment": "local"}]


class Kind(NamedTuple):
    """A kind of resources: how an ARN spells it, and the names of its operations and their members."""

    in_arn: str
    title: str
    plural: str
    #: Of the operation that lists all resources.
    verb: str
    #: The member with the name in a creation.
    name: str
    #: The member with the name or ARN in a deletion.
    key: str
    #: The further members of a creation.
    members: dict

    def arn(self, name):
        return f"{ARN}{self.in_arn}/{name}"

    def key_of(self, name):
        """How a request names the resource."""
        return self.arn(name) if self.key == "arn" else name

    def names(self, answer):
        member = "arn" if self.key == "arn" else self.name
        return [resource[member].rpartition("/")[2] for resource in answer[self.listed]]

    @property
    def listed(self):
        """The member of answers, and of descriptions, with the resources."""
        return self.plural[0].lower() + self.plural[1:]


KINDS = (
    Kind(
        "compute-environment",
        "ComputeEnvironment",
        "ComputeEnvironments",
        "Describe",
        "computeEnvironmentName",
        "computeEnvironment",
        {"type": "UNMANAGED", "state": "DISABLED"},
    ),
    Kind(
        "job-queue",
        "JobQueue",
        "JobQueues",
        "Describe",
        "jobQueueName",
        "jobQueue",
        {"priority": 1, "state": "DISABLED", "computeEnvironmentOrder": LOCAL},
    ),
    Kind("scheduling-policy", "SchedulingPolicy", "SchedulingPolicies", "List", "name", "arn", {}),
    Kind(
        "consumable-resource",
        "ConsumableResource",
        "ConsumableResources",
        "List",
        "consumableResourceName",
        "consumableResource",
        {},
    ),
)


@pytest.fixture(params=KINDS, ids=lambda value: value.in_arn)
def kind(request):
    return request.param


@pytest.fixture
def create(accepted, default_queue, kind):
    async def create(*names):
        return [await accepted(f"Create{kind.title}", {kind.name: name} | kind.members) for name in names]

    return create


async def test_a_name_that_aws_accepts_is_accepted(create, kind):
    names = ["a" * 128, "A-b_9", "_", "0"]
    assert [made[kind.name] for made in await create(*names)] == names


async def test_a_name_that_aws_refuses_is_refused(default_queue, refuses, kind):
    names = ["", "a" * 129, "a/b", "a b", "a:1", "a\n"]
    await refuses(
        f"Create{kind.title}", [({kind.name: name}, f"{kind.name} must be") for name in names], **kind.members
    )


async def test_an_existing_name_is_refused_with_the_plain_text_of_aws(create, refused, kind):
    await create("it")

    assert await refused(f"Create{kind.title}", {kind.name: "it"} | kind.members) == "Object already exists"


async def test_deleting_a_known_or_unknown_resource_succeeds(create, accepted, kind):
    await create("it")

    for name in (kind.key_of("it"), kind.arn("it"), kind.key_of("nowhere")):
        await accepted(f"Delete{kind.title}", {kind.key: name})

    assert "it" not in kind.names(await accepted(f"{kind.verb}{kind.plural}", {}))


async def test_pages_have_every_resource_once_sorted_by_name(create, accepted, kind):
    await create("x-b", "x-a", "x-e", "x-c", "x-d")
    found, token = [], ""

    while token is not None:
        page = await accepted(f"{kind.verb}{kind.plural}", {"maxResults": 2, "nextToken": token})
        token = page.get("nextToken")
        assert len(kind.names(page)) == 2 or token is None
        found += kind.names(page)

    assert [text for text in found if text.startswith("x-")] == ["x-a", "x-b", "x-c", "x-d", "x-e"]


async def test_a_token_of_another_listing_is_refused(create, accepted, refused, kind):
    await create("one", "two")
    token = (await accepted(f"{kind.verb}{kind.plural}", {"maxResults": 1}))["nextToken"]

    for other in (other_kind for other_kind in KINDS if other_kind is not kind):
        assert "nextToken is not valid" in await refused(f"{other.verb}{other.plural}", {"nextToken": token})


@pytest.mark.parametrize(
    "kind", KINDS[:3], ids=lambda value: value.in_arn, indirect=True
)  # the others are described one by one
async def test_named_resources_are_described_and_unknown_ones_omitted(create, accepted, refused, kind):
    await create("c", "a", "b")

    async def described(*names):
        return [
            resource[kind.name]
            for resource in (await accepted(f"Describe{kind.plural}", {selects: names}))[kind.listed]
        ]

    selects = "arns" if kind.key == "arn" else kind.listed
    assert await described(kind.key_of("b"), kind.arn("a"), kind.arn("a"), kind.key_of("nowhere")) == ["a", "b"]
    assert await described(ARN + "job-definition/a") == []
    hundred = [kind.arn("c"), *(f"no-{n}" for n in range(99))]
    assert await described(*hundred) == ["c"]
    assert selects in await refused(f"Describe{kind.plural}", {selects: [*hundred, "one more"]})
