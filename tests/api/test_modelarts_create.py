"""CreateTrainingJob: what a job becomes, and every refused request."""

import json

import pytest

from batchq.api.training.modelarts.context import read_settings
from batchq.api.training.modelarts.flavors import training_flavors
from batchq.domain.container import Resources
from batchq.errors import Invalid, LimitExceeded, StartImpossible
from tests.api.modelarts import JOBS, creation


@pytest.fixture
async def create(default_queue, http):
    """Create a job; returns status and answer."""

    async def create(name="resnet", **members):
        status, _, answer = await http.send("POST", JOBS, data=json.dumps(creation(name, **members)))
        return status, answer

    return create


@pytest.fixture
def container(server, create):
    """Create a job; returns its container."""

    async def container(**members):
        status, answer = await create(**members)
        assert status == 201, answer
        return (await server.engine.job(answer["metadata"]["id"])).spec.container

    return container


async def test_a_created_job_is_described_as_it_was_sent(create):
    algorithm = {
        "parameters": [{"name": "epochs", "value": "9", "constraint": {"type": "Integer", "valid_range": ["1", "99"]}}],
        "environments": {"SEED": "7"},
        "policies": {"auto_search": {"skip_search_params": "a"}},
    }
    spec = {"log_export_path": {"obs_url": "/lab/log/"}, "schedule_policy": {"priority": 2}}
    metadata = {"description": "a try", "workspace_id": "0", "annotations": {"job_template": "Template DL"}}

    status, answer = await create(algorithm=algorithm, spec=spec, metadata=metadata)

    assert status == 201
    assert answer["algorithm"] == creation(algorithm=algorithm)["algorithm"]
    assert {name: answer["metadata"][name] for name in metadata} == metadata
    assert {name: answer["spec"][name] for name in spec} == spec
    assert answer["spec"]["resource"]["flavor_id"] == "batchq.cpu.1u1g"
    assert answer["status"] == {
        "phase": "Creating",
        "secondary_phase": "Creating",
        "duration": 0,
        "start_time": 0,
        "node_count_metrics": None,
        "tasks": ["worker-0"],
        "task_statuses": [],
        "running_records": [],
    }


async def test_the_command_is_the_shells_and_parameters_follow_it(container):
    parameters = [{"name": "epochs", "value": "9"}, {"name": "note", "value": "a b"}]

    made = await container(algorithm={"parameters": parameters})

    assert made.command == ("/bin/sh", "-c", "python train.py --epochs=9 '--note=a b'")
    assert made.image == "lab/torch:2.4"


async def test_a_boot_file_runs_in_its_folder_of_code(container):
    made = await container(
        algorithm={"command": None, "code_dir": "obs://lab/code/", "boot_file": "obs://lab/code/a/train.py"}
    )

    local = "/home/ma-user/modelarts/user-job-dir/code"
    assert made.command[:3] == ("/bin/sh", "-c", f'cd {local} && exec /bin/sh -c "$1"')
    assert made.command[-1] == f"exec python {local}/a/train.py"
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in made.mounts] == [
        ("/srv/obs/lab/code", local, True)
    ]


async def test_inputs_and_outputs_are_mounted_and_passed_to_the_program(container):
    channel = {"name": "data_url", "remote": {"obs": {"obs_url": "obs://lab/in/"}}}
    result = {
        "name": "train_url",
        "local_dir": "/out",
        "access_method": "env",
        "remote": {"obs": {"obs_url": "/lab/out"}},
    }

    made = await container(algorithm={"inputs": [channel], "outputs": [result]})

    inputs = "/home/ma-user/modelarts/inputs/data_url_0"
    assert made.command[-1] == f"python train.py --data_url={inputs}"
    assert dict(made.environment)["train_url"] == "/out"
    assert [(mount.host_path, mount.container_path, mount.read_only, mount.create) for mount in made.mounts] == [
        ("/srv/obs/lab/in", inputs, True, False),
        ("/srv/obs/lab/out", "/out", False, True),
    ]


