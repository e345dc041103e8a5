"""The children of an array."""

import csv
import io
import re

import pytest

from batchq.api.console import children_page
from batchq.compute.simulated.script import Script, script_variable
from tests.service.job_queue import ENDLESS

FAILS = Script(seconds=0, exit_code=1)


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def failed_array(browser, size):
    return await browser.run("sweep", script=FAILS, arrayProperties={"size": size}, until="FAILED")


def listed(page):
    """The indices of the children that are listed."""
    return [
        int(identifier.rpartition(":")[2])
        for identifier in page.page.ids
        if identifier.startswith("job-") and ":" in identifier
    ]


async def test_the_grid_has_all_children_with_a_table_of_the_same(browser):
    job_id = await failed_array(browser, 12)
    page = await browser.open(f"/ui/jobs/{job_id}/children")
    cells = re.findall(r'href="/ui/jobs/[^"]*:(\d+)" tabindex="-1"><title>([^<]*)</title>', page.body)
    assert cells == [(str(index), f"Child {index}: FAILED, exit code 1, 0 s") for index in range(12)]
    assert "0 to 11 ✕ FAILED 12" in page.text
    assert f"/ui/rerun?job={job_id}&failed=1" in [link.replace("&amp;", "&") for link in page.page.links]


async def test_children_that_the_array_has_not_created_have_the_status_of_the_array(browser):
    job_id = await browser.submit_waiting("sweep", arrayProperties={"size": 3})
    page = await browser.open(f"/ui/jobs/{job_id}/children")
    assert "0 to 2 ◔ PENDING 3" in page.text
    assert "The array has not created a child yet." in page.text


async def test_children_are_listed_by_status_a_page_at_a_time(browser, monkeypatch):
    monkeypatch.setattr(children_page, "PER_PAGE", 10)
    job_id = await failed_array(browser, 20)
    newest = await browser.open(f"/ui/jobs/{job_id}/children?state=FAILED")
    older = await browser.open(f"/ui/jobs/{job_id}/children?state=FAILED&before=10")
    assert listed(newest) == list(range(19, 9, -1))
    assert f"/ui/jobs/{job_id}/children?state=FAILED&before=10" in [
        link.replace("&amp;", "&") for link in newest.page.links
    ]
    assert listed(older) == list(range(9, -1, -1))
    assert "No child is RUNNING." in (await browser.open(f"/ui/jobs/{job_id}/children?state=RUNNING")).text
    assert "There are no further children." in (await browser.open(f"/ui/jobs/{job_id}/children?before=0")).text


async def test_a_number_opens_the_page_of_the_child(browser):
    job_id = await failed_array(browser, 3)
    opened = await browser.open(f"/ui/jobs/{job_id}/children?index=2", status=303)
    assert opened.headers["Location"] == f"/ui/jobs/{job_id}:2"
    beyond = await browser.open(f"/ui/jobs/{job_id}/children?index=3")
    assert "There is no child 3: the last one is 2." in beyond.text


async def test_a_terminated_array_has_no_unfinished_children(browser):
    job_id = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 4})
    await browser.wait_for(f"{job_id}:0", "RUNNING")
    await browser.call("terminatejob", {"jobId": job_id, "reason": "a test"})
    await browser.wait_for(job_id, "FAILED")
    page = await browser.open(f"/ui/jobs/{job_id}/children")
    assert set(re.findall(r'class="shape-(\w+)"', page.body)) == {"FAILED"}


async def test_children_are_listed_failed_first_then_running(browser):
    variables = [script_variable(ENDLESS), *(script_variable(FAILS, child=index) for index in (0, 2))]
    environment = [{"name": name, "value": value} for name, value in variables]
    definition = {
        "jobDefinitionName": "swept",
        "type": "container",
        "containerProperties": {
            "image": "busybox",
            "environment": environment,
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
        },
    }
    await browser.call("registerjobdefinition", definition)
    request = {"jobName": "sweep", "jobQueue": "default", "jobDefinition": "swept", "arrayProperties": {"size": 60}}
    job_id = (await browser.call("submitjob", request))["jobId"]
    for index in (0, 2):
        await browser.wait_for(f"{job_id}:{index}", "FAILED")
    await browser.wait_for(f"{job_id}:3", "RUNNING")

    first = await browser.open(f"/ui/jobs/{job_id}/children")
    array = await browser.open(f"/ui/jobs/{job_id}")
    (following,) = [link.replace("&amp;", "&") for link in first.page.links if "before=" in link]
    rest = await browser.open(following)

    assert listed(first)[:2] == [2, 0]
    assert sorted(listed(first) + listed(rest)) == list(range(60))
    assert listed(array)[:2] == [2, 0]
    assert re.search(r'status-RUNNING">.{0,80}PENDING</span> <span class="chip">\d+ running', array.body, re.DOTALL)
    assert 'class="array-bar"' in (await browser.open("/ui/jobs")).body


async def test_the_page_has_the_failures_the_run_times_and_all_results_as_csv(browser):
    plays = [script_variable(FAILS, child=0), script_variable(Script(seconds=0, memory_mib=30))]
    environment = [{"name": name, "value": text} for name, text in plays]
    overrides = {"environment": environment}
    job_id = await browser.submit("sweep", containerOverrides=overrides, arrayProperties={"size": 4})
    await browser.wait_for(job_id, "FAILED")

    page = await browser.open(f"/ui/jobs/{job_id}/children")
    answer = await browser.open(f"/ui/jobs/{job_id}/children/csv")

    assert "Failures by reason Reason Jobs exit code 1: Essential container in task exited 1" in page.text
    assert 'id="run-times"' in page.body
    assert page.body.count('data-label="CPU time"') == 4
    rows = list(csv.DictReader(io.StringIO(answer.body)))
    assert [(row["job"], row["exit code"]) for row in rows] == [
        (f"{job_id}:{index}", str(int(index == 0))) for index in (3, 2, 1, 0)
    ]


async def test_the_pages_of_an_array_show_the_time_left(browser):
    plays = [script_variable(Script(seconds=0), child=0), script_variable(ENDLESS)]
    overrides = {"environment": [{"name": name, "value": text} for name, text in plays]}
    job_id = await browser.submit("sweep", containerOverrides=overrides, arrayProperties={"size": 2})
    await browser.wait_for(f"{job_id}:0", "SUCCEEDED")
    await browser.wait_for(f"{job_id}:1", "RUNNING")

    for path in (f"/ui/jobs/{job_id}", f"/ui/jobs/{job_id}/children"):
        assert re.search(r"1 succeeded, 1 running; about \d+ s left", (await browser.open(path)).text)
