"""The pages that cancel, terminate or force-fail one job."""

import asyncio
import re
from datetime import timedelta

import pytest

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.lifecycle import escalation
from tests.console.conftest import form_in
from tests.service.job_queue import ENDLESS

DEAF = Script(seconds=None)  # ignores the stop signal


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def test_the_page_of_a_running_job_describes_both_orders(browser):
    page = await browser.open(f"/ui/jobs/{await browser.run()}/stop")
    assert "The attempt continues and is the last one; if it succeeds, the job is SUCCEEDED." in page.text
    assert "SIGTERM, SIGKILL after 30 s, FAILED whatever the exit code, never retried." in page.text


async def test_the_page_of_a_waiting_job_describes_both_orders(browser):
    page = await browser.open(f"/ui/jobs/{await browser.submit_waiting()}/stop")
    assert page.text.count("FAILED at once, no container is created.") >= 2


async def test_the_page_names_the_jobs_that_depend_on_the_job(browser):
    first = await browser.run()
    for name in ("report-1", "report-2"):
        await browser.submit(name, dependsOn=[{"jobId": first}])
    page = await browser.open(f"/ui/jobs/{first}/stop")
    assert "2 jobs that depend on it will be FAILED if the job is FAILED: report-1 and report-2." in page.text


async def test_the_page_of_an_array_counts_its_children(browser):
    array = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 200})
    await browser.wait_for(f"{array}:0", "RUNNING")
    page = await browser.open(f"/ui/jobs/{array}/stop")
    counts = re.search(r"(\d+) children are FAILED at once\. (\d+) child(?:ren)? runs?: SIGTERM", page.text)
    assert int(counts[1]) + int(counts[2]) == 200
    assert int(counts[2]) > 0


async def test_a_large_array_is_stopped_only_if_the_number_of_its_children_is_typed(browser):
    array = await browser.submit_waiting("sweep", arrayProperties={"size": 21})
    path = f"/ui/jobs/{array}/stop"
    form = await browser.form(path, order="TERMINATE", reason="enough")

    page = await browser.post(path, form, status=400)
    assert "Type the number of children, 21, to confirm the order." in page.text
    assert (await browser.describe(array))["status"] == "PENDING"

    await browser.post(path, form_in(page, order="TERMINATE", reason="enough", count="21"))
    await browser.wait_for(array, "FAILED")


async def test_the_page_of_a_finished_job_offers_no_order(browser):
    job_id = await browser.run("done", script=Script(seconds=0), until="SUCCEEDED")
    page = await browser.open(f"/ui/jobs/{job_id}/stop")
    assert "Already SUCCEEDED. No order would change that." in page.text
    assert "<form method=" not in page.body.partition('id="main"')[2]


async def test_a_terminate_stops_the_job_with_the_reason_and_the_user(browser):
    job_id = await browser.run()
    path = f"/ui/jobs/{job_id}/stop"
    answer = await browser.post(path, await browser.form(path, order="TERMINATE", reason="<b>too hot</b>"))
    assert answer.headers["Location"] == f"/ui/jobs/{job_id}"
    await browser.wait_for(job_id, "FAILED")
    job = await browser.describe(job_id)
    assert (job["statusReason"], job["isTerminated"]) == ("<b>too hot</b>", True)
    records = (await browser.call("batchq/listaudit", {"job": job_id}))["records"]
    assert "TerminateJob" in {record["operation"] for record in records}


async def test_a_cancel_lets_the_attempt_end(browser):
    job_id = await browser.run()
    path = f"/ui/jobs/{job_id}/stop"
    await browser.post(path, await browser.form(path, order="CANCEL", preset="wrong input", reason="run 3"))
    job = await browser.describe(job_id)
    order = job["batchq"]["stopOrder"]
    assert (job["status"], order["kind"], order["reason"]) == ("RUNNING", "CANCEL", "wrong input: run 3")