async def test_the_directories_that_the_server_chose_are_returned(create):
    remote = {"remote": {"obs": {"obs_url": "obs://lab/in/"}}}
    inputs = [{"name": "data_url", **remote}, {"name": "more", "local_dir": "/more", **remote}]
    _, answer = await create(
        algorithm={"inputs": inputs, "outputs": [{"name": "train_url", **remote}], "code_dir": "obs://lab/code/"}
    )

    algorithm, mounts = answer["algorithm"], "/home/ma-user/modelarts"
    assert [other_input["local_dir"] for other_input in algorithm["inputs"]] == [f"{mounts}/inputs/data_url_0", "/more"]
    assert [output["local_dir"] for output in algorithm["outputs"]] == [f"{mounts}/outputs/train_url_0"]
    assert algorithm["local_code_dir"] == f"{mounts}/user-job-dir/code"


async def test_members_with_the_vendors_defaults_are_returned(create):
    _, answer = await create(algorithm={"engine": {"engine_id": "torch-2"}})

    named = {"engine_id": "torch-2", "engine_name": "PyTorch", "engine_version": "2.4"}
    assert answer["algorithm"]["engine"] == named
    assert answer["metadata"]["annotations"] == {"job_template": "Template DL"}
    assert answer["spec"]["is_hosted_log"] is False
    assert answer["spec"]["resource"]["policy"] == "regular"
    assert answer["spec"]["resource"]["flavor_detail"]["flavor_info"]["max_num"] == 1


async def test_an_invalid_name_is_refused_with_the_names_that_are_valid(create):
    refused, nul = [(await create(name))[1]["error_solution"] for name in ("a b", "a\0")]

    assert "'metadata.name' is not valid: String should match pattern" in refused
    assert "[A-Za-z0-9_-]{1,64}" in nul
    _, described = await create(metadata={"description": "a\0"})
    assert described["error_solution"] == "'metadata.description' must not contain a NUL character"


async def test_a_refusal_names_the_obs_path_and_no_path_of_the_server(server, create):
    server.engine.broken = Invalid("Host path '/srv/obs/lab/in' is not allowed to account lab.")
    channel = {"name": "data_url", "remote": {"obs": {"obs_url": "obs://lab/in/"}}}

    status, answer = await create(algorithm={"inputs": [channel]})

    assert (status, answer["error_code"]) == (400, "ModelArts.2788")
    assert "/srv/obs" not in str(answer)
    assert "'obs://lab/in' is not allowed to account lab" in str(answer)
    server.changed_by_errors.clear()  # its definition stays registered for the next job


async def test_variables_of_modelarts_replace_those_of_the_caller(container):
    """The vendor's documents have an array of maps, its SDK sends one map."""
    for environments in ({"SEED": "7", "MA_HOME": "/tmp"}, [{"SEED": "7"}, {"MA_HOME": "/tmp"}]):
        made = await container(name=f"job-{type(environments).__name__}", algorithm={"environments": environments})

        own = {"MA_HOME": "/home/ma-user", "VC_TASK_INDEX": "0", "MA_NUM_HOSTS": "1"}
        assert {"SEED": "7", **own}.items() <= dict(made.environment).items()


async def test_an_engine_of_the_server_is_its_image(container):
    by_id = await container(algorithm={"engine": {"engine_id": "torch-2"}})
    by_name = await container(name="other", algorithm={"engine": {"engine_name": "PyTorch", "engine_version": "2.4"}})

    assert by_id.image == by_name.image == "lab/torch:2.4"


async def test_retries_time_limit_priority_and_queue_are_those_of_the_job(server, create):
    _, answer = await create(
        metadata={"annotations": {"fault-tolerance/job-retry-num": "3"}},
        spec={"auto_stop": {"time_unit": "HOURS", "duration": 2}, "schedule_policy": {"priority": 3}},
        resource={"pool_id": "default"},
    )

    spec = (await server.engine.job(answer["metadata"]["id"])).spec
    assert (spec.retry.attempts, spec.timeout.total_seconds(), spec.scheduling_priority) == (4, 7200, 3)


