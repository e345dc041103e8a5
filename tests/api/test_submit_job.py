"""SubmitJob."""

import json
import re
from io import BytesIO
from itertools import product

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory
from batchq.domain.container import Resources
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.capacity import Cluster
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.engine.account_limits import AccountPolicies, SubmitRateLimiter
from tests.api.conftest import ARN, CONTAINER, padded, requirements
from tests.support import builders

REQUEST = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
UNKNOWN = "5d1f6c1e-0000-4000-8000-000000000000"


DEFINITION = ARN + "job-definition/sleeper"


async def test_queue_and_definition_are_given_by_name_or_arn(sleeper, boto, described):
    queues = "default", ARN + "job-queue/default"
    definitions = "sleeper", "sleeper:1", f"{DEFINITION}:1", DEFINITION, DEFINITION.replace("eu-central-1", "x")
    for queue, definition in product(queues, definitions):
        made = await boto.submit_job(jobName="a-job", jobQueue=queue, jobDefinition=definition)

        job = await described(made["jobId"])
        assert (made["jobName"], made["jobArn"]) == ("a-job", f"{ARN}job/{made['jobId']}")
        assert (job["jobQueue"], job["jobDefinition"]) == (ARN + "job-queue/default", sleeper)


NOT_NAMES = ("", "a" * 129, "-a", "_a", "a b", "a/b", "ä", "a\n", "a.b")


@pytest.mark.fault("IN13")
async def test_a_name_that_aws_refuses_is_refused_with_the_text_of_aws(sleeper, refuses):
    table = [({"jobName": name}, "Job name should match valid pattern") for name in NOT_NAMES]
    await refuses("SubmitJob", table, **REQUEST)


REFUSED = {
    "JobQueue nowhere not found.": {"jobQueue": "nowhere"},
    "arn:aws:batch:eu-central-1:210987654321:job-queue/default is of account 210987654321, and this server's": {
        "jobQueue": "arn:aws:batch:eu-central-1:210987654321:job-queue/default"
    },
    "JobQueue arn:aws:batch:eu-central-1:123456789012:job/default not found.": {
        "jobQueue": "arn:aws:batch:eu-central-1:123456789012:job/default"
    },
    "'jobQueue' is a required field": {"jobQueue": ""},
    "JobDefinition name nothing does not exist or is not in ACTIVE status": {"jobDefinition": "nothing"},
    "JobDefinition name sleeper:2 does not exist or is not in ACTIVE status": {"jobDefinition": "sleeper:2"},
    "JobDefinition name sleeper:0 does not exist": {"jobDefinition": "sleeper:0"},
    f"JobDefinition name sleeper:{'9' * 30} does not exist": {"jobDefinition": f"sleeper:{'9' * 30}"},
    f"JobDefinition {ARN}job-definition/sleeper:2 not found.": {"jobDefinition": ARN + "job-definition/sleeper:2"},
    f"JobDefinition {ARN}job-queue/default not found.": {"jobDefinition": ARN + "job-queue/default"},
    "RetryAttempts must be provided with retry strategy": {"retryStrategy": {}},
    "Retry attempts must be between 1 and 10": {"retryStrategy": {"attempts": 0}},
    "between 1 and 10.": {"retryStrategy": {"attempts": 11}},
    "at most 5": {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT"}] * 6}},
    "RETRY or EXIT": {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "STOP"}]}},
    "onReason of": {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT", "onReason": "a*b"}]}},
    "onExitCode": {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT", "onExitCode": "1a"}]}},
    "onStatusReason": {
        "retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT", "onStatusReason": "x" * 513}]}
    },
    "attemptDurationSeconds must be at least 60": {"timeout": {"attemptDurationSeconds": 59}},
    "more than 20 dependencies": {"dependsOn": [{"jobId": UNKNOWN}] * 21},
    "in dependsOn does not exist": {"dependsOn": [{"jobId": UNKNOWN}]},
    f"Job {ARN}job-queue/default in dependsOn": {"dependsOn": [{"jobId": ARN + "job-queue/default"}]},
    "'jobId' is a required field": {"dependsOn": [{}]},
    "'jobId' is a required field (cannot": {"dependsOn": [{"type": "N_TO_N"}]},
    "A SEQUENTIAL dependency without a jobId is for array jobs only": {"dependsOn": [{"type": "SEQUENTIAL"}]},
    "one of N_TO_N, SEQUENTIAL|one of SEQUENTIAL, N_TO_N": {"dependsOn": [{"jobId": UNKNOWN, "type": "LATER"}]},
    "nodeOverrides cannot be specified": {"nodeOverrides": {"numNodes": 2}},
    "ecsPropertiesOverride cannot be specified": {"ecsPropertiesOverride": {"taskProperties": [{}]}},
    "shareIdentifier must not be specified": {"shareIdentifier": "mine"},
    "shareIdentifier must be 1 to 255 letters and digits": {"shareIdentifier": "a" * 256},
    "which an asterisk may follow": {"shareIdentifier": "a b"},
    "'tags'": {"tags": {f"key-{n}": "" for n in range(51)}},
    "'schedulingPriorityOverride'": {"schedulingPriorityOverride": -1},
    "schedulingPriorityOverride": {"schedulingPriorityOverride": 10000},
    "must not begin with 'io.batchq.'": {"tags": {"io.batchq.job": "mine"}},
    "batchq:create-host-paths must be true or false": {"tags": {"batchq:create-host-paths": "yes"}},
}


