"""`batchq ccancel`, and what a step means in it and in `cancel` and `terminate`, against a real server."""

import json
from getpass import getuser

import pytest

from tests.service.waiting import container, reaches

LASTING = 'BATCHQ_SIMULATED={"seconds": null}'
NOWHERE = "http://127.0.0.1:1"
UNKNOWN = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"


@pytest.fixture(autouse=True)
def connected(simulated, connect):
    connect(simulated)


@pytest.fixture
def submit(batchq_lines, simulated):
    def submit(*words):
        (job_id,), _ = batchq_lines("submit", "busybox", "--vcpus", "0.1", "--memory", "8m", "-e", LASTING, *words)
        reaches(simulated.client(), job_id, "RUNNING", "PENDING")
        return job_id

    return submit


def test_running_jobs_are_killed_without_a_grace_period(simulated, batchq_lines, submit):
    job = submit()

    assert batchq_lines("ccancel", job) == ([f"Job {job} cancelled successfully."], [])

    ended = reaches(simulated.client(), job, "FAILED")
    assert ended["attempts"][0]["container"]["exitCode"] == 137
    assert ended["stoppedAt"] - ended["startedAt"] < 20_000


def test_names_are_exact(simulated, batchq_lines, submit):
    names = ["train", "Train", "train2"]
    jobs = {name: submit("--name", name) for name in names}

    out, _ = batchq_lines("ccancel", "-n", "train")

    assert out == [f"Job {jobs['train']} cancelled successfully."]
    assert batchq_lines("ccancel", "-n", "trai*") == (["No job matches; 0 jobs are cancelled."], [])
    assert [
        job["status"] for job in simulated.client().describe_jobs(jobs=[jobs["Train"], jobs["train2"]])["jobs"]
    ] == ["RUNNING"] * 2


def test_states_have_the_letters_of_ccancel(simulated, batchq_lines, submit):
    running = submit()
    (waiting,), _ = batchq_lines("submit", "busybox", "--after", running)

    assert batchq_lines("ccancel", "-t", "p") == ([f"Job {waiting} cancelled successfully."], [])
    assert batchq_lines("ccancel", "-t", "R,ALL") == ([f"Job {running} cancelled successfully."], [])


def test_a_job_that_has_ended_is_no_failure(simulated, batchq_lines, submit):
    job, (quick,) = submit(), batchq_lines("submit", "busybox", "--vcpus", "0.1", "--memory", "8m")[0]
    reaches(simulated.client(), quick, "SUCCEEDED")
    batchq_lines("ccancel", job)
    reaches(simulated.client(), job, "FAILED")

    assert batchq_lines("ccancel", job) == ([f"Job {job} is already cancelled. Nothing is changed."], [])
    assert batchq_lines("ccancel", quick) == ([f"Job {quick} is already SUCCEEDED. Nothing is changed."], [])


def test_a_job_that_does_not_match_the_filters_is_no_failure(batchq_lines, submit):
    job = submit("--name", "train")

    (line,), _ = batchq_lines("ccancel", job, "-t", "P")

    assert line == f"Job {job} does not match the other filters: it is RUNNING. Nothing is changed."
    batchq_lines("ccancel", job)


def test_a_user_is_found_in_any_case(batchq_lines, submit):
    job, user = submit(), getuser()

    assert batchq_lines("ccancel", "-u", user.upper()) == ([f"Job {job} cancelled successfully."], [])


def test_the_help_has_the_rules_of_ccancel(batchq_lines):
    out, _ = batchq_lines("ccancel", "--help")

    text = " ".join(" ".join(out).split())
    assert "jobs with exactly this name, in its case" in text
    assert "trailing *" not in text


