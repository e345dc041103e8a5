"""`batchq queue`, `env`, `def` and `resource`: requests and output."""

import json
import re

import pytest

from batchq.cli.catalog_detail import definition_fields, environment_fields, queue_fields
from batchq.compute.simulated.script import Script
from tests.cli.responses import environment, explanation, machine, machine_list, overview, queue
from tests.cli.servers import batchq, row
from tests.console.conftest import console_of

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
    return {
        "jobDefinitionName": name,
        "revision": revision,
        "type": "container",
        "containerProperties": properties,
        "status": "ACTIVE",
    }


@pytest.fixture
def catalog(native):
    native.responses |= {
        "/v1/describejobqueues": {"jobQueues": QUEUES},
        "/v1/updatejobqueue": {},
        "/v1/batchq/overview": OVERVIEW,
        "/v1/describecomputeenvironments": {
            "computeEnvironments": [
                {"computeEnvironmentName": "local", "state": "ENABLED", "status": "VALID", "type": "UNMANAGED"}
            ]
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
        "/v1/describeconsumableresource": {
            "consumableResourceName": "licence",
            "resourceType": "REPLENISHABLE",
            "inUseQuantity": 1,
            "totalQuantity": 4,
            "availableQuantity": 3,
        },
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
        (["def", "list"], [f"{text}\tcontainer\t2\t64\tbusybox\techo hi" for text in ("a:2", "b:1")]),
        (["resource", "list"], ["licence\tREPLENISHABLE\t1\t4"]),
        (
            ["resource", "show", "licence"],
            ["resource\tlicence", "type\tREPLENISHABLE", "in use\t1 of 4", "available\t3"],
        ),
    ],
)
async def test_a_line_for_each_resource_is_printed(catalog, capsys, words, lines):
    assert await batchq(*words) == 0

    assert capsys.readouterr().out.splitlines() == lines


async def test_a_list_without_rows_has_a_notice_and_json_has_none(catalog, capsys):
    catalog.responses["/v1/listconsumableresources"] = {"consumableResources": []}

    assert await batchq("resource", "list") == 0
    assert capsys.readouterr() == ("", "batchq: there are no consumable resources\n")

    assert await batchq("resource", "list", "-o", "json") == 0
    assert capsys.readouterr().err == ""


async def test_the_revisions_of_an_unknown_definition_are_an_error(catalog, capsys):
    catalog.responses["/v1/describejobdefinitions"] = {"jobDefinitions": []}

    assert await batchq("def", "list", "nope") == 1
    assert capsys.readouterr().err == "batchq: there is no job definition 'nope' with an active revision\n"


async def test_show_prints_a_definition_in_words(catalog, capsys):
    assert await batchq("def", "show", "a") == 0

    fields = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert fields == {
        "definition": "a:2",
        "state": "ACTIVE",
        "type": "container",
        "image": "busybox",
        "command": "echo hi",
        "resources": "2 vCPU, 64 MiB",
    }
    assert catalog.requests[0] == ("POST", "/v1/describejobdefinitions", {"jobDefinitionName": "a"})


async def test_show_prints_what_the_last_jobs_of_a_definition_used(tmp_path, monkeypatch, capsys):
    async with console_of(tmp_path / "data") as console:
        monkeypatch.setenv("BATCHQ_URL", console.url)
        job = await console.run_measured("train", script=Script(seconds=None, on_term=0, cpus=2, memory_mib=20))
        name = (await console.describe(job))["jobDefinition"].rpartition("/")[2]

        assert await batchq("def", "show", name) == 0

    fields = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert fields["measured"] == "1 attempt of the last 100 jobs"
    assert re.fullmatch(r"median (\S+ s), p95 \1, most \1", fields["CPU time"])
    assert fields["peak memory"] == "median 20 MiB, p95 20 MiB, most 20 MiB of 64 MiB"