@pytest.mark.fault("IN13", "IN14", "SE17")
async def test_invalid_requests_are_refused_and_store_nothing(sleeper, refused):
    for text, content in REFUSED.items():
        assert re.search(text.replace("(", r"\("), await refused("SubmitJob", REQUEST | content)), content


async def test_an_error_is_wrapped_as_aws_does(sleeper, http):
    _, headers, answer = await http.post("SubmitJob", REQUEST | {"jobQueue": "nowhere"})

    request_id = headers["x-amzn-RequestId"]
    text = f"Error executing request, Exception : JobQueue nowhere not found., RequestId: {request_id}"
    assert answer == {"message": text}


@pytest.mark.fault("IN13")
async def test_a_disabled_queue_refuses_jobs(sleeper, boto):
    await boto.update_job_queue(jobQueue="default", state="DISABLED")

    with pytest.raises(boto.exceptions.ClientException, match="default"):
        await boto.submit_job(**REQUEST)


@pytest.mark.fault("IN13")
async def test_a_deregistered_definition_is_refused(sleeper, boto):
    await boto.deregister_job_definition(jobDefinition="sleeper:1")

    with pytest.raises(boto.exceptions.ClientException, match="does not exist or is not in ACTIVE status"):
        await boto.submit_job(**REQUEST)


ACCEPTED = [
    *({"jobName": text} for text in ("a", "0", "a" * 128, "A-b_9")),
    {"retryStrategy": {"attempts": 1}},
    {"retryStrategy": {"attempts": 10, "evaluateOnExit": [{"action": "retry", "onReason": "x" * 511 + "*"}] * 5}},
    {"timeout": {"attemptDurationSeconds": 60}},
    {"tags": {f"key-{n}": "" for n in range(50)}},
    {"schedulingPriorityOverride": 9999},
    {"containerOverrides": {"resourceRequirements": requirements(MEMORY="4")}},
    {"containerOverrides": {"environment": [{"name": "AWS_BATCH_JOB_ID", "value": "mine"}]}},
    {"containerOverrides": {"environment": [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]}},
    {"containerOverrides": {"command": ["echo", "Ref::missing"]}},
    {"containerOverrides": {"resourceRequirements": requirements(VCPU="1000000")}},
    {"containerOverrides": {"resourceRequirements": requirements(GPU=2, VCPU=1.5)}},
    {"containerOverrides": {"resourceRequirements": requirements(VCPU="0.25")}},
    {"containerOverrides": {"instanceType": "c5.large"}},
]