async def test_signal_and_grace_of_the_form_replace_those_of_the_job(browser):
    job_id = await browser.run(script=DEAF)
    path = f"/ui/jobs/{job_id}/stop"
    form = await browser.form(path, order="TERMINATE", preset="was only a test", signal="INT", grace="0")
    await browser.post(path, form)
    await browser.wait_for(job_id, "FAILED")
    assert (await browser.describe(job_id))["container"]["exitCode"] == 137


@pytest.mark.parametrize("order", ["CANCEL", "TERMINATE"])
async def test_a_job_whose_state_has_changed_is_not_stopped(browser, order):
    first = await browser.run("first")
    job_id = await browser.submit("second", script=ENDLESS, dependsOn=[{"jobId": first}])
    path = f"/ui/jobs/{job_id}/stop"
    form = await browser.form(path, order=order, reason="not needed")
    await browser.call("terminatejob", {"jobId": first, "reason": "ends the wait"})
    await browser.wait_for(job_id, "FAILED")
    page = await browser.post(path, form, status=409)
    assert "nothing was ordered" in page.text
    assert "stopOrder" not in (await browser.describe(job_id)).get("batchq", {})


async def test_the_page_asks_again_with_the_words_of_the_new_state(browser):
    job_id = await browser.submit("late", script=ENDLESS)
    path = f"/ui/jobs/{job_id}/stop"
    await browser.wait_for(job_id, "RUNNING")
    form = dict(await browser.form(path, order="TERMINATE", reason="too hot")) | {"state": "RUNNABLE.0"}
    page = await browser.post(path, form, status=409)
    assert "SIGTERM, SIGKILL after 30 s" in page.text
    assert 'value="too hot"' in page.body
    again = form | dict(form_in(page))
    await browser.post(path, again)
    assert (await browser.describe(job_id))["isTerminated"]


async def test_a_form_that_is_sent_twice_orders_once(browser):
    job_id = await browser.run()
    path = f"/ui/jobs/{job_id}/stop"
    form = await browser.form(path, order="TERMINATE", reason="too hot")
    answers = await asyncio.gather(browser.post(path, form), browser.post(path, form))
    assert {answer.headers["Location"] for answer in answers} == {f"/ui/jobs/{job_id}"}
    assert len((await browser.describe(job_id))["batchq"]["stopOrders"]) == 1


async def test_of_two_orders_for_one_state_the_first_counts(browser):
    job_id = await browser.run(script=DEAF)
    path = f"/ui/jobs/{job_id}/stop"
    forms = [await browser.form(path, order="TERMINATE", reason=name) for name in ("first", "second")]
    answers = [await browser.post(path, forms[0]), await browser.post(path, forms[1], status=409)]
    assert "Already stopping since" in answers[1].text
    assert [order["reason"] for order in (await browser.describe(job_id))["batchq"]["stopOrders"]] == ["first"]


REFUSED = (
    ({"order": "TERMINATE"}, "Give a reason: choose one or write one."),
    ({"order": "TERMINATE", "reason": "x" * 1025}, "The reason has 1025 characters: 1024 are allowed."),
    ({"reason": "too hot"}, "Choose cancel or terminate."),
    ({"order": "TERMINATE", "reason": "too hot", "grace": "soon"}, "The grace period must be a number of seconds"),
    ({"order": "TERMINATE", "reason": "too hot", "force": "true", "grace": "5"}, "Force sends SIGKILL at once"),
    ({"order": "TERMINATE", "reason": "too hot", "signal": "STOP"}, "is not a supported signal"),
    ({"order": "TERMINATE", "reason": "too hot", "checkpoint": "true"}, "has no checkpoint directory"),
)


async def test_an_error_keeps_what_was_typed(browser):
    job_id = await browser.run()
    path = f"/ui/jobs/{job_id}/stop"
    for fields, sentence in REFUSED:
        page = await browser.post(path, await browser.form(path, **fields), status=400)
        assert sentence in page.text
        assert f'value="{fields.get("reason", "")}"' in page.body
        assert "stopOrder" not in (await browser.describe(job_id)).get("batchq", {})


