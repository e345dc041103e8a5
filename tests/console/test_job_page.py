"""The page of one job."""

import re

import pytest

from batchq.compute.simulated.script import Script, script_variable
from tests.console.conftest import console_of
from tests.console.world import HOSTILE
from tests.service.job_queue import ENDLESS
from tests.support import builders


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def test_a_failed_job_shows_why_before_all_else(browser):
    script = Script(seconds=0, exit_code=3, output=("cannot read input.csv",))
    job_id = await browser.run("train-17", script=script, until="FAILED")
    page = await browser.open(f"/ui/jobs/{job_id}")
    why = re.search(r'class="why FAILED"[^>]*>(.*?)</div>', page.body, re.DOTALL)[1]
    assert "exit code 3" in why
    assert "cannot read input.csv" in why
    assert f"/ui/rerun?job={job_id}" in page.page.links
    assert f"/ui/submit?like={job_id}" in (await browser.open(f"/ui/rerun?job={job_id}")).page.links
    assert f"/ui/jobs/{job_id}/stop" not in page.page.links


async def test_the_last_five_lines_of_a_failed_job_are_beside_its_reason(browser):
    output = (*(f"line {index}" for index in range(8)), "")
    job_id = await browser.run(script=Script(seconds=0, exit_code=1, output=output), until="FAILED")

    for headers in ({}, {"X_Fragment": "live"}):
        page = await browser.open(f"/ui/jobs/{job_id}", **headers)
        shown = re.search(r'<pre class="last-lines".*?</pre>', page.body, re.DOTALL)[0]
        assert re.findall(r"line \d", shown) == [f"line {index}" for index in range(3, 8)]


async def test_the_cards_of_a_job_are_in_the_order_in_which_they_are_read(browser):
    first = await browser.run("first")
    job_id = await browser.run("train-17", script=Script(seconds=0, exit_code=1), until="FAILED")
    waiting = await browser.submit("waits", dependsOn=[{"jobId": first}], script=ENDLESS)

    cards = ["why", "output", "attempts", "dependencies", "request", "times", "history"]
    for job, missing in ((job_id, {"dependencies"}), (first, set()), (waiting, {"attempts"})):
        page = await browser.open(f"/ui/jobs/{job}")
        assert [identifier for identifier in page.page.ids if identifier in cards] == [
            card for card in cards if card not in missing
        ]
        assert "danger" not in page.body


async def test_each_attempt_has_its_exit_code_and_a_link_to_its_log(browser):
    job_id = await browser.run(
        "train-17", script=Script(seconds=0, exit_code=7), retryStrategy={"attempts": 2}, until="FAILED"
    )
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert "Attempts: 2 of 2" in page.text
    first = re.search(r'<tr id="attempt-1">(.*?)</tr>', page.body, re.DOTALL)[1]
    assert 'data-label="Exit code" class="number">7<' in first
    assert f"/ui/jobs/{job_id}/log?attempt=1" in page.page.links
    assert "Containers of attempt" not in page.text


async def test_a_running_job_can_be_stopped_and_paused(browser):
    job_id = await browser.run("train-17")
    page = await browser.open(f"/ui/jobs/{job_id}")
    path = f"/ui/jobs/{job_id}"
    assert {f"{path}/stop", f"{path}/pause", f"{path}/log"} <= set(page.page.links)
    assert f"{path}/hold" not in page.page.links
    assert f'<div id="live" data-min-interval="1" data-jobs="{job_id}">' in page.body


async def test_a_cancelled_job_that_runs_shows_who_cancelled_it_and_what_follows(browser):
    job_id = await browser.run("train-17")
    await browser.call("canceljob", {"jobId": job_id, "reason": "too hot"})
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert re.search(r"RUNNING, will not be retried: cancelled( by \w+)? [0-9: -]+ UTC ?, 'too hot'", page.text)
    assert f"/ui/jobs/{job_id}/pause" not in page.page.links