@pytest.mark.fault("IN13", "IN14", "IN16", "IN17")
async def test_requests_that_aws_accepts_are_accepted(sleeper, accepts):
    await accepts("SubmitJob", ACCEPTED, **REQUEST)


EMPTY = [
    {"arrayProperties": {}, "dependsOn": [], "tags": {}, "parameters": {}, "shareIdentifier": ""},
    {"arrayProperties": None, "dependsOn": None, "tags": None, "retryStrategy": None},
    {"containerOverrides": {}, "timeout": {}, "consumableResourcePropertiesOverride": {}},
    {"containerOverrides": {"command": [], "environment": [], "resourceRequirements": []}},
    {"timeout": None, "containerOverrides": None},
    {"nodeOverrides": {}, "eksPropertiesOverride": {}, "ecsPropertiesOverride": {}},
    {"nodeOverrides": {"nodePropertyOverrides": []}, "ecsPropertiesOverride": {"taskProperties": []}},
    {"consumableResourcePropertiesOverride": {"consumableResourceList": []}},
]


@pytest.mark.parametrize("content", EMPTY, ids=str)
async def test_an_empty_member_counts_as_omitted(sleeper, accepted, described, content):
    made = await accepted("SubmitJob", REQUEST | content)

    assert (await described(made["jobId"]))["container"]["command"] == ["sleep", "1"]


async def test_twenty_dependencies_are_stored_in_order(submit, described):
    before = [await submit() for _ in range(20)]

    job = await described(await submit(dependsOn=[{"jobId": job_id} for job_id in before]))

    assert job["dependsOn"] == [{"jobId": job_id} for job_id in before]


async def test_a_sequential_dependency_can_be_given_by_arn(submit, described):
    first = await submit()

    job = await described(await submit(dependsOn=[{"jobId": f"{ARN}job/{first}", "type": "SEQUENTIAL"}]))

    assert job["dependsOn"] == [{"jobId": first, "type": "SEQUENTIAL"}]


async def test_the_timeout_and_the_retries_of_a_submission_replace_those_of_the_definition(boto, submit, described):
    defined = {"timeout": {"attemptDurationSeconds": 600}, "retryStrategy": {"attempts": 5}}
    await boto.register_job_definition(
        jobDefinitionName="sleeper", type="container", containerProperties=CONTAINER, **defined
    )

    job = await described(await submit(timeout={"attemptDurationSeconds": 90}, retryStrategy={"attempts": 2}))

    assert job["timeout"] == {"attemptDurationSeconds": 90}
    assert job["retryStrategy"] == {"attempts": 2, "evaluateOnExit": []}


@pytest.fixture
def overridden(sleeper, accepted, described):
    """Submit a job of a definition with this container, with overrides; returns the job's container."""

    async def overridden(container, overrides, **members):
        register = {"jobDefinitionName": "sleeper", "type": "container", "containerProperties": container}
        await accepted("RegisterJobDefinition", register)
        made = await accepted("SubmitJob", REQUEST | {"containerOverrides": overrides} | members)
        return (await described(made["jobId"]))["container"]

    return overridden


async def test_overrides_are_applied_to_the_definition(overridden):
    container = CONTAINER | {"environment": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    overrides = {
        "command": ["echo", "Ref::what"],
        "environment": [{"name": "B", "value": "3"}, {"name": "C"}],
        "resourceRequirements": requirements(MEMORY="128", GPU="1"),
    }

    effective = await overridden(container, overrides, parameters={"what": "hello"})

    assert effective["command"] == ["echo", "hello"]
    assert effective["environment"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "3"},
        {"name": "C", "value": ""},
    ]
    assert effective["resourceRequirements"] == requirements(VCPU="1", MEMORY="128", GPU="1")


