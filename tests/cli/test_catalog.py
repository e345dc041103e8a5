"""`batchq queue`, `env`, `def` and `resource`: requests and output."""

import json
import re

import pytest

from tests.cli.responses import environment, explanation, machine, machine_list, overview, queue
from tests.cli.servers import batchq, row

QUEUES = [
    {
        "jobQueueName": name,
        "state": state,
        "status": "VALID",
        "priority": priority,
        "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "arn:aws:batch:r:1:compute-environment/local"}],
    }
    for name, state, priority in (("default", "ENABLED", 1), ("night", "DISABLED", 5))
]
COUNTS = {"RUNNING": 2, "STARTING": 1, "RUNNABLE": 4, "FAILED": 9}
OVERVIEW = overview(
    queues=[queue("default", counts=COUNTS, why=explanation("needs 4 vCPUs, 1.5 of 8 are free"))],
    capacity=[environment()],
)


def definition(name, revision):
    requirements = [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "64"}]
    properties = {"image": "busybox", "command": ["echo", "hi"], "resourceRequirements": requirements}
    return {"jobDefinitionName": name, "revision": revision, "type": "container", "containerProperties": properties}


@pytest.fixture
def catalog(native):
    native.responses |= {
        "/v1/describejobqueues": {"jobQueues": QUEUES},
        "/v1/updatejobqueue": {},
        "/v1/batchq/overview": OVERVIEW,
        "/v1/describecomputeenvironments": {
            "computeEnvironments": [{"computeEnvironmentName": "local", "state": "ENABLED", "status": "VALID"}]
        },
        "/v1/describejobdefinitions": {"jobDefinitions": [definition("b", 1), definition("a", 1), definition("a", 2)]},
        "/v1/listconsumableresources": {
            "consumableResources": [
                {
                    "consumableResourceName": "licence",
                    "resourceType": "REPLENISHABLE",
                    "inUseQuantity": 1,
                    "totalQuantity": 4,
                }
            ]
        },
        "/v1/describeconsumableresource": {"consumableResourceName": "licence", "totalQuantity": 4},
    }
    return native


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["queue", "list"],
            ["night\tDISABLED\t5\t0\t0\tlocal\t", "default\tENABLED\t1\t3\t4\tlocal\tneeds 4 vCPUs, 1.5 of 8 are free"],
        ),
        (["env", "list"], ["local\tENABLED\t6.5/8\t512/1024\t0/0\tVALID"]),
        (["def", "list"], [f"{it}\tcontainer\t2\t64\tbusybox\techo hi" for it in ("a:2", "b:1")]),
        (["resource", "list"], ["licence\tREPLENISHABLE\t1\t4"]),
        (["resource", "show", "licence"], ["consumableResourceName\tlicence", "totalQuantity\t4"]),
    ],
)
async def test_a_line_for_each_resource_is_printed(catalog, capsys, words, lines):
    assert await batchq(*words) == 0

    assert capsys.readouterr().out.splitlines() == lines


async def test_show_prints_each_setting_with_its_path(catalog, capsys):
    assert await batchq("def", "show", "a") == 0

    fields = dict(it.split("\t") for it in capsys.readouterr().out.splitlines())
    assert fields["revision"] == "2"
    assert fields["containerProperties.command"] == "echo hi"
    assert fields["containerProperties.resourceRequirements[0].type"] == "VCPU"
    assert catalog.requests == [("POST", "/v1/describejobdefinitions", {"jobDefinitionName": "a"})]


@pytest.fixture
def two_nodes(catalog):
    away = machine("n1", "AWAY", awaySince=0, jobs=[row(), row("blast")], job_count=2)
    pages = iter([machine_list(away, nextToken="more"), machine_list(machine("n2"))])
    catalog.responses["/v1/batchq/listmachines"] = lambda _: next(pages)
    return catalog