async def test_several_nodes_are_tasks_of_one_job(server, create):
    _, answer = await create(resource={"node_count": 3})

    spec = (await server.engine.job(answer["metadata"]["id"])).spec
    assert answer["status"]["tasks"] == ["worker-0", "worker-1", "worker-2"]
    assert answer["spec"]["resource"]["node_count"] == spec.nodes.count == 3
    assert answer["spec"]["resource"]["flavor_id"] == "batchq.cpu.1u1g"


async def test_a_customized_flavor_takes_precedence(container):
    made = await container(resource={"main_container_customized_flavor": {"cpu_core_num": 0.5, "mem_size": 0.5}})

    assert (made.resources.millicpus, made.resources.memory_mib) == (500, 512)


async def test_a_job_is_shown_by_aws_batch_with_its_definition(create, boto):
    _, answer = await create(algorithm={"environments": {"SEED": "7"}})

    (job,) = (await boto.describe_jobs(jobs=[answer["metadata"]["id"]]))["jobs"]
    (definition,) = (await boto.describe_job_definitions(jobDefinitions=[job["jobDefinition"]]))["jobDefinitions"]

    assert job["container"]["command"] == ["/bin/sh", "-c", "python train.py"]
    assert {"name": "SEED", "value": "7"} in job["container"]["environment"]
    assert definition["containerProperties"]["image"] == "lab/torch:2.4"


async def test_a_name_is_free_again_once_its_job_has_ended(create, boto):
    (_, first), second = await create("twice"), await create("twice")
    await boto.terminate_job(jobId=first["metadata"]["id"], reason="over")

    assert (second[0], second[1]["error_code"]) == (400, "ModelArts.2751")
    assert (await create("twice"))[0] == 201


async def test_names_are_compared_in_their_case_and_within_a_project(create, http):
    await create("twice")
    elsewhere = await http.send("POST", "/v2/another-project/training-jobs", data=json.dumps(creation("twice")))

    assert (await create("Twice"))[0] == elsewhere[0] == 201