OLDER = {"image": "busybox", "vcpus": 1, "memory": 64}
MIXED = {"image": "busybox", "resourceRequirements": requirements(VCPU="1"), "memory": 64}


@pytest.mark.parametrize(
    ("container", "overrides", "shown"),
    [
        (OLDER, {"vcpus": 2, "memory": 128}, (2, 128, [])),
        (OLDER, {"vcpus": 2, "resourceRequirements": requirements(VCPU="3")}, (3, 64, [])),
        (OLDER, {"resourceRequirements": requirements(VCPU="0.125")}, (None, 64, requirements(VCPU="0.125"))),
        (MIXED, {"vcpus": 2, "memory": 128}, (None, 128, requirements(VCPU="1"))),
    ],
    ids=[
        "older members",
        "an entry and an older member",
        "a fraction of a vCPU",
        "an older member of a registered entry",
    ],
)
async def test_older_members_override_only_older_members(overridden, container, overrides, shown):
    effective = await overridden(container, overrides)

    assert (effective.get("vcpus"), effective["memory"], effective["resourceRequirements"]) == shown


BAD_OVERRIDES = [
    {"command": [""]},
    {"command": ["a\0b"]},
    {"environment": [{"name": "", "value": "x"}]},
    {"environment": [{"value": "x"}]},
    {"environment": [{"name": "A=B", "value": "x"}]},
    {"environment": [{"name": "A\0", "value": "x"}]},
    {"environment": [{"name": "A", "value": "x\0"}]},
    {"environment": [{"name": "io.batchq.instance", "value": "x"}]},
    *(
        {"resourceRequirements": requirements(VCPU=text)}
        for text in ("0", "1e9", "NaN", "-1", "1.0005", "٣", "", "1\n")
    ),
    *(
        {"resourceRequirements": requirements(MEMORY=text)}
        for text in ("0", "3", "-1", "08", "8g", "64.0", str(2**63), 2**63)
    ),
    *({"resourceRequirements": requirements(GPU=count)} for count in ("0.5", True)),
    *({"resourceRequirements": requirements(DISK=text)} for text in ("1",)),
    {"resourceRequirements": requirements(VCPU="1") * 2},
    {"vcpus": "1"},
    {"vcpus": 2**31},
    {"memory": 64.0},
]


@pytest.mark.fault("IN15", "IN16", "IN17", "SE17")
async def test_invalid_overrides_are_refused(sleeper, refuses):
    table = [({"containerOverrides": overrides}, "") for overrides in BAD_OVERRIDES]
    await refuses("SubmitJob", table, **REQUEST)


@pytest.mark.fault("SE09")
async def test_overrides_of_privileges_and_volumes_are_ignored(server, submit, sleeper, http):
    """AWS: containerOverrides has no such members, and ignores unknown ones."""
    more = {
        "privileged": True,
        "volumes": [{"name": "v", "host": {"sourcePath": "/"}}],
        "mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}],
        "linuxParameters": {"devices": [{"hostPath": "/dev/sda"}]},
        "user": "root",
    }

    _, _, made = await http.post("SubmitJob", REQUEST | {"containerOverrides": more | {"command": ["id"]}})

    plain_id = await submit()
    jobs = server.store.all_jobs()
    content, plain = jobs[made["jobId"]], jobs[plain_id]
    assert content.spec.container == replace(plain.spec.container, command=("id",))


LARGE = {"containerOverrides": {"resourceRequirements": requirements(MEMORY="102400")}}
TOO_LARGE = "Cannot start: requires 100 GiB of memory, jobs may use 16 GiB of this host."


@pytest.fixture
def capacity(server):
    """An environment with 4 vCPUs on a host with 16 GiB."""
    environments = {"local": builders.environment()}
    host = Resources(millicpus=8000, memory_mib=16_384)
    machines = MachineSet(one_machine(host), environments.values())
    server.engine.capacity = Cluster(environments=environments, machines=machines, stocks={})