async def test_the_page_of_a_job_says_that_its_queue_was_deleted(own_browser):
    job_id = await own_browser.run("train-17", script=Script(seconds=0), until="SUCCEEDED")
    await own_browser.call("updatejobqueue", {"jobQueue": "default", "state": "DISABLED"})
    await own_browser.call("deletejobqueue", {"jobQueue": "default"})
    page = await own_browser.open(f"/ui/jobs/{job_id}")
    assert "Queue default deleted" in page.text
    assert "/ui/queues/default" not in page.page.links


async def test_a_held_job_can_be_released(browser):
    job_id = await browser.submit_waiting("train-2")
    await browser.call(f"batchq/jobs/{job_id}/hold", {"reason": "wait for data"})
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert f"/ui/jobs/{job_id}/release" in page.page.links
    assert f"/ui/jobs/{job_id}/force-fail" not in page.page.links
    assert "wait for data" in page.text


async def test_the_history_is_a_picture_and_a_table(browser):
    job_id = await browser.run("train-17", script=Script(seconds=0), until="SUCCEEDED")
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert re.search(r'class="gantt".*?Attempt 1: .*?succeeded', page.body, re.DOTALL)
    table = page.body[page.body.index('id="times"') :]
    assert re.findall(r"status-(\w+)", table)[:5] == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


async def test_dependencies_are_a_picture_with_links_and_a_list(browser):
    names, jobs = ("a", "b", "c", "d", "e", "f"), []
    for name in names:
        before = [{"jobId": jobs[-1]}] if jobs else []
        jobs.append(await browser.submit(name, script=ENDLESS, dependsOn=before))
    page = await browser.open(f"/ui/jobs/{jobs[2]}")
    picture = re.search(r'<svg class="graph".*?<details', page.body, re.DOTALL)[0]
    assert re.findall(r'href="/ui/jobs/([^"]+)"', picture) == [jobs[1], jobs[3], jobs[0], jobs[4]]
    assert picture.count('class="edge"') == 4
    assert "data-ended" not in page.body
    assert "waits for: b" in page.text
    assert "waited for by: d" in page.text


async def test_at_most_40_jobs_are_drawn_and_the_others_are_listed(browser):
    first = await browser.submit("first", script=ENDLESS)
    others = [await browser.submit(f"other-{index}", dependsOn=[{"jobId": first}]) for index in range(45)]
    page = await browser.open(f"/ui/jobs/{first}")
    assert "and 6 more" in page.text
    assert page.body.count('class="edge"') == 39
    assert {f"/ui/jobs/{job_id}" for job_id in others} <= set(page.page.links)


async def test_the_request_shows_what_was_asked_for(browser):
    members = {"tags": {"team": "blue"}, "timeout": {"attemptDurationSeconds": 90}, "retryStrategy": {"attempts": 3}}
    job_id = await browser.submit("train-17", command=["sh", "-c", 'echo "two words"'], **members)
    page = await browser.open(f"/ui/jobs/{job_id}")
    request = page.text[page.text.index("Request") :]
    assert '"sh", "-c", "echo "two words""' in request
    assert "1 vCPU, 64 MiB" in request
    assert "team=blue" in request
    assert "90 s for each attempt" in request
    assert "/ui/definitions/simple%3A1" in page.page.links


async def test_a_child_that_its_array_has_not_created_has_a_page(browser):
    job_id = await browser.submit_waiting("sweep", arrayProperties={"size": 3})
    page = await browser.open(f"/ui/jobs/{job_id}:2")
    assert "The array has not created this child yet." in page.text
    assert f"/ui/jobs/{job_id}:2/stop" in page.page.links
    await browser.open(f"/ui/jobs/{job_id}:3", status=404)