async def test_an_environment_shows_its_machines_of_all_pages_below_its_settings(two_nodes, capsys):
    assert await batchq("env", "show", "local") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "computeEnvironmentName\tlocal"
    assert [re.sub(r"1970\S+", "1970", line) for line in lines[-2:]] == [
        "machine\tn1\tAWAY\t1970\t6.5/8\t20480/24576\t1/2\t2\ttrain blast",
        "machine\tn2\tREADY\t\t6.5/8\t20480/24576\t1/2\t0\t",
    ]
    assert [content["computeEnvironment"] for _, path, content in two_nodes.requests if path.endswith("machines")] == [
        "local"
    ] * 2


async def test_the_json_of_an_environment_has_its_machines(two_nodes, capsys):
    assert (
        await batchq("env", "show", "local", "--query", "[state, machines[].machine, machines[0].jobs[].jobName]") == 0
    )

    assert json.loads(capsys.readouterr().out) == ["ENABLED", ["n1", "n2"], ["train", "blast"]]


async def test_json_is_the_response_of_aws_operation(catalog, capsys):
    assert await batchq("queue", "list", "-o", "json") == 0

    assert json.loads(capsys.readouterr().out) == {"jobQueues": QUEUES}


async def test_a_resource_that_does_not_exist_is_status_1(catalog, capsys):
    catalog.responses["/v1/describejobqueues"] = {"jobQueues": []}

    assert await batchq("queue", "show", "nope") == 1

    assert capsys.readouterr().err == "batchq: there is no job queue 'nope'\n"


async def test_queues_are_enabled_and_disabled(catalog, capsys):
    assert await batchq("queue", "disable", "night", "gpu") == 0
    assert await batchq("queue", "enable", "night") == 0

    assert [content for _, _, content in catalog.requests] == [
        {"jobQueue": "night", "state": "DISABLED"},
        {"jobQueue": "gpu", "state": "DISABLED"},
        {"jobQueue": "night", "state": "ENABLED"},
    ]
    assert capsys.readouterr().out.splitlines()[0] == "queue night is DISABLED"


async def test_a_refused_change_is_reported_and_the_others_are_made(catalog, capsys):
    del catalog.responses["/v1/updatejobqueue"]

    assert await batchq("queue", "disable", "night", "gpu") == 1

    assert capsys.readouterr().err.count("\n") == 2


async def test_an_environment_is_created_with_the_machines_that_it_selects(catalog, capsys):
    catalog.responses["/v1/createcomputeenvironment"] = {}

    assert await batchq("env", "create", "gpu", "--vcpus", "8", "--engine", "docker", "--label", "pool=gpu") == 0

    tags = {"batchq:engine": "docker", "batchq:label:pool": "gpu"}
    body = {"computeEnvironmentName": "gpu", "type": "UNMANAGED", "unmanagedvCpus": 8, "tags": tags}
    assert catalog.requests == [("POST", "/v1/createcomputeenvironment", body)]
    assert capsys.readouterr().out == "environment gpu is ENABLED\n"


@pytest.mark.parametrize(
    ("kind", "size"),
    [("UNMANAGED", {"unmanagedvCpus": 8}), ("MANAGED", {"computeResources": {"maxvCpus": 8}})],
)
async def test_an_environment_is_changed_by_the_requests_that_its_flags_need(catalog, kind, size):
    arn = "arn:aws:batch:r:1:compute-environment/gpu"
    detail = {"computeEnvironmentName": "gpu", "computeEnvironmentArn": arn, "type": kind, "state": "ENABLED"}
    catalog.responses |= {
        "/v1/describecomputeenvironments": {"computeEnvironments": [detail]},
        f"/v1/tags/{arn}": {},
        "/v1/updatecomputeenvironment": {},
    }

    words = ("--label", "zone=a", "--no-label", "pool", "--no-engine", "--vcpus", "8")
    assert await batchq("env", "update", "gpu", *words) == 0

    assert catalog.requests[1:] == [
        ("POST", f"/v1/tags/{arn}", {"tags": {"batchq:label:zone": "a"}}),
        ("DELETE", f"/v1/tags/{arn}?tagKeys=batchq%3Alabel%3Apool&tagKeys=batchq%3Aengine", None),
        ("POST", "/v1/updatecomputeenvironment", {"computeEnvironment": "gpu"} | size),
    ]
