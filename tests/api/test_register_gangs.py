"""RegisterJobDefinition of type multinode, and with consumable resources."""

import pytest

from batchq.domain.container import Resources
from batchq.domain.job import ConsumableRequirement
from tests.api.conftest import ARN, CONTAINER
from tests.api.several import DUO, ECS, GANG, RANGES, with_nodes, with_range

EMPTY = {"environment": [], "mountPoints": [], "secrets": [], "ulimits": [], "volumes": []}
LICENCE = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}


async def test_each_node_has_a_range_and_inner_ranges_take_precedence(registered):
    made = await registered(GANG)

    gang = made.nodes
    assert (gang.count, gang.main) == (4, 0)
    assert [(it.first, it.last) for it in gang.ranges] == [(0, 3), (2, 3)]
    assert [len(gang.task(node).containers) for node in range(4)] == [1, 1, 2, 2]
    assert gang.leading.name == "default"
    assert made.container == gang.task(0).leading.spec
    assert gang.resources == Resources(millicpus=2 * 1000 + 2 * 1250, memory_mib=2 * 64 + 2 * 96)


async def test_a_registered_definition_is_returned_member_by_member(boto):
    ranges = [RANGES[0] | {"consumableResourceProperties": LICENCE, "instanceTypes": ["c5.large"]}, RANGES[1]]
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=ranges))

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["gang:1"]))["jobDefinitions"]

    assert described["type"] == "multinode"
    assert described["nodeProperties"] == {
        "numNodes": 4,
        "mainNode": 0,
        "nodeRangeProperties": [ranges[0] | {"container": EMPTY | CONTAINER}, ranges[1]],
    }
    assert "containerProperties" not in described


def ranges(*texts):
    return with_nodes(nodeRangeProperties=[RANGES[0] | {"targetNodes": text} for text in texts])


COVERED = [
    *(ranges(it) for it in ("0:3", ":3", "0:", ":")),
    ranges("0:0", "1:3"),
    ranges("0:1", "2:"),
    ranges("0:0", "1:1", "2:2", "3:3"),
    ranges(":3", "0:0", "1:1", "2:2", "3:3"),
    with_nodes(numNodes=1, nodeRangeProperties=RANGES[:1]),
    with_nodes(numNodes=1000, mainNode=999),
    with_range(ecsProperties={}, eksProperties={}),
    GANG | {"containerProperties": {}, "ecsProperties": {}},
]


@pytest.mark.parametrize("members", COVERED, ids=str)
async def test_requests_that_aws_accepts_are_accepted(accepted, members):
    await accepted("RegisterJobDefinition", members)


REFUSED = [
    (GANG | {"nodeProperties": None}, "nodeProperties must be provided"),
    (GANG | {"containerProperties": CONTAINER}, "in nodeProperties only"),
    (GANG | {"ecsProperties": ECS}, "in nodeProperties only"),
    (GANG | {"type": "container"}, "only for a job definition of type multinode"),
    (GANG | {"platformCapabilities": ["FARGATE"]}, "multinode is not applicable for Fargate"),
    (GANG | {"nodeProperties": {"numNodes": 2}}, "nodeProperties.mainNode"),
    (with_nodes(numNodes=0), "numNodes must be between 1 and 1000"),
    (with_nodes(numNodes=1001), "numNodes must be between 1 and 1000"),
    (with_nodes(numNodes="4"), "nodeProperties.numNodes"),
    (with_nodes(mainNode=-1), "mainNode must be from 0 to 3"),
    (with_nodes(mainNode=4), "mainNode must be from 0 to 3"),
    (with_nodes(nodeRangeProperties=[]), "1 to 5 ranges"),
    (ranges(*(f"{n}:" for n in range(6))), "1 to 5 ranges"),
    (ranges("0:2"), "Node 3 has no range"),
    (ranges("1:"), "Node 0 has no range"),
    (ranges("0:1", "3:3"), "Node 2 has no range"),
    (ranges("0:4"), "must be within 0:3"),
    (ranges("0:3", "4:4"), "is beyond the 4 nodes"),
    (ranges("0:3", "0:"), "more than once"),
    (ranges("3:0"), "ends before it begins"),
    *((ranges(it), "targetNodes must be a range") for it in ("0", "", "0-3", "0:3\n", "-1:3", f"0:{'9' * 30}")),
    (with_range(container=None), "exactly one of container and ecsProperties"),
    (with_range(ecsProperties=ECS), "exactly one of container and ecsProperties"),
    (with_range(eksProperties={"podProperties": {}}), "eksProperties is not supported"),
    (with_range(container=CONTAINER | {"image": ""}), "image"),
    (with_range(container=CONTAINER | {"resourceRequirements": []}), "vCPU is not provided."),
    (with_range(container=CONTAINER | {"networkConfiguration": {}}), "not applicable for EC2"),
    (with_nodes(nodeRangeProperties=[RANGES[0] | {"container": {}}]), "exactly one of"),
]


