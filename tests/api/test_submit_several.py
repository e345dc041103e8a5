"""SubmitJob of jobs of several containers, of several nodes, and of arrays."""

import pytest

from batchq.domain.container import length
from batchq.domain.enums import DependencyType
from batchq.domain.job import ConsumableRequirement
from tests.api.conftest import ARN
from tests.api.several import DUO, GANG, RANGES, with_nodes

REQUEST = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
ENVIRONMENT = [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]
LICENCE = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}


@pytest.fixture
async def several(sleeper, boto):
    """The job definitions `duo` and `gang`."""
    await boto.register_job_definition(**DUO, parameters={"port": "80"})
    await boto.register_job_definition(**GANG, parameters={"port": "80"})


@pytest.fixture
async def submitted(server, several, accepted):
    """Submit a job; returns its spec."""

    async def submitted(**members):
        made = await accepted("SubmitJob", REQUEST | members)
        return (await server.engine.job(made["jobId"])).spec

    return submitted


def duo(*containers):
    override = {"taskProperties": [{"containers": list(containers)}]}
    return {"jobDefinition": "duo", "ecsPropertiesOverride": override}


def gang(*overrides, **more):
    return {"jobDefinition": "gang", "nodeOverrides": {"nodePropertyOverrides": list(overrides)} | more}


async def test_parameters_reach_every_container(submitted):
    spec = await submitted(jobDefinition="duo", parameters={"port": "8080"})

    assert [container.spec.command for container in spec.nodes.task(0).containers] == [
        ("serve", "8080"),
        ("run", "8080"),
    ]
    assert spec.container == spec.nodes.task(0).leading.spec


async def test_a_container_of_a_task_is_overridden_by_its_name(submitted):
    members = {
        "name": "work",
        "command": ["echo", "Ref::port"],
        "environment": ENVIRONMENT,
        "resourceRequirements": [{"type": "MEMORY", "value": "128"}, {"type": "GPU", "value": 1}],
    }

    spec = await submitted(**duo(members))

    side, work = spec.nodes.task(0).containers
    assert side.spec.command == ("serve", "80")
    assert work.spec.command == ("echo", "80")
    assert work.spec.environment == (("A", "2"), ("B", "3"))
    assert (work.spec.resources.memory_mib, work.spec.resources.gpus) == (128, 1)
    assert (spec.resources.memory_mib, spec.resources.gpus) == (160, 1)


async def test_the_length_of_a_tasks_overrides_is_limited_in_total(submitted):
    variables = [{"name": "A", "value": "x" * 5000}]

    spec = await submitted(**duo({"name": "side", "environment": variables}, {"name": "work", "command": ["x" * 5000]}))

    assert length(spec.overrides) > 10000


async def test_nodes_are_overridden_by_range(submitted):
    spec = await submitted(
        **gang(
            {"targetNodes": "0:3", "containerOverrides": {"command": ["x"], "vcpus": 2, "memory": 1}},
            {
                "targetNodes": "2:",
                "ecsPropertiesOverride": {"taskProperties": [{"containers": [{"name": "side", "command": ["y"]}]}]},
            },
        )
    )

    assert spec.nodes.task(0).leading.spec.command == ("x",)
    assert spec.nodes.task(0).leading.spec.resources.millicpus == 1000
    assert spec.nodes.task(2).container("side").spec.command == ("y",)
    assert spec.nodes.task(2).container("work").spec.command == ("run", "80")


@pytest.mark.parametrize(
    ("overrides", "count", "ranges"),
    [
        ({"numNodes": 3}, 3, [(0, 2), (2, 2)]),
        ({"numNodes": 6}, 6, [(0, 5), (2, 3)]),
        ({"numNodes": 4}, 4, [(0, 3), (2, 3)]),
        ({}, 4, [(0, 3), (2, 3)]),
    ],
)
async def test_the_number_of_nodes_can_be_overridden(submitted, overrides, count, ranges):
    spec = await submitted(jobDefinition="gang", nodeOverrides=overrides)

    assert spec.nodes.count == count
    assert [(node_range.first, node_range.last) for node_range in spec.nodes.ranges] == ranges
    assert spec.nodes.task(2).container("side").spec.command == ("serve", "80")