async def test_a_job_that_no_environment_can_hold_is_accepted_with_a_warning(server, boto, accepted, sleeper, capacity):
    answer = await accepted("SubmitJob", REQUEST | LARGE)

    assert answer["batchq"] == {"warning": TOO_LARGE}
    assert set(await boto.submit_job(**REQUEST, **LARGE)) - {"ResponseMetadata"} == {"jobArn", "jobName", "jobId"}
    assert len(server.store.all_jobs()) == 2


@pytest.mark.parametrize(
    ("tag", "warning"),
    [
        ("batchq:checkpoint", "The tag batchq:checkpoint has no effect: did you mean batchq:checkpoints?"),
        ("batchq:retries", "The tag batchq:retries has no effect: names with this prefix are reserved."),
        ("batchq:network", "The tag batchq:network has no effect on a job: set it on a compute environment."),
    ],
)
async def test_a_tag_of_batchq_without_a_meaning_is_a_warning(accepted, sleeper, tag, warning):
    answer = await accepted("SubmitJob", REQUEST | {"tags": {"project": "x", tag: "1"}})

    assert answer["batchq"] == {"warning": warning}


async def test_a_job_that_fits_an_idle_environment_has_the_answer_of_aws(accepted, sleeper, capacity):
    assert set(await accepted("SubmitJob", REQUEST)) == {"jobArn", "jobName", "jobId"}


async def test_a_job_is_accepted_without_a_warning_while_the_capacity_is_not_known(accepted, sleeper):
    assert "batchq" not in await accepted("SubmitJob", REQUEST | LARGE)


async def test_a_strict_request_that_no_environment_can_hold_is_refused_and_stores_nothing(
    server, http, sleeper, capacity
):
    status, _, answer = await http.post("SubmitJob", REQUEST | LARGE, x_batchq_strict="true")

    assert (status, server.store.all_jobs()) == (400, {})
    assert TOO_LARGE in answer["message"]
    assert (await http.post("SubmitJob", REQUEST, x_batchq_strict="true"))[0] == 200


MOUNTING = {
    "image": "busybox",
    "resourceRequirements": requirements(VCPU="1", MEMORY="64"),
    "mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}, {"sourceVolume": "s", "containerPath": "/s"}],
}
VOLUMES = [{"name": "v", "host": {"sourcePath": "/data"}}, {"name": "s"}]
TASK = {"taskProperties": [{"containers": [MOUNTING | {"name": "main"}], "volumes": VOLUMES}]}
NODES = {
    "numNodes": 2,
    "mainNode": 0,
    "nodeRangeProperties": [{"targetNodes": "0:", "container": MOUNTING | {"volumes": VOLUMES}}],
}
KINDS = [
    {"type": "container", "containerProperties": MOUNTING | {"volumes": VOLUMES}},
    {"type": "container", "ecsProperties": TASK},
    {"type": "multinode", "nodeProperties": NODES},
]


@pytest.mark.parametrize("kind", KINDS, ids=["container", "task", "nodes"])
@pytest.mark.parametrize("creates", [True, False])
async def test_missing_host_paths_are_created_for_a_job_with_the_tag(server, boto, submit, kind, creates):
    await boto.register_job_definition(jobDefinitionName="mounting", **kind)

    job_id = await submit(jobDefinition="mounting", tags={"batchq:create-host-paths": "true"} if creates else {})

    spec = server.store.all_jobs()[job_id].spec
    containers = [container.spec for container in spec.nodes.task(spec.nodes.count - 1).containers]
    assert [(mount.host_path, mount.create) for one in (spec.container, *containers) for mount in one.mounts] == [
        ("/data", creates),
        (None, False),
    ] * (1 + len(containers))