OBS = {"remote": {"obs": {"obs_url": "obs://lab/in"}}}
REFUSED = {
    "a name with a space": ({"name": "a b"}, "2788"),
    "a name of 65 characters": ({"name": "a" * 65}, "2788"),
    "another kind": ({"kind": "hetero_job"}, "2858"),
    "tasks": ({"tasks": [{"role": "learner"}]}, "2858"),
    "volumes": ({"spec": {"volumes": [{"nfs": {"local_path": "/data"}}]}}, "2858"),
    "no command": ({"algorithm": {"command": None}}, "2806"),
    "no image": ({"algorithm": {"engine": None}}, "2806"),
    "an image with a space": ({"algorithm": {"engine": {"image_url": "a b"}}}, "2788"),
    "an unknown engine": ({"algorithm": {"engine": {"engine_id": "torch-9"}}}, "2780"),
    "a stored algorithm": ({"algorithm": {"id": "a"}}, "2755"),
    "a dataset": ({"algorithm": {"inputs": [{"name": "a", "remote": {"dataset": {"id": "1"}}}]}}, "2854"),
    "an input without a remote": ({"algorithm": {"inputs": [{"name": "a"}]}}, "2854"),
    "a path without a bucket": (
        {"algorithm": {"inputs": [{"name": "a", "remote": {"obs": {"obs_url": "obs://"}}}]}},
        "2791",
    ),
    "a path of another service": (
        {"algorithm": {"inputs": [{"name": "a", "remote": {"obs": {"obs_url": "s3://lab"}}}]}},
        "2791",
    ),
    "a relative local_dir": ({"algorithm": {"inputs": [{"name": "a", "local_dir": "in", **OBS}]}}, "2788"),
    "two inputs at one place": (
        {"algorithm": {"inputs": [{"name": name, "local_dir": "/in", **OBS} for name in ("a", "b")]}},
        "2788",
    ),
    "a boot file beside its code": ({"algorithm": {"code_dir": "/lab/code", "boot_file": "/lab/train.py"}}, "2788"),
    "a boot file of another language": ({"algorithm": {"code_dir": "/lab/code", "boot_file": "a.rb"}}, "2788"),
    "no flavor": ({"resource": {"flavor_id": None}}, "2763"),
    "an unknown flavor": ({"resource": {"flavor_id": "modelarts.vm.cpu.2u"}}, "2781"),
    "a flavor larger than the machine": ({"resource": {"flavor_id": "batchq.cpu.9u1g"}}, "2781"),
    "too many nodes": ({"resource": {"node_count": 1001}}, "2793"),
    "no nodes": ({"resource": {"node_count": 0}}, "2788"),
    "an unknown queue": ({"resource": {"pool_id": "no-such-queue"}}, "2788"),
    "101 variables": ({"algorithm": {"environments": {f"V{index}": "" for index in range(101)}}}, "2788"),
    "a variable with a dash": ({"algorithm": {"environments": {"A-B": ""}}}, "2788"),
    "a long variable": ({"algorithm": {"environments": {"A": "x" * 4097}}}, "2788"),
    "minutes": ({"spec": {"auto_stop": {"time_unit": "MINUTES", "duration": 1}}}, "2788"),
    "retries without end": ({"metadata": {"annotations": {"fault-tolerance/job-retry-num": "-1"}}}, "2788"),
    "a description of 257 characters": ({"metadata": {"description": "x" * 257}}, "2788"),
    "more than is stored": ({"algorithm": {"environments": {f"V{index}": "x" * 4096 for index in range(9)}}}, "2788"),
}


async def test_a_refused_request_has_the_vendors_code_and_creates_nothing(default_queue, http):
    for case, (given, code) in REFUSED.items():
        status, _, answer = await http.send("POST", JOBS, data=json.dumps(creation(**given)))

        assert (status, answer["error_code"]) == (400, f"ModelArts.{code}"), case


@pytest.mark.parametrize(
    ("data", "code"), [("{", "2787"), ("[]", "2788"), ("{}", "2788"), ('{"metadata": 1}', "2788"), ("", "2787")]
)
async def test_a_body_of_another_shape_is_refused(default_queue, http, data, code):
    status, _, answer = await http.send("POST", JOBS, data=data)

    assert (status, answer["error_code"]) == (400, f"ModelArts.{code}")


@pytest.mark.parametrize(
    ("kind", "flavors"),
    [
        ("CPU", {"cpu.1u2g": 4, "cpu.1u4g": 4, "cpu.2u4g": 2, "cpu.2u8g": 2, "cpu.4u8g": 1, "cpu.4u16g": 1}),
        ("GPU", {"gpu.1": 1}),
        ("Ascend", {}),
    ],
)
def test_the_listed_flavors_fit_the_machine(kind, flavors):
    machine = Resources(millicpus=4000, memory_mib=16 * 1024, gpus=2)

    answer = training_flavors(kind, machine)

    assert {flavor.flavor_id.removeprefix("batchq."): flavor.max_num for flavor in answer.flavors} == flavors
    assert answer.total_count == len(flavors)


async def test_a_small_machine_has_no_flavors(http):
    _, _, answer = await http.send("GET", JOBS.replace("jobs", "job-flavors") + "?flavor_type=CPU")

    assert answer == {"total_count": 0, "flavors": []}


async def test_engines_are_those_of_the_settings(http):
    _, _, answer = await http.send("GET", JOBS.replace("jobs", "job-engines"))

    assert answer["total"] == 1
    assert answer["items"][0]["engine_id"] == "torch-2"


