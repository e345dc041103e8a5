"""`batchq submit --each` and `batchq rerun` against a real server: many jobs with one command."""

import io
import json
import re
import signal
import subprocess
import sys

import pytest

from batchq.services.client_requests import ARRAY_INDEX, RERUN_OF
from tests.service.waiting import container, reaches

FAILS = 'BATCHQ_SIMULATED={"seconds": 0.01, "exit_code": 3}'
QUICK = 'BATCHQ_SIMULATED={"seconds": 0.01}'


@pytest.fixture(autouse=True)
def connected(shared, connect, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    connect(shared)
    return tmp_path


@pytest.fixture
def described(shared):
    def describe(*ids):
        found = {job["jobId"]: job for job in shared.client().describe_jobs(jobs=list(ids))["jobs"]}
        return [found[identifier] for identifier in ids]

    return describe


@pytest.fixture
def listed(shared):
    def rows(**filters):
        status, answer = shared.native("listjobs", filters)
        assert status == 200
        return answer["jobs"]

    return rows


def fail(shared, batchq_lines, *words):
    """A job that has FAILED."""
    ((job_id,), _) = batchq_lines("submit", "-e", FAILS, *words)
    return reaches(shared.client(), job_id, "FAILED")


def environment(job):
    return {item["name"]: item["value"] for item in job["container"]["environment"]}


def test_each_line_is_a_job(connected, batchq_lines, described, own_name):
    (connected / "lines").write_text("a b\n\n$(c)\n{}\n")

    ids, printed = batchq_lines(
        "submit", "busybox", "--name", own_name, "--each", "lines", "-e", QUICK, "--", "run", "--in={}", "{}.out"
    )

    jobs = described(*ids)
    assert [job["jobName"] for job in jobs] == [f"{own_name}-{number}" for number in (1, 2, 3)]
    assert [job["container"]["command"] for job in jobs] == [
        ["run", "--in=a b", "a b.out"],
        ["run", "--in=$(c)", "$(c).out"],
        ["run", "--in={}", "{}.out"],
    ]
    assert printed[-1] == "batchq: 3 submitted"


def test_the_line_replaces_braces_in_variables(connected, batchq_lines, described, own_name):
    (connected / "lines").write_text("a\nb\n")

    words = ("submit", "busybox", "--name", own_name, "--each", "lines", "-e", QUICK)
    ids, _ = batchq_lines(*words, "-e", "RATE=r{}", "-e", "OTHER=1")

    assert [environment(job)["RATE"] for job in described(*ids)] == ["ra", "rb"]
    assert [job["container"]["command"] for job in described(*ids)] == [[], []]


def test_a_repeated_command_submits_only_what_is_missing(connected, batchq_lines, own_name):
    words = ("submit", "busybox", "--name", own_name, "--each", "lines", "-e", QUICK, "--", "run", "{}")
    (connected / "lines").write_text("a\nb\n")
    first, _ = batchq_lines(*words)
    (connected / "lines").write_text("a\nb\nc\n")

    second, printed = batchq_lines(*words)

    assert second[:2] == first
    assert printed[-1] == "batchq: 1 submitted; 2 were submitted before, by the same command"
    assert batchq_lines(*words)[1][-1].endswith("by the same command; another --name submits them again")


def test_an_interrupted_sweep_is_completed_by_the_same_command(connected, own_name):
    (connected / "lines").write_text("".join(f"{number}\n" for number in range(400)))
    command = [sys.executable, "-m", "batchq", "submit", "busybox", "--name", own_name, "--each", "lines", "-e", QUICK]
    with subprocess.Popen([*command, "--", "{}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as cut:
        first = [cut.stdout.readline().strip() for _ in range(20)]
        cut.send_signal(signal.SIGINT)
        rest, printed = cut.communicate()

    again = subprocess.run([*command, "--", "{}"], capture_output=True, text=True, check=True)

    ids = again.stdout.split()
    assert cut.returncode == 130
    assert re.fullmatch(r"batchq: interrupted: \d+ of 400 submitted; the same command submits the rest .*\n", printed)
    assert ids[: len(first)] == first
    assert ids[: len(first) + len(rest.split())] == [*first, *rest.split()]
    assert len(set(ids)) == 400
    assert re.fullmatch(r"batchq: \d+ submitted; \d+ were submitted before, by the same command\n", again.stderr)


def test_jobs_that_no_environment_can_hold_are_submitted_with_one_warning(connected, batchq_lines, own_name):
    (connected / "lines").write_text("a\nb\n")
    words = ("busybox", "--memory", "9000g", "--each", "lines", "--", "{}")

    ids, printed = batchq_lines("submit", "--name", f"{own_name}-warned", *words)
    _, refused = batchq_lines("submit", "--strict", "--name", f"{own_name}-refused", *words, status=1)

    (warning,) = (line for line in printed if "warning" in line)
    assert warning.startswith("batchq: warning: Cannot start: requires 9,000 GiB of memory, jobs may use ")
    assert len(ids) == 2
    assert "Cannot start: requires 9,000 GiB of memory" in refused[-1]
    assert refused[-1].endswith("0 of 2 submitted; the same command submits the rest within 15 minutes")


def test_lines_come_from_stdin(monkeypatch, batchq_lines, described, own_name):
    monkeypatch.setattr("sys.stdin", io.StringIO("x\ny\n"))

    words = ("submit", "busybox", "--name", own_name, "--each", "-", "--jobs", "1", "-e", QUICK)
    ids, _ = batchq_lines(*words, "--", "run", "{}")

    assert [job["container"]["command"][1] for job in described(*ids)] == ["x", "y"]


def test_a_dry_run_prints_each_request(connected, batchq_lines):
    (connected / "lines").write_text("a\nb\n")

    out, printed = batchq_lines("submit", "-d", "any", "--each", "lines", "--dry-run", "--", "run", "{}")

    assert [json.loads(line)["submitJob"]["jobName"] for line in out] == ["any-1", "any-2"]
    assert printed == ["batchq: dry run: nothing is submitted"]


def test_a_refused_job_ends_the_sweep(connected, batchq_lines):
    (connected / "lines").write_text("a\nb\n")

    _, printed = batchq_lines("submit", "-d", "none", "--each", "lines", "--", "run", "{}", status=1)

    assert printed[-1].startswith("batchq: JobDefinition name none does not exist or is not in ACTIVE status; 0 of 2 ")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--each", "none"], "there is no file none; values are given as none=0.1,0.01 or none=1..5"),
        (["--each", "empty"], "empty has no lines"),
        (["--jobs", "3"], "--jobs belongs to --each"),
        (["--each", "lines"], "--each needs {}, which stands for the line"),
        (["--each", "long"], "the command and the environment have 9"),
    ],
)
def test_an_invalid_sweep_submits_nothing(connected, batchq_lines, words, error):
    (connected / "lines").write_text("a\n")
    (connected / "empty").write_text("\n \n")
    (connected / "long").write_text("a\n" + "x" * 9000)
    command = [] if words == ["--each", "lines"] else ["--", "{}"]

    out, printed = batchq_lines("submit", "busybox", *words, *command, status=2)

    assert out == []
    assert error in printed[-1]


def test_a_rerun_has_the_overrides_of_the_job_and_its_id_as_a_tag(shared, batchq_lines, described, own_name):
    words = ("busybox", "--name", own_name, "--vcpus", "0.5", "--retry", "2", "--time", "2m", "-e", "A=1")
    old = fail(shared, batchq_lines, *words, "--tag", "k=v", "--", "run", "it")

    ((new_id,), printed) = batchq_lines("rerun", old["jobId"])

    (new,) = described(new_id)
    same = ("jobName", "jobQueue", "jobDefinition", "retryStrategy", "timeout")
    assert {member: new[member] for member in same} == {member: old[member] for member in same}
    for member in ("command", "environment", "resourceRequirements"):
        assert new["container"][member] == old["container"][member]
    assert new["tags"] == {"k": "v", RERUN_OF: old["jobId"]}
    assert printed == ["batchq: 1 submitted"]


def test_changes_replace_those_of_the_job(shared, batchq_lines, described, own_name):
    words = ("busybox", "--name", own_name, "--memory", "64m", "-e", "A=1", "-e", "B=2", "--retry", "2")
    old = fail(shared, batchq_lines, *words, "--", "one")

    changes = ("--memory", "4g", "-e", "B=3", "--retry", "5", "--time", "1h", "--tag", "x=y")
    ((new_id,), _) = batchq_lines("rerun", old["jobId"], *changes, "--", "two")

    (new,) = described(new_id)
    assert new["container"]["command"] == ["two"]
    assert environment(new) == environment(old) | {"B": "3"}
    assert {"type": "MEMORY", "value": "4096"} in new["container"]["resourceRequirements"]
    assert new["retryStrategy"]["attempts"] == 5
    assert new["timeout"] == {"attemptDurationSeconds": 3600}
    assert new["tags"] == {"x": "y", RERUN_OF: old["jobId"]}


def test_the_failed_children_of_an_array_are_rerun_under_their_indices(shared, batchq_lines, described, own_name):
    ((array,), _) = batchq_lines(
        "submit",
        "busybox",
        "--name",
        own_name,
        "--array",
        "4",
        "-e",
        QUICK,
        "-e",
        FAILS.replace("=", "_1=", 1),
        "-e",
        FAILS.replace("=", "_3=", 1),
        "--",
        "run",
    )
    reaches(shared.client(), array, "FAILED")

    ids, _ = batchq_lines("rerun", array, "--failed", "-e", "MORE=1")

    jobs = described(*ids)
    assert [environment(job)[ARRAY_INDEX] for job in jobs] == ["1", "3"]
    assert [job["tags"][RERUN_OF] for job in jobs] == [f"{array}:1", f"{array}:3"]
    assert ["arrayProperties" in job for job in jobs] == [False, False]
    assert all(environment(job)["MORE"] == "1" for job in jobs)
    ((whole,), _) = batchq_lines("rerun", array)
    assert described(whole)[0]["arrayProperties"]["size"] == 4


def test_only_finished_jobs_are_rerun(batchq_lines, own_name):
    endless = 'BATCHQ_SIMULATED={"seconds": null, "on_term": 0}'
    ((job_id,), _) = batchq_lines("submit", "busybox", "--name", own_name, "-e", endless)

    out, printed = batchq_lines("rerun", job_id, status=2)

    assert (out, printed[0].rpartition(" is ")[0]) == ([], f"batchq: {own_name} {job_id}")
    assert batchq_lines("rerun", job_id, "--failed") == ([], ["batchq: no job matches"])
    batchq_lines("terminate", job_id)


def test_filters_select_finished_jobs(shared, batchq_lines, described, own_name):
    old = [fail(shared, batchq_lines, "busybox", "--name", f"{own_name}-{letter}")["jobId"] for letter in "ab"]
    ((kept,), _) = batchq_lines("submit", "busybox", "--name", f"{own_name}-c", "-e", QUICK)
    reaches(shared.client(), kept, "SUCCEEDED")

    ids, printed = batchq_lines("rerun", "--failed", "-n", f"{own_name}-*", "-e", QUICK)

    assert {job["tags"][RERUN_OF] for job in described(*ids)} == set(old)
    assert printed == ["batchq: 2 submitted"]
    assert len(batchq_lines("rerun", "-n", f"{own_name}-c", "--dry-run")[0]) == 1


def test_a_second_rerun_of_failed_jobs_submits_none_of_them_again(shared, batchq_lines, listed, own_name):
    old = fail(shared, batchq_lines, "busybox", "--name", own_name)["jobId"]
    ((new,), _) = batchq_lines("rerun", "--failed", "-n", own_name)
    reaches(shared.client(), new, "FAILED")

    ((newest,), printed) = batchq_lines("rerun", "--failed", "-n", own_name, "-e", QUICK)
    reaches(shared.client(), newest, "SUCCEEDED")

    assert printed[0] == "batchq: 1 left out: 1 submitted again already"
    rows = {job["jobId"]: job.get("resubmittedAs") for job in listed(jobNames=[own_name])}
    assert rows == {old: new, new: newest, newest: None}
    shown, _ = batchq_lines("show", old)
    assert [text.split() for text in shown if text.startswith("submitted again as")] == [
        ["submitted", "again", "as", new]
    ]
    (line,) = (line for line in batchq_lines("list", old)[0] if line)
    assert line.endswith(f"\tEnded with exit code 3; submitted again as {new}")
    out, printed = batchq_lines("rerun", "--failed", "-n", own_name)
    assert (out, printed[-1]) == ([], "batchq: nothing is submitted")
    assert len(batchq_lines("rerun", old, "-e", QUICK)[0]) == 1


def test_a_rerun_of_failed_jobs_leaves_out_jobs_that_a_user_stopped(shared, batchq_lines, described, own_name):
    failed = fail(shared, batchq_lines, "busybox", "--name", f"{own_name}-1")["jobId"]
    endless = 'BATCHQ_SIMULATED={"seconds": null, "on_term": 0}'
    ((stopped,), _) = batchq_lines("submit", "busybox", "--name", f"{own_name}-2", "-e", endless)
    batchq_lines("terminate", stopped)
    reaches(shared.client(), stopped, "FAILED")

    out, printed = batchq_lines("rerun", "--failed", "-n", f"{own_name}-*", "-e", QUICK)

    assert [job["tags"][RERUN_OF] for job in described(*out)] == [failed]
    assert printed == [
        "batchq: 1 left out: 1 cancelled or terminated by a user; --also-stopped includes stopped jobs",
        "batchq: 1 submitted",
    ]
    out, printed = batchq_lines("rerun", "--failed", "-n", f"{own_name}-*", "--also-stopped", "-e", QUICK)
    assert [job["tags"][RERUN_OF] for job in described(*out)] == [stopped]
    assert printed[0] == "batchq: 1 left out: 1 submitted again already"


def test_failed_children_are_submitted_again_once_also_by_a_rerun_of_their_array(
    shared, batchq_lines, listed, own_name
):
    words = ("busybox", "--name", own_name, "--array", "2", "-e", FAILS)
    arrays = [fail(shared, batchq_lines, *words)["jobId"] for _ in range(2)]
    batchq_lines("rerun", "--failed", f"{arrays[0]}:1", "-e", QUICK)
    ((whole,), _) = batchq_lines("rerun", arrays[1], "-e", QUICK)

    out, printed = batchq_lines("rerun", "--failed", *arrays, f"{arrays[0]}:0", "-e", QUICK)

    children = {job["jobId"]: job["resubmittedAs"] for job in listed(parentId=arrays[0])}
    assert out == [children[f"{arrays[0]}:0"]]
    assert printed[0] == "batchq: 3 left out: 3 submitted again already"
    assert {job["resubmittedAs"] for job in listed(parentId=arrays[1])} == {whole}


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["--failed"], 2, "no jobs are selected"),
        (["--also-stopped", "--me"], 2, "--also-stopped needs --failed"),
        (["3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"], 1, "Job 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001 not found."),
        (["no-such-name"], 1, "no job or group has the name 'no-such-name'"),
        (["a b"], 2, "'a b' is not a job"),
    ],
)
def test_an_invalid_selection_submits_nothing(batchq_lines, words, status, error):
    out, printed = batchq_lines("rerun", *words, status=status)

    assert (out, printed[0].startswith(f"batchq: {error}")) == ([], True)