async def test_a_fargate_job_stays_within_fargates_sizes(boto, submit):
    container = {
        "image": "busybox",
        "executionRoleArn": "arn:aws:iam::123456789012:role/runs",
        "resourceRequirements": requirements(VCPU="0.25", MEMORY="512"),
    }
    await boto.register_job_definition(
        jobDefinitionName="small", type="container", platformCapabilities=["FARGATE"], containerProperties=container
    )

    await submit(jobDefinition="small", containerOverrides={"resourceRequirements": requirements(MEMORY="1024")})

    with pytest.raises(boto.exceptions.ClientException, match="no such combination"):
        await submit(jobDefinition="small", containerOverrides={"resourceRequirements": requirements(MEMORY="4096")})


@pytest.mark.fault("IN17")
async def test_a_request_below_30_kib_is_accepted_and_a_larger_one_refused_with_its_size(sleeper, accepted, refused):
    await accepted("SubmitJob", body=padded(REQUEST, 30 * 1024 - 1))

    for size in (30, 47):
        message = await refused("SubmitJob", body=padded(REQUEST, size * 1024))
        assert f"Job size must be less than 30 KiB, got {size} KiB" in message


@pytest.mark.fault("IN16", "IN17")
@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        ({"environment": [{"name": "A", "value": "x" * 3 * 2**20}]}, 413),
        ({"environment": [{"name": f"A{number}", "value": "x" * 100} for number in range(300)]}, 400),
        ({"command": ["echo", "x" * 200_000]}, 400),
    ],
    ids=["3 MB", "30 KB in pieces", "200 KB"],
)
async def test_overrides_too_long_for_any_request_are_refused(sleeper, http, overrides, refused):
    body = BytesIO(json.dumps(REQUEST | {"containerOverrides": overrides}).encode())

    status, headers, _ = await http.post("SubmitJob", body=body)

    assert (status, headers["x-amzn-ErrorType"][-9:]) == (refused, "Exception")


SCOPE = "AWS4-HMAC-SHA256 Credential={key}/20261121/eu-central-1/batch/aws4_request, SignedHeaders=host, Signature=0"


async def submitted(http, *, invocation, key="AKIDEXAMPLE", **content):
    headers = {"amz_sdk_invocation_id": invocation, "Authorization": SCOPE.format(key=key)}
    _, _, answer = await http.post("SubmitJob", REQUEST | content, **headers)
    return answer["jobId"]


@pytest.mark.fault("IN23")
@pytest.mark.parametrize(
    ("first", "other", "jobs"),
    [
        ({}, {}, 1),
        ({}, {"jobName": "another"}, 2),
        ({}, {"key": "AKIDOTHER"}, 2),
        ({}, {"invocation": "two"}, 2),
        ({"invocation": None}, {"invocation": None}, 2),
    ],
    ids=str,
)
async def test_only_a_repeated_call_creates_no_other_job(sleeper, http, first, other, jobs):
    ids = {await submitted(http, **{"invocation": "one"} | members) for members in (first, other)}

    assert len(ids) == jobs


async def test_submit_job_above_the_rate_limit_gets_the_error_of_aws(server, sleeper, http):
    slow = Directory(accounts={ROOT: Account(name=ROOT, parent=None, limits=AccountLimits(submits=0.01))})
    server.engine.submit_rate = SubmitRateLimiter(AccountPolicies(directory=lambda: slow, enforced=False), server.clock)
    content = {"jobName": "a", "jobQueue": "default", "jobDefinition": sleeper}

    answers = [await http.post("SubmitJob", content) for _ in range(2)]
    described = await http.post("DescribeJobs", {"jobs": [answers[0][2]["jobId"]]})

    assert [status for status, *_ in (*answers, described)] == [200, 429, 200]
    _, headers, body = answers[1]
    assert headers["x-amzn-ErrorType"] == "TooManyRequestsException"
    assert "Account root may submit 0.01 jobs per second" in body["message"]
