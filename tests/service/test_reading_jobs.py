"""The commands that read, against a real server: what they print, and that `--json` is what /openapi.json describes."""

import pytest

from batchq.compute.simulated.script import Script
from tests.service.job_queue import submit_script
from tests.service.waiting import reaches
from tests.support.described import difference


@pytest.fixture(autouse=True)
def connected(shared, connect):
    connect(shared)


@pytest.fixture(scope="module")
def jobs(shared):
    """Jobs that have ended, and their ids by name."""
    scripts = {"ok": Script(seconds=0, output=("one", "two")), "bad": Script(seconds=0, exit_code=7)}
    found = {name: submit_script(shared, script, f"reading-{name}") for name, script in scripts.items()}
    for it in found.values():
        reaches(shared.client(), it, "SUCCEEDED", "FAILED")
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

    assert difference((*route, ""), 200, "application/json", printed) == ""


def test_a_job_is_found_by_prefix_name_and_at(batchq, jobs):
    ok = jobs["ok"]

    assert batchq("list", ok[:8], "--ids") == batchq("list", "reading-ok", "--ids") == f"{ok}\n"
    assert batchq("list", "@", "--ids").strip() in jobs.values()


def test_wait_ends_with_the_exit_code_of_the_job(batchq, jobs):
    batchq("wait", "reading-ok")
    batchq("wait", "reading-bad", status=7)
    batchq("wait", "reading-ok", "reading-bad", status=1)