async def test_a_stopping_job_can_only_be_forced(browser):
    job_id = await browser.run(script=DEAF)
    path = f"/ui/jobs/{job_id}/stop"
    form = await browser.form(path, order="TERMINATE", reason="first", signal="HUP", grace="600")
    await browser.post(path, form)
    page = await browser.open(path)
    assert "Already stopping since" in page.text
    form = await browser.form(path, order="TERMINATE", reason="second", force="true")
    await browser.post(path, form)
    await browser.wait_for(job_id, "FAILED")


async def test_the_dialog_is_a_block_of_the_page(browser):
    page = await browser.open(f"/ui/jobs/{await browser.run()}/stop", X_Fragment="dialog")
    assert page.body.lstrip().startswith('<h2 id="stop-heading">')
    assert 'name="order"' in page.body


async def test_the_page_of_a_node_says_what_happens_to_the_others(browser):
    name, value = script_variable(ENDLESS)
    environment = [{"name": name, "value": value}]
    container = {"image": "busybox", "environment": environment, "vcpus": 1, "memory": 64}
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": [{"targetNodes": "0:", "container": container}]}
    definition = {"jobDefinitionName": "gang", "type": "multinode", "nodeProperties": nodes}
    await browser.call("registerjobdefinition", definition)
    gang = await browser.run("gang", jobDefinition="gang", containerOverrides={}, script=None)
    main, other = [await browser.open(f"/ui/jobs/{gang}/nodes/{number}/stop") for number in (0, 1)]
    assert "It is the main node, so the whole job ends." in main.text
    assert "the job and its other containers continue. The next attempt has all nodes again." in other.text
    path = f"/ui/jobs/{gang}/nodes/1/stop"
    await browser.post(path, await browser.form(path, order="TERMINATE", reason="this node"))
    assert "stopOrder" not in (await browser.describe(gang))["batchq"]
    assert (await browser.describe(f"{gang}#1"))["batchq"]["stopOrder"]["reason"] == "this node"


async def killed_job(browser):
    """The id of a job whose container is killed, and does not exit."""
    job_id = await browser.run(script=Script(seconds=None, kill_delay=10**6))
    path = f"/ui/jobs/{job_id}/stop"
    await browser.post(path, await browser.form(path, order="TERMINATE", reason="hangs", force="true"))
    after = 0
    while "killedAt" not in (await browser.describe(job_id))["batchq"]["stopOrder"]:
        after = await browser.next_event(job_id, after)
    return job_id


async def test_force_fail_gives_up_a_container_that_does_not_exit(browser, monkeypatch):
    monkeypatch.setattr(escalation, "UNKILLABLE_AFTER", timedelta())
    job_id = await killed_job(browser)
    path = f"/ui/jobs/{job_id}/force-fail"
    for page in (f"/ui/jobs/{job_id}", f"/ui/jobs/{job_id}/stop"):
        assert path in (await browser.open(page)).page.links
    assert "<code>batchq force-fail</code>" in (await browser.open(f"/ui/jobs/{job_id}")).body

    await browser.post(path, await browser.form(path, reason="hangs"))
    job = await browser.describe(job_id)
    assert job["status"] == "FAILED"
    assert job["batchq"]["stopOrder"]["kind"] == "FORCE_FAIL"


async def test_a_job_whose_container_was_not_killed_is_not_force_failed(browser):
    job_id = await browser.run()
    path = f"/ui/jobs/{job_id}/force-fail"
    for page in (f"/ui/jobs/{job_id}", f"/ui/jobs/{job_id}/stop"):
        assert path not in (await browser.open(page)).page.links
    shown = await browser.open(path)
    assert "Only a job whose container has not exited a minute after SIGKILL can be force-failed." in shown.text
    assert 'method="post" action="/ui/jobs' not in shown.body

    form = {"invocation": "0b0e6d0c-6dd6-47ff-a5f6-b0eb4e9f7ea6", "state": "any", "reason": "hangs"}
    assert "Stop the job first." in (await browser.post(path, form, status=400)).text
    assert (await browser.describe(job_id))["status"] == "RUNNING"