def test_ids_come_from_stdin_and_a_dry_run_submits_nothing(shared, batchq_lines, monkeypatch, own_name):
    old = fail(shared, batchq_lines, "busybox", "--name", own_name)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{old['jobId']}\n"))

    out, printed = batchq_lines("rerun", "-", "--memory", "2g", "--dry-run")

    (request,) = (json.loads(line)["submitJob"] for line in out)
    assert request["containerOverrides"]["resourceRequirements"] == [{"type": "MEMORY", "value": "2048"}]
    assert printed == ["batchq: dry run: 1 would be submitted again; nothing is submitted"]


def test_tasks_and_multi_node_jobs_keep_their_overrides(shared, batchq_lines, described, own_name):
    batch = shared.client()
    part = container(vcpus=0.5)
    task = {"taskProperties": [{"containers": [part | {"name": "a"}, part | {"name": "b", "essential": False}]}]}
    batch.register_job_definition(jobDefinitionName=f"{own_name}-task", type="container", ecsProperties=task)
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": [{"targetNodes": "0:", "container": part}]}
    batch.register_job_definition(jobDefinitionName=f"{own_name}-nodes", type="multinode", nodeProperties=nodes)
    name, _, value = FAILS.partition("=")
    variables = [{"name": name, "value": value}]
    jobs = [
        batch.submit_job(
            jobName=own_name,
            jobQueue="default",
            jobDefinition=f"{own_name}-task",
            ecsPropertiesOverride={
                "taskProperties": [{"containers": [{"name": "a", "environment": variables, "command": ["x"]}]}]
            },
        ),
        batch.submit_job(
            jobName=own_name,
            jobQueue="default",
            jobDefinition=f"{own_name}-nodes",
            nodeOverrides={
                "nodePropertyOverrides": [{"targetNodes": "0:", "containerOverrides": {"environment": variables}}]
            },
        ),
    ]
    ids = [job["jobId"] for job in jobs]
    old = [reaches(batch, identifier, "FAILED", "SUCCEEDED") for identifier in ids]

    new = described(*batchq_lines("rerun", *ids)[0])

    assert new[0]["ecsProperties"]["taskProperties"][0]["containers"][0]["command"] == ["x"]
    of_nodes = [job["nodeProperties"]["nodeRangeProperties"][0]["container"]["environment"] for job in (old[1], new[1])]
    assert of_nodes == [variables, variables]
    assert "has several containers" in batchq_lines("rerun", *ids, "--memory", "1g", status=2)[1][0]
