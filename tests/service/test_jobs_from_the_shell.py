"""Jobs from the shell, against a real server: what `batchq submit` registers, reuses and submits, and what is read."""

import pytest

from batchq.cli.main import main
from batchq.compute.simulated.script import Script
from tests.service.job_queue import NUMBERS, submit_script
from tests.service.waiting import reaches
from tests.support.described import difference


@pytest.fixture(autouse=True)
def connected(shared, connect):
    connect(shared)


@pytest.fixture
def submit(shared, batchq):
    """The job that the command has submitted, as DescribeJobs returns it."""

    def run(*words):
        (job,) = shared.client().describe_jobs(jobs=[batchq("submit", *words).strip()])["jobs"]
        return job

    return run


def revisions(shared, name):
    found = shared.client().describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]
    return sorted(definition["revision"] for definition in found)


def name_of(job):
    return job["jobDefinition"].rpartition("/")[2].partition(":")[0]


def test_the_definition_of_an_image_is_registered_once(shared, submit):
    first = submit("lab/once:1", "-v", "/srv/in:/in:ro", "--user", "ada", "--", "one")
    second = submit("lab/once:1", "-v", "/srv/in:/in:ro", "--user", "ada", "--memory", "2g", "-e", "A=1", "--", "two")

    assert first["jobDefinition"] == second["jobDefinition"]
    assert revisions(shared, name_of(first)) == [1]
    assert second["jobName"] == "once"
    assert second["container"]["command"] == ["two"]
    assert second["container"]["environment"] == [{"name": "A", "value": "1"}]
    assert second["container"]["user"] == "ada"
    assert {
        requirement["type"]: requirement["value"] for requirement in second["container"]["resourceRequirements"]
    } == {
        "VCPU": "1",
        "MEMORY": "2048",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"containerProperties": {"image": "evil", "vcpus": 1, "memory": 64}},
        {"timeout": {"attemptDurationSeconds": 60}},
        {"retryStrategy": {"attempts": 9}},
        {"parameters": {"a": "b"}},
        {"schedulingPriority": 3},
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_definition_of_this_name_with_other_content_is_not_used(shared, submit, change):
    image = f"lab/other-{next(iter(change)).lower()}"
    name = name_of(submit(image))
    given = {"containerProperties": {"image": image, "vcpus": 1, "memory": 1024}} | change
    shared.client().register_job_definition(jobDefinitionName=name, type="container", **given)

    assert submit(image)["jobDefinition"].endswith(f"/{name}:1")
    shared.client().deregister_job_definition(jobDefinition=f"{name}:1")
    assert submit(image)["jobDefinition"].endswith(f"/{name}:3")


def test_a_job_of_a_definition_with_dependencies_and_limits(shared, submit):
    shared.client().register_job_definition(
        jobDefinitionName="align",
        type="container",
        containerProperties={"image": "align", "vcpus": 1, "memory": 64, "command": ["align"]},
    )
    first = submit("-d", "align", "--array", "2")["jobId"]

    job = submit(
        "-d", "align:1", "--after", f"{first}:n2n", "--array", "2", "--retry", "2", "--time", "2m", "--tag", "a=b"
    )

    assert job["dependsOn"] == [{"jobId": first, "type": "N_TO_N"}]
    assert job["retryStrategy"]["attempts"] == 2
    assert job["timeout"] == {"attemptDurationSeconds": 120}
    assert job["container"]["command"] == ["align"]
    assert job["tags"] == {"a": "b"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["a", "-q", "none"], "batchq: JobQueue none not found\n"),
        (["-d", "none"], "batchq: JobDefinition name none does not exist or is not in ACTIVE status\n"),
        (["a", "--time", "10s"], "batchq: attemptDurationSeconds must be at least 60\n"),
        (["a b"], "batchq: image must be the name of an image"),
    ],
)
def test_the_refusal_of_the_server_is_printed_in_one_line(capsys, words, error):
    assert main(["submit", *words]) == 1

    printed = capsys.readouterr()
    assert printed.err.startswith(error)
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.fixture(scope="module")
def jobs(shared):
    """Jobs that have ended: their ids by name, first of the job that succeeded, then of the one that failed."""
    number = next(NUMBERS)
    scripts = {"ok": Script(seconds=0, output=("one", "two")), "bad": Script(seconds=0, exit_code=7)}
    names = {f"reading-{number}-{ending}": script for ending, script in scripts.items()}
    found = {name: submit_script(shared, script, name) for name, script in names.items()}
    for job_id in found.values():
        reaches(shared.client(), job_id, "SUCCEEDED", "FAILED")
    return found


@pytest.mark.parametrize(
    ("words", "route"),
    [
        (["list", "-a"], ("POST", "/v1/batchq/listjobs")),
        (["list", "-n", "reading-*"], ("POST", "/v1/batchq/listjobs")),
        (["show", "{bad}"], ("GET", "/v1/batchq/jobs/{job}")),
        (["why", "{ok}"], ("GET", "/v1/batchq/jobs/{job}/why")),
        (["history", "{ok}"], ("GET", "/v1/batchq/jobs/{job}/history")),
        (["queue", "list"], ("POST", "/v1/describejobqueues")),
        (["env", "list"], ("POST", "/v1/describecomputeenvironments")),
        (["def", "list"], ("POST", "/v1/describejobdefinitions")),
        (["resource", "list"], ("POST", "/v1/listconsumableresources")),
    ],
)
def test_json_conforms_to_the_description_of_the_api(batchq, jobs, words, route):
    ok, bad = jobs

    printed = batchq(*(word.format(ok=ok, bad=bad) for word in words), "-o", "json")

    assert difference((*route, ""), 200, "application/json", printed) == ""


def test_a_job_that_no_environment_can_hold_is_submitted_with_the_sentence_of_why(batchq_lines):
    (job_id,), printed = batchq_lines("submit", "busybox", "--name", "huge", "--memory", "9000g")

    assert printed == [f"batchq: warning: {batchq_lines('why', job_id)[0][0]}"]
    assert "Cannot start: requires 9,000 GiB of memory" in printed[0]