def test_a_job_that_does_not_exist_has_status_4_and_the_others_are_cancelled(batchq_lines, submit):
    job = submit()

    out, _ = batchq_lines("ccancel", f"{job},{UNKNOWN}", status=4)

    assert sorted(out) == sorted(
        [f"Job {job} cancelled successfully.", f"Failed to cancel job: {UNKNOWN}. Reason: Job {UNKNOWN} not found."]
    )


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        ([], 2, "no jobs are selected"),
        (["-t", "S"], 2, "argument -t/--state: 'S' is not one of PENDING, P, RUNNING, R, ALL"),
        (["100*"], 2, "'100*' is not a job"),
        (["100"], 4, "no job or group has the name '100', or an id that begins so"),
        (["--frob"], 2, "unrecognized arguments: --frob"),
        (["-p", "none"], 4, "JobQueue none not found"),
        (["-w", "none"], 4, "ComputeEnvironment none not found"),
        (["-u", "none"], 4, "User none not found"),
        (["-A", "none"], 4, "Account none not found"),
        (["-t", "ALL", "--url", NOWHERE], 3, "cannot reach a batchq server"),
    ],
)
def test_an_error_is_text_or_json(batchq_lines, words, status, error):
    out, err = batchq_lines("ccancel", *words, status=status)
    assert (out, len(err)) == ([], 1)
    assert err[0].startswith(f"batchq: {error}")

    out, err = batchq_lines("ccancel", *words, "--json", status=status)
    assert err == []
    assert json.loads(out[0])["status"] == status
    assert json.loads(out[0])["error"].startswith(error)


def test_the_result_is_printed_as_json(batchq_lines, submit):
    job = submit()

    out, _ = batchq_lines("ccancel", job, "--json")

    result = json.loads("".join(out))
    assert (result["status"], [job["jobId"] for job in result["jobs"]]) == (0, [job])


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version_is_printed(batchq_lines, flag):
    (line,), _ = batchq_lines("ccancel", flag)

    assert line.partition(" ")[0] == "batchq"


@pytest.fixture
def gang(simulated):
    batch = simulated.client()
    name, _, value = LASTING.partition("=")
    part = container(vcpus=0.1, environment=[{"name": name, "value": value}])
    nodes = {"numNodes": 2, "mainNode": 1, "nodeRangeProperties": [{"targetNodes": "0:", "container": part}]}
    batch.register_job_definition(jobDefinitionName="gang", type="multinode", nodeProperties=nodes)
    job = batch.submit_job(jobName="gang", jobQueue="default", jobDefinition="gang")["jobId"]
    reaches(batch, job, "RUNNING")
    return job


def test_a_step_that_means_the_whole_job_says_so(batchq_lines, gang):
    (cancelled, _), _ = batchq_lines("cancel", f"{gang}.0")
    assert cancelled.endswith("a node cannot be cancelled alone, so this is the whole job")

    (alone, _), _ = batchq_lines("terminate", f"{gang}.0", "--dry-run")
    assert alone == f"{gang}#0  would be stopped  gang (RUNNING)"

    (main_node, _), _ = batchq_lines("terminate", f"{gang}#1", "--dry-run")
    assert main_node.endswith("it is the main node, so the whole job ends")

    (same,), _ = batchq_lines("ccancel", f"{gang}.1")
    assert same == f"Job {gang}#1 cancelled successfully: it is the main node, so the whole job ends."


def test_a_container_of_a_task_is_stopped_by_its_name_or_index(simulated, batchq_lines):
    batch = simulated.client()
    part = container(vcpus=0.25, environment=[{"name": "BATCHQ_SIMULATED", "value": '{"seconds": null}'}])
    helpers = [part | {"name": name, "essential": False} for name in ("helper", "other")]
    task = {"taskProperties": [{"containers": [part | {"name": "app"}, *helpers]}]}
    batch.register_job_definition(jobDefinitionName="task", type="container", ecsProperties=task)
    job = batch.submit_job(jobName="task", jobQueue="default", jobDefinition="task")["jobId"]
    reaches(batch, job, "RUNNING")

    (unknown, _), _ = batchq_lines("terminate", f"{job}.sidecar", status=1)
    (named, total), _ = batchq_lines("terminate", f"{job}.helper")
    (numbered,), _ = batchq_lines("ccancel", f"{job}.2")
    (cancelled, _), _ = batchq_lines("cancel", f"{job}.2", status=1)
    (would_be, _), _ = batchq_lines("terminate", f"{job}.app", "--dry-run")
    (whole,), _ = batchq_lines("ccancel", f"{job}.app")

    assert unknown == f"{job}.sidecar  not found: the containers of the job are app, helper, other"
    assert named == f"{job}.helper  stopping this container  task (RUNNING)"
    assert total == (
        "1 stopping this container (SIGTERM, SIGKILL after the grace period; the job and its other containers continue)"
    )
    assert numbered == f"Job {job}.other cancelled successfully."
    assert cancelled == f"{job}.other  cannot be cancelled alone: it is a container of a task"
    assert would_be == f"{job}.app  would be stopped  task (RUNNING): it is essential, so the whole job ends"
    assert whole == f"Job {job}.app cancelled successfully: it is essential, so the whole job ends."
