"""SubmitJob of jobs of several containers, of several nodes, and of arrays."""

import pytest

from batchq.domain.container import length
from batchq.domain.job import ConsumableRequirement, DependencyType
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
async def submitted(server, several, http):
    """Submit a job, and look at its spec as the inside has it."""

    async def submitted(**members):
        status, _, answer = await http.post("SubmitJob", REQUEST | members)
        assert status == 200, answer
        return (await server.engine.job(answer["jobId"])).spec

    return submitted


def duo(*containers):
    override = {"taskProperties": [{"containers": list(containers)}]}
    return {"jobDefinition": "duo", "ecsPropertiesOverride": override}


def gang(*overrides, **more):
    return {"jobDefinition": "gang", "nodeOverrides": {"nodePropertyOverrides": list(overrides)} | more}


async def test_parameters_reach_every_container(submitted):
    spec = await submitted(jobDefinition="duo", parameters={"port": "8080"})

    assert [it.spec.command for it in spec.task.containers] == [("serve", "8080"), ("run", "8080")]
    assert spec.container == spec.task.leading.spec


async def test_a_container_of_a_task_is_overridden_by_its_name(submitted):
    members = {
        "name": "work",
        "command": ["echo", "Ref::port"],
        "environment": ENVIRONMENT,
        "resourceRequirements": [{"type": "MEMORY", "value": "128"}, {"type": "GPU", "value": 1}],
    }

    spec = await submitted(**duo(members))

    side, work = spec.task.containers
    assert side.spec.command == ("serve", "80")
    assert work.spec.command == ("echo", "80")
    assert work.spec.environment == (("A", "2"), ("B", "3"))
    assert (work.spec.resources.memory_mib, work.spec.resources.gpus) == (128, 1)
    assert spec.resources.memory_mib == 160


async def test_the_length_of_a_tasks_overrides_is_limited_in_total(submitted):
    long = {"environment": [{"name": "A", "value": "x" * 5000}]}

    spec = await submitted(**duo({"name": "side"} | long, {"name": "work"} | long))

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


@pytest.mark.parametrize(("count", "ranges"), [(3, [(0, 2), (2, 2)]), (6, [(0, 5), (2, 3)]), (4, [(0, 3), (2, 3)])])
async def test_the_number_of_nodes_can_be_overridden(submitted, count, ranges):
    spec = await submitted(**gang(numNodes=count))

    assert spec.nodes.count == count
    assert [(it.first, it.last) for it in spec.nodes.ranges] == ranges


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


async def test_a_gang_without_overrides_is_as_registered(server, submitted):
    spec = await submitted(jobDefinition="gang", nodeOverrides={})

    assert [(it.first, it.last) for it in spec.nodes.ranges] == [(0, 3), (2, 3)]
    assert spec.nodes.task(3).container("side").spec.command == ("serve", "80")


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

    assert [(it.job_id, it.type) for it in spec.depends_on] == [
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
    (
        {"jobDefinition": "duo", "ecsPropertiesOverride": {"taskProperties": [{}, {}]}},
        "exactly 1 element",
    ),
    (duo({"name": "work"}) | {"containerOverrides": OVER}, "containerOverrides cannot be specified"),
    (
        {"jobDefinition": "duo", "nodeOverrides": {"numNodes": 2}},
        "nodeOverrides cannot be specified for a job definition that has ecsProperties",
    ),
    (
        {"jobDefinition": "duo", "eksPropertiesOverride": {"podProperties": {}}},
        "eksPropertiesOverride is not supported",
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
    ({"arrayProperties": {"size": 1}}, "Array size must be between 2 and 10000"),
    ({"arrayProperties": {"size": 0}}, "Array size must be between 2 and 10000"),
    ({"arrayProperties": {"size": -2}}, "Array size must be between 2 and 10000"),
    ({"arrayProperties": {"size": 10001}}, "Array size must be between 2 and 10000"),
    ({"arrayProperties": {"size": "2"}}, "arrayProperties.size"),
    ({"arrayProperties": {"size": 2.0}}, "arrayProperties.size"),
    ({"arrayProperties": {"size": 2}, "dependsOn": [{"type": "SEQUENTIAL"}] * 21}, "more than 20 dependencies"),
    ({"arrayProperties": {"size": 2}, "dependsOn": [{"type": "N_TO_N"}]}, "'jobId' is a required field"),
    (
        {"consumableResourcePropertiesOverride": {"consumableResourceList": [{"consumableResource": "x"}]}},
        "The quantity of a consumable resource",
    ),
]


@pytest.mark.parametrize(("members", "text"), REFUSED, ids=str)
async def test_invalid_requests_are_refused_and_store_nothing(several, refused, members, text):
    assert text in await refused("SubmitJob", REQUEST | members)


@pytest.mark.parametrize("kind", ["no array", "another size"])
async def test_n_to_n_dependencies_require_arrays_of_equal_size(several, boto, http, kind):
    array = (await boto.submit_job(**REQUEST, arrayProperties={"size": 3}))["jobId"]
    plain = (await boto.submit_job(**REQUEST))["jobId"]
    job_id, size = (plain, 2) if kind == "no array" else (array, 2)

    status, _, answer = await http.post(
        "SubmitJob", REQUEST | {"arrayProperties": {"size": size}, "dependsOn": [{"jobId": job_id, "type": "N_TO_N"}]}
    )

    assert (status, "two array jobs of one size" in answer["message"]) == (400, True)


async def test_a_dependency_on_a_node_is_refused(several, boto, http):
    job_id = (await boto.submit_job(**REQUEST | {"jobDefinition": "gang"}))["jobId"]

    status, _, answer = await http.post("SubmitJob", REQUEST | {"dependsOn": [{"jobId": f"{job_id}#0"}]})

    assert (status, "is a node: depend on its job" in answer["message"]) == (400, True)


async def test_the_number_of_nodes_is_fixed_without_an_open_ended_range(several, boto, http):
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=[RANGES[0] | {"targetNodes": "0:3"}]))

    status, _, answer = await http.post("SubmitJob", REQUEST | gang(numNodes=5))
    same, _, _ = await http.post("SubmitJob", REQUEST | gang(numNodes=4))

    assert (status, "open-ended" in answer["message"], same) == (400, True, 200)


async def test_the_main_node_must_be_among_the_nodes(several, boto, http):
    ranges = [RANGES[0] | {"targetNodes": "0:"}]
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=ranges, mainNode=3))

    status, _, answer = await http.post("SubmitJob", REQUEST | gang(numNodes=3))

    assert (status, "mainNode must be from 0 to 2" in answer["message"]) == (400, True)