async def test_required_resources_replace_those_of_the_definition(boto, submitted):
    needs = {"consumableResourceList": [{"consumableResource": "seat", "quantity": 1}]}
    await boto.register_job_definition(**DUO | {"consumableResourceProperties": needs})

    kept = await submitted(jobDefinition="duo", consumableResourcePropertiesOverride={"consumableResourceList": []})
    taken = await submitted(jobDefinition="duo", consumableResourcePropertiesOverride=LICENCE)

    assert kept.needs == (ConsumableRequirement(resource="seat", quantity=1),)
    assert taken.needs == (ConsumableRequirement(resource="licence", quantity=2),)


async def test_the_required_resources_of_a_gang_are_totalled_again(boto, submitted):
    seat = {"consumableResourceList": [{"consumableResource": "seat", "quantity": 1}]}
    ranges = [RANGES[0] | {"consumableResourceProperties": seat}, RANGES[1] | {"consumableResourceProperties": seat}]
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=ranges), consumableResourceProperties=seat)

    spec = await submitted(**gang({"targetNodes": "2:3", "consumableResourcePropertiesOverride": LICENCE}, numNodes=5))

    assert spec.needs == (
        ConsumableRequirement(resource="seat", quantity=1 + 3),
        ConsumableRequirement(resource="licence", quantity=4),
    )


async def test_empty_lists_keep_the_required_resources_of_the_definition(boto, submitted):
    seat = {"consumableResourceList": [{"consumableResource": "seat", "quantity": 1}]}
    ranges = [RANGES[0] | {"consumableResourceProperties": seat}, RANGES[1]]
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=ranges), consumableResourceProperties=seat)
    none = {"consumableResourceList": []}

    spec = await submitted(
        **gang({"targetNodes": "0:", "consumableResourcePropertiesOverride": none}),
        consumableResourcePropertiesOverride=none,
    )

    assert spec.needs == (ConsumableRequirement(resource="seat", quantity=1 + 2),)


@pytest.mark.parametrize("size", [2, 10000])
async def test_an_array_has_2_to_10000_children(submitted, size):
    assert (await submitted(arrayProperties={"size": size})).array_size == size


async def test_children_can_depend_sequentially_and_one_to_one(submitted, boto):
    first = await boto.submit_job(**REQUEST, arrayProperties={"size": 3})

    spec = await submitted(
        jobDefinition="duo",
        arrayProperties={"size": 3},
        dependsOn=[{"type": "SEQUENTIAL"}, {"jobId": f"{ARN}job/{first['jobId']}", "type": "N_TO_N"}],
    )

    assert [(job.job_id, job.type) for job in spec.depends_on] == [
        (None, DependencyType.SEQUENTIAL),
        (first["jobId"], DependencyType.N_TO_N),
    ]


