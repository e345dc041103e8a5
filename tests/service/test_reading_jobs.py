"""The commands that read, against a real server: what they print, and that `--json` is what /openapi.json describes."""

import pytest

from batchq.compute.simulated.script import Script, script_variable
from tests.service.waiting import register, until
from tests.support.described import trouble


@pytest.fixture(autouse=True)
def connected(shared, connect):
    connect(shared)


@pytest.fixture(scope="module")
def jobs(shared):
    """Jobs that have ended, and their ids by name."""
    batch = shared.client()
    register(batch, "reading", "true")
    found = {}
    for name, script in (("ok", Script(seconds=0, output=("one", "two"))), ("bad", Script(seconds=0, exit_code=7))):
        variable, value = script_variable(script)
        found[name] = batch.submit_job(
            jobName=f"reading-{name}",
            jobQueue="default",
            jobDefinition="reading",
            containerOverrides={"environment": [{"name": variable, "value": value}]},
        )["jobId"]
    until(lambda: all("stoppedAt" in it for it in batch.describe_jobs(jobs=list(found.values()))["jobs"]))
    return found


@pytest.mark.parametrize(
    ("words", "route"),
    [
        (["list", "-a"], ("POST", "/v1/batchq/listjobs")),
        (["list", "-n", "reading-*"], ("POST", "/v1/batchq/listjobs")),
        (["show", "reading-bad"], ("GET", "/v1/batchq/jobs/{job}")),
        (["why", "reading-ok"], ("GET", "/v1/batchq/jobs/{job}/why")),
        (["history", "reading-ok"], ("GET", "/v1/batchq/jobs/{job}/history")),
        (["queue", "list"], ("POST", "/v1/describejobqueues")),
        (["env", "list"], ("POST", "/v1/describecomputeenvironments")),
        (["def", "list"], ("POST", "/v1/describejobdefinitions")),
        (["resource", "list"], ("POST", "/v1/listconsumableresources")),
    ],
)
def test_json_conforms_to_the_description_of_the_api(batchq, jobs, words, route):
    printed = batchq(*words, "--json")

    assert trouble((*route, ""), 200, "application/json", printed) == ""


def test_a_job_is_found_by_prefix_name_and_at(batchq, jobs):
    ok = jobs["ok"]

    assert batchq("list", ok[:8], "--ids") == batchq("list", "reading-ok", "--ids") == f"{ok}\n"
    assert batchq("list", "@", "--ids").strip() in jobs.values()


def test_the_list_has_the_ended_jobs_with_their_reasons(batchq, jobs):
    lines = [it.split("\t") for it in batchq("list", "-n", "reading-*").splitlines()]

    assert {it[0]: it[2] for it in lines} == {jobs["ok"]: "SUCCEEDED", jobs["bad"]: "FAILED"}
    assert next(it for it in lines if it[0] == jobs["bad"])[6]


def test_show_has_the_end_of_the_job_and_its_attempt(batchq, jobs):
    fields = dict(it.split("\t", 1) for it in batchq("show", "reading-bad").splitlines())

    assert (fields["id"], fields["state"], fields["exit code"]) == (jobs["bad"], "FAILED", "7")
    assert fields["attempt"].split("\t")[:2] == ["1", "7"]


def test_logs_prints_the_output(batchq, jobs):
    assert batchq("logs", "reading-ok") == batchq("logs", "-f", "reading-ok") == "one\ntwo\n"
    assert batchq("logs", "reading-ok", "--tail", "1") == "two\n"


def test_queues_and_environments_are_listed_with_their_use(batchq, jobs):
    queues = {it.split("\t")[0]: it.split("\t") for it in batchq("queue", "list").splitlines()}

    assert queues["default"][1:6] == ["ENABLED", "1", "0", "0", "local"]
    assert [it.split("\t")[:2] for it in batchq("env", "list").splitlines()] == [["local", "ENABLED"]]


def test_wait_ends_with_the_exit_code_of_the_job(batchq, jobs):
    batchq("wait", "reading-ok")
    batchq("wait", "reading-bad", status=7)
    batchq("wait", "reading-ok", "reading-bad", status=1)


def test_the_history_ends_with_the_last_state(batchq, jobs):
    assert [it.split("\t")[1] for it in batchq("history", "reading-ok").splitlines()][-1] == "SUCCEEDED"