async def test_metrics_and_checkpoints_are_results(browser):
    script = Script(seconds=None, on_term=143, checkpoints=("epoch-1.pt",), output=("epoch 1: loss 0.5",))
    tags = {"batchq:checkpoints": "true", "batchq:metric:loss": "loss ([0-9.]+)"}
    job_id = await browser.run("train-17", script=script, tags=tags)
    page = await browser.open(f"/ui/jobs/{job_id}")
    results = re.search(r'aria-labelledby="results">.*?</section>', page.body, re.DOTALL)[0]
    assert "<dt>loss</dt><dd>0.5" in results
    assert "epoch-1.pt" in results


async def test_the_checkpoints_of_a_job_whose_record_was_removed_have_a_page(tmp_path):
    job_id = builders.job_id(77)
    async with console_of(tmp_path / "data") as browser:
        folder = tmp_path / "data-checkpoints" / job_id
        folder.mkdir(parents=True)
        (folder / "epoch-1.pt").write_text("x")
        page = await browser.open(f"/ui/jobs/{job_id}")
        assert "was removed after the retention period" in page.text
        assert "epoch-1.pt" in page.text
        await browser.open(f"/ui/jobs/{builders.job_id(78)}", status=404)


async def test_a_job_with_prices_has_a_cost(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\nvcpu_hour = 1.0\n')
    async with console_of(tmp_path / "data", prices=prices) as browser:
        job_id = await browser.run("train-17", script=Script(seconds=0), until="SUCCEEDED")
        page = await browser.open(f"/ui/jobs/{job_id}")
        assert "Cost 0.00 EUR Request" in page.text  # with a single part, the sum alone


async def test_a_long_value_and_many_variables_are_folded(browser):
    variables = {"environment": [{"name": f"V{number}", "value": "x"} for number in range(11)]}
    job_id = await browser.submit("train-17", tags={"note": "x" * 250}, containerOverrides=variables)
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert f"<summary><code>note={'x' * 100}…</code> (250 characters)</summary>" in page.body
    assert "<details><summary>11 variables</summary>" in page.body


async def test_an_array_leads_to_its_children_and_each_child_to_its_array(browser):
    job_id = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 3})
    await browser.wait_for(f"{job_id}:1", "RUNNING")
    page = await browser.open(f"/ui/jobs/{job_id}")
    child = await browser.open(f"/ui/jobs/{job_id}:1")
    assert f"/ui/jobs/{job_id}/children?state=RUNNING" in page.page.links
    assert f"/ui/jobs/{job_id}" in child.page.links
    assert "sweep:1" in child.text


def container(name):
    resources = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
    variable, value = script_variable(ENDLESS)
    environment = [{"name": variable, "value": value}]
    return {"name": name, "image": "busybox", "resourceRequirements": resources, "environment": environment}


async def submit(browser, kind, properties):
    """A running job of a new definition."""
    await browser.call("registerjobdefinition", {"jobDefinitionName": "new", "type": kind, **properties})
    job = await browser.call("submitjob", {"jobName": "new", "jobQueue": "default", "jobDefinition": "new"})
    await browser.wait_for(job["jobId"], "RUNNING")
    return job["jobId"]


async def test_each_node_of_a_multi_node_job_has_a_page(browser):
    ranges = [
        {"targetNodes": "0:1", "container": {key: value for key, value in container("").items() if key != "name"}}
    ]
    properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": ranges}
    job_id = await submit(browser, "multinode", {"nodeProperties": properties})
    whole = await browser.open(f"/ui/jobs/{job_id}")
    node = await browser.open(f"/ui/jobs/{job_id}/nodes/1")
    assert f"/ui/jobs/{job_id}/nodes/1" in whole.page.links
    assert "new#1" in node.text
    assert f"/ui/jobs/{job_id}/nodes/1/stop" in node.page.links
    await browser.open(f"/ui/jobs/{job_id}/nodes/2", status=404)