OVER = {"command": ["x"]}
REFUSED = [
    (duo({"name": "other"}), "Container 'other' in ecsPropertiesOverride is not one of"),
    (duo({}), "Container '' in ecsPropertiesOverride is not one of"),
    (duo({"name": "work"}, {"name": "work"}), "more than once"),
    (duo({"name": "work", "command": [""]}), "must not have empty elements"),
    (duo({"name": "work", "environment": [{"name": "A=B"}]}), "environment variable"),
    (duo({"name": "work", "resourceRequirements": [{"type": "VCPU", "value": "0"}]}), "VCPU must be a positive"),
    (duo({"name": "side", "resourceRequirements": [{"type": "MEMORY", "value": "3"}]}), "at least 4 MiB"),
    ({"jobDefinition": "duo", "ecsPropertiesOverride": {"taskProperties": [{}, {}]}}, "exactly 1 element"),
    (duo({"name": "work"}) | {"containerOverrides": OVER}, "containerOverrides cannot be specified"),
    (
        {"jobDefinition": "duo", "nodeOverrides": {"numNodes": 2}},
        "nodeOverrides cannot be specified for a job definition that has ecsProperties",
    ),
    (
        {"jobDefinition": "duo", "eksPropertiesOverride": {"podProperties": {"containers": [{"args": ["x"]}]}}},
        "cannot be specified for a job definition that has ecsProperties",
    ),
    (gang() | {"containerOverrides": OVER}, "containerOverrides cannot be specified"),
    (gang() | {"ecsPropertiesOverride": {"taskProperties": [{}]}}, "ecsPropertiesOverride cannot be specified"),
    (gang() | {"arrayProperties": {"size": 2}}, "cannot be an array"),
    (
        gang({"targetNodes": "0:0", "containerOverrides": OVER}),
        "NodeOverride targets should match job definition. Non matching targets - 0:0",
    ),
    (gang({"targetNodes": "0:1"}, {"targetNodes": "1:"}), "Non matching targets - 0:1, 1:"),
    (gang({"targetNodes": "all"}), "targetNodes must be a range"),
    (gang({"targetNodes": "0:"}, {"targetNodes": "0:3"}), "more than once"),
    (gang({"targetNodes": "2:3", "containerOverrides": OVER}), "containerOverrides cannot be specified for the nodes"),
    (gang({"targetNodes": "0:", "ecsPropertiesOverride": {"taskProperties": [{}]}}), "for the nodes 0:"),
    (gang({"targetNodes": "0:", "eksPropertiesOverride": {"podProperties": {}}}), "not supported"),
    (
        gang({"targetNodes": "0:", "containerOverrides": {"resourceRequirements": [{"type": "VCPU", "value": "0"}]}}),
        "VCPU must be a positive",
    ),
    (gang(numNodes=0), "numNodes must be between 1 and 1000"),
    (gang(numNodes=1001), "numNodes must be between 1 and 1000"),
    (gang(numNodes=2), "targetNodes 2:3 is beyond the 2 nodes"),
    *(
        ({"arrayProperties": {"size": number}}, "Array size must be between 2 and 10000")
        for number in (1, 0, -2, 10001)
    ),
    *(({"arrayProperties": {"size": size}}, "arrayProperties.size") for size in ("2", 2.0)),
    ({"arrayProperties": {"size": 2}, "dependsOn": [{"type": "SEQUENTIAL"}] * 21}, "more than 20 dependencies"),
    ({"arrayProperties": {"size": 2}, "dependsOn": [{"type": "N_TO_N"}]}, "'jobId' is a required field"),
    (
        {"consumableResourcePropertiesOverride": {"consumableResourceList": [{"consumableResource": "x"}]}},
        "The quantity of a consumable resource",
    ),
]


async def test_invalid_requests_are_refused_and_store_nothing(several, refuses):
    await refuses("SubmitJob", REFUSED, **REQUEST)


WRONG_DEPENDENCIES = {
    "on a job that is not an array": ({}, "", {"type": "N_TO_N"}, "two array jobs of one size"),
    "on an array of another size": ({"arrayProperties": {"size": 3}}, "", {"type": "N_TO_N"}, "two array jobs of one"),
    "on a node": ({"jobDefinition": "gang"}, "#0", {}, "is a node: depend on its job"),
}


@pytest.mark.parametrize("case", WRONG_DEPENDENCIES)
async def test_dependencies_that_an_array_cannot_have_are_refused(several, boto, refused, case):
    earlier, member, kind, text = WRONG_DEPENDENCIES[case]
    job_id = (await boto.submit_job(**REQUEST | earlier))["jobId"]

    members = {"arrayProperties": {"size": 2}, "dependsOn": [{"jobId": job_id + member} | kind]}
    assert text in await refused("SubmitJob", REQUEST | members)


FIXED = [({"targetNodes": "0:3"}, 0, 5, "open-ended"), ({"targetNodes": "0:"}, 3, 3, "mainNode must be from 0 to 2")]


@pytest.mark.parametrize("case", FIXED, ids=str)
async def test_a_number_of_nodes_that_the_ranges_do_not_allow_is_refused(several, accepted, refused, case):
    target, main, count, text = case
    await accepted("RegisterJobDefinition", with_nodes(nodeRangeProperties=[RANGES[0] | target], mainNode=main))

    assert text in await refused("SubmitJob", REQUEST | gang(numNodes=count))
    await accepted("SubmitJob", REQUEST | gang(numNodes=4))