async def test_a_definition_of_the_same_name_with_other_content_is_not_used(server, create, boto):
    _, first = await create("first")
    name = (await server.engine.job(first["metadata"]["id"])).spec.definition.name
    await boto.register_job_definition(
        jobDefinitionName=name,
        type="container",
        containerProperties={
            "image": "evil:latest",
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "1024"}],
        },
    )

    _, second = await create("second")

    spec = (await server.engine.job(second["metadata"]["id"])).spec
    assert (spec.container.image, spec.definition.revision) == ("lab/torch:2.4", 3)


async def test_an_account_at_its_limit_has_the_vendors_code(server, create):
    server.engine.broken = LimitExceeded("Account lab may have 3 jobs that wait")

    status, answer = await create()

    assert (status, answer["error_code"]) == (400, "ModelArts.2815")
    assert "3 jobs" in answer["error_solution"]
    server.changed_by_errors.clear()  # its definition stays registered for the next job


async def test_a_queue_with_a_policy_gets_the_account_as_share(server, create, boto):
    policy = await boto.create_scheduling_policy(name="fair", fairsharePolicy={})
    await boto.create_job_queue(
        jobQueueName="fair",
        priority=1,
        schedulingPolicyArn=policy["arn"],
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "local"}],
    )

    _, answer = await create(resource={"pool_id": "fair"})

    spec = (await server.engine.job(answer["metadata"]["id"])).spec
    assert (spec.share_identifier, spec.scheduling_priority) == ("root", 1)


SETTINGS = """
obs_root = "{root}"
[[engines]]
id = "a"
name = "A"
version = "1"
image = "lab/a:1"
"""


def test_settings_are_read_from_a_file(tmp_path):
    (tmp_path / "a.toml").write_text(SETTINGS.format(root="/srv/obs"))

    settings = read_settings(tmp_path / "a.toml")

    assert (str(settings.obs_root), settings.engines[0].image) == ("/srv/obs", "lab/a:1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("obs_root =", "is not TOML"),
        ("obs_roots = 1", "obs_roots"),
        (SETTINGS.format(root="obs"), "obs_root must be an absolute path"),
        ('[[engines]]\nid = "a"', "engines.0.name"),
        (None, "cannot read"),
    ],
)
def test_a_server_with_invalid_or_missing_settings_does_not_start(tmp_path, text, why):
    if text is not None:
        (tmp_path / "a.toml").write_text(text)

    with pytest.raises(StartImpossible, match=why):
        read_settings(tmp_path / "a.toml")


@pytest.mark.parametrize(
    "value",
    ["1" * 25, "1" * 5000, "1e999", '"\\ud800"', '"\\u0000"', "[" * 150 + "]" * 150, "-0.0", "1.7976931348623157e308"],
)
async def test_an_odd_value_that_is_only_returned_does_no_harm(default_queue, http, value):
    body = json.dumps(creation(algorithm={"policies": {"a": "VALUE"}})).replace('"VALUE"', value)

    status, _, answer = await http.send("POST", JOBS, data=body)

    assert status in {201, 400}
    if status == 201:
        shown, _, _ = await http.send("GET", f"{JOBS}/{answer['metadata']['id']}")
        assert shown == 200


async def test_every_job_has_a_checkpoint_directory(server, create):
    _, answer = await create()

    assert (await server.engine.job(answer["metadata"]["id"])).spec.checkpoints is not None


async def test_the_nodes_of_a_training_job_can_be_overridden_when_its_definition_is_used_again(server, create, http):
    _, answer = await create(resource={"node_count": 2})
    definition = (await server.engine.job(answer["metadata"]["id"])).spec.definition
    changes = [{"targetNodes": "0:1", "containerOverrides": {"command": ["again"]}}]
    request = {"jobName": "again", "jobQueue": "default", "jobDefinition": str(definition)}

    status, _, again = await http.post("submitjob", request | {"nodeOverrides": {"nodePropertyOverrides": changes}})

    assert status == 200, again
    assert (await server.engine.job(again["jobId"])).spec.nodes.leading.spec.command == ("again",)