async def test_show_prints_the_advice_about_a_definition(catalog, capsys):
    spread = {"median": 2.0, "p95": 2.0, "most": 3.0}
    advice = "64 MiB would be enough."
    catalog.responses["/v1/batchq/definitionuse"] = {
        "jobDefinition": "a:2",
        "measuredAttempts": 20,
        "memoryMiB": 64,
        "cpuSeconds": spread,
        "advice": advice,
    }

    assert await batchq("def", "show", "a") == 0

    assert f"advice\t{advice}" in capsys.readouterr().out
    assert catalog.requests[-1][2] == {"jobDefinition": "a:2"}


@pytest.fixture
def two_nodes(catalog):
    away = machine("n1", "AWAY", awaySince=0, jobs=[row(), row("blast")], job_count=2)
    pages = iter([machine_list(away, nextToken="more"), machine_list(machine("n2"))])
    catalog.responses["/v1/batchq/listmachines"] = lambda _: next(pages)
    return catalog


async def test_an_environment_shows_its_machines_of_all_pages_below_its_settings(two_nodes, capsys):
    assert await batchq("env", "show", "local") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "environment\tlocal"
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
    ("kind", "size"), [("UNMANAGED", {"unmanagedvCpus": 8}), ("MANAGED", {"computeResources": {"maxvCpus": 8}})]
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


def test_members_of_a_queue_an_environment_and_a_definition_have_words():
    order = [{"order": 2, "computeEnvironment": "arn:b"}, {"order": 1, "computeEnvironment": "arn:x/a"}]
    limit = {"action": "CANCEL", "maxTimeSeconds": 600, "state": "RUNNABLE", "reason": "MISCONFIGURATION"}
    queue = QUEUES[0] | {
        "status": "INVALID",
        "statusReason": "no environment",
        "computeEnvironmentOrder": order,
        "schedulingPolicyArn": "arn:x/fair",
        "jobStateTimeLimitActions": [limit],
    }
    tags = {"batchq:engine": "kubernetes", "batchq:label:pool": "gpu", "team": "a"}
    environment = {"computeEnvironmentName": "gpu", "state": "ENABLED", "type": "UNMANAGED", "unmanagedvCpus": 8}
    container = {
        "name": "app",
        "image": "busybox",
        "environment": [{"name": "MODE", "value": "fast"}],
        "volumes": [{"name": "data", "host": {"sourcePath": "/data"}}],
        "mountPoints": [{"sourceVolume": "data", "containerPath": "/in", "readOnly": True}],
    }
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": [{"targetNodes": "0:1", "container": container}]}
    retry = {"attempts": 3, "evaluateOnExit": [{"action": "EXIT", "onExitCode": "1"}]}
    gang = {"jobDefinitionName": "gang", "revision": 1, "type": "multinode", "nodeProperties": nodes}

    assert list(queue_fields(queue))[1:] == [
        ("state", "ENABLED, INVALID: no environment"),
        ("priority", "1"),
        ("environments", "a, then arn:b"),
        ("fair share", "by the scheduling policy fair"),
        ("time limit", "CANCEL after 10 min 0 s in RUNNABLE for: MISCONFIGURATION"),
    ]
    assert list(environment_fields(environment | {"tags": tags}))[2:] == [
        ("type", "UNMANAGED"),
        ("vCPUs", "at most 8 for its jobs together"),
        ("engine", "kubernetes"),
        ("machines", "with the labels pool=gpu"),
        ("tags", "team=a"),
    ]
    assert list(definition_fields(gang | {"retryStrategy": retry, "timeout": {"attemptDurationSeconds": 60}}))[3:] == [
        ("nodes", "2, of which 0 is the main node"),
        ("nodes 0:1", "busybox; MODE=fast; /data:/in:ro"),
        ("attempts", "at most 3; EXIT if onExitCode is 1"),
        ("time limit", "1 min 0 s for each attempt"),
    ]