@pytest.mark.parametrize(("members", "text"), REFUSED, ids=str)
async def test_invalid_requests_are_refused_and_store_nothing(refused, members, text):
    assert text in await refused("RegisterJobDefinition", members)


def needing(*entries, of=DUO):
    return of | {"consumableResourceProperties": {"consumableResourceList": list(entries)}}


async def test_required_resources_are_stored_by_name_and_returned_as_registered(registered, boto):
    entries = [
        {"consumableResource": ARN + "consumable-resource/licence", "quantity": 2},
        {"consumableResource": "seat", "quantity": 1},
    ]

    made = await registered(needing(*entries))
    empty = await registered(needing() | {"jobDefinitionName": "empty"})

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["duo:1"]))["jobDefinitions"]
    assert made.needs == (
        ConsumableRequirement(resource="licence", quantity=2),
        ConsumableRequirement(resource="seat", quantity=1),
    )
    assert empty.needs == ()
    assert described["consumableResourceProperties"] == {"consumableResourceList": entries}


async def test_a_gang_requires_the_resources_of_each_nodes_range(registered):
    members = with_nodes(
        nodeRangeProperties=[RANGES[0] | {"consumableResourceProperties": LICENCE}, RANGES[1]],
    )

    made = await registered(needing({"consumableResource": "licence", "quantity": 1}, of=members))

    assert made.needs == (ConsumableRequirement(resource="licence", quantity=1 + 2 * 2),)


@pytest.mark.parametrize("operation", ["RegisterJobDefinition", "SubmitJob"])
async def test_the_total_of_all_nodes_is_limited_to_what_clients_can_read(accepted, refused, operation):
    half = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2**62}]}
    ranges = [RANGES[0] | {"consumableResourceProperties": half, "targetNodes": "0:"}]
    members = with_nodes(numNodes=1, nodeRangeProperties=ranges)
    await accepted("RegisterJobDefinition", members)

    two = {
        "RegisterJobDefinition": with_nodes(numNodes=2, nodeRangeProperties=ranges),
        "SubmitJob": {"jobName": "x", "jobQueue": "default", "jobDefinition": "gang", "nodeOverrides": {"numNodes": 2}},
    }
    assert "consumable resource" in await refused(operation, two[operation])


@pytest.mark.parametrize(
    "entries",
    [
        [{"consumableResource": "licence"}],
        *([{"consumableResource": "licence", "quantity": it}] for it in (0, -1, 1.0, 2**63)),
        [{"consumableResource": "", "quantity": 1}],
        [{"consumableResource": ARN + "job-queue/licence", "quantity": 1}],
        [{"quantity": 1}],
        [{"consumableResource": it, "quantity": 1} for it in ("licence", ARN + "consumable-resource/licence")],
    ],
    ids=str,
)
async def test_invalid_resource_requirements_are_refused(refused, entries):
    await refused("RegisterJobDefinition", needing(*entries))