async def test_the_containers_of_a_task_have_their_states_and_logs(browser):
    containers = [container("main"), container("sidecar") | {"essential": False}]
    properties = {"ecsProperties": {"taskProperties": [{"containers": containers}]}}
    job_id = await submit(browser, "container", properties)
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert f"/ui/jobs/{job_id}/log?container=sidecar" in page.page.links


async def test_an_update_is_the_same_as_that_part_of_the_whole_page(browser):
    job_id = await browser.run("train-17", script=Script(seconds=0), until="SUCCEEDED")
    pages = [await browser.open(f"/ui/jobs/{job_id}"), await browser.open(f"/ui/jobs/{job_id}", X_Fragment="live")]
    whole, part = (re.sub(r"\d+ s ago", "", page.body) for page in pages)
    pieces = re.split(r'(<div id="kept-\w+" data-keep>)\s*(?=</div>)', part)
    assert len(pieces) == 5
    assert [piece for piece in pieces if piece not in whole] == []
    assert f"/ui/jobs/{job_id}/log?attempt=1" in part


async def test_an_update_shows_that_the_log_is_complete_and_the_last_results(browser):
    tags = {"batchq:metric:loss": "loss ([0-9.]+)"}
    job_id = await browser.run("train-17", script=Script(seconds=0, output=("loss 0.5",)), tags=tags, until="SUCCEEDED")

    part = await browser.open(f"/ui/jobs/{job_id}", X_Fragment="live")

    assert "Results loss 0.5" in part.text
    assert "New lines appear here" not in part.text
    assert f"/ui/jobs/{job_id}/log/text" in part.page.links


async def test_hostile_text_is_shown_escaped(browser):
    script = Script(seconds=None, on_term=143, output=(HOSTILE,))
    job_id = await browser.run("hostile", command=[HOSTILE], script=script, tags={"note": HOSTILE[:200]})
    await browser.call("terminatejob", {"jobId": job_id, "reason": HOSTILE[:1024]})
    await browser.wait_for(job_id, "FAILED")
    page = await browser.open(f"/ui/jobs/{job_id}")
    assert page.body.count("<script") == 2
    assert "<img" not in page.body
    assert "\u202e" not in page.body
    assert "\x1b" not in page.body
    assert "\\u202edesrever" in page.text


async def test_every_link_of_the_pages_of_jobs_leads_to_a_page(own_browser):
    first = await own_browser.submit("train-1", script=ENDLESS)
    waiting = await own_browser.submit("train-2", dependsOn=[{"jobId": first}])
    array = await own_browser.run(
        "sweep", script=Script(seconds=0, exit_code=1), arrayProperties={"size": 2}, until="FAILED"
    )
    paths = ["/ui/jobs?by=ended", "/ui/jobs?queue=default", "/ui/find?q=train", f"/ui/jobs/{array}/children"]
    paths += [f"/ui/jobs/{job_id}" for job_id in (first, waiting, array, f"{array}:0")]
    links = {link for path in paths for link in (await own_browser.open(path)).page.links if link.startswith("/ui")}
    for link in sorted(links):
        await own_browser.open(link.replace("&amp;", "&"))


async def test_each_attempt_shows_what_it_used(own_browser):
    job_id = await own_browser.run_measured(script=Script(seconds=None, on_term=1, cpus=2, memory_mib=20))

    page = await own_browser.open(f"/ui/jobs/{job_id}")

    used = re.search(r'data-label="Used">(.*?)<', page.body)[1]
    expected = (
        r"\d\.\d s of CPU time; 2\.0 of 1 vCPU; peak 20 of 64 MiB; working set 20 MiB; "
        r"as of (\d\.\d s|\d+ ms) before the end"
    )
    assert re.fullmatch(expected, used), used


async def test_an_attempt_that_was_not_measured_says_so(browser):
    job_id = await browser.run(script=Script(seconds=0), until="SUCCEEDED")

    assert 'data-label="Used">not measured<' in (await browser.open(f"/ui/jobs/{job_id}")).body
