"""The pages that hold, release, pause and resume a job, and the forms of queues and job definitions."""

import pytest

from tests.service.job_queue import ENDLESS


async def described(browser, job_id):
    return (await browser.call("batchq/listjobs", {"jobs": [job_id]}))["jobs"][0]


@pytest.fixture
async def waiting(browser):
    first = await browser.submit("first", script=ENDLESS)
    return await browser.submit("waits", dependsOn=[{"jobId": first}])


async def test_a_job_is_held_and_released(browser, waiting):
    path = f"/ui/jobs/{waiting}"
    assert "keeps its place in the queue" in (await browser.open(f"{path}/hold")).text
    answer = await browser.post(f"{path}/hold", await browser.form(f"{path}/hold", reason="<b>data</b>"))
    assert answer.headers["Location"] == path
    assert (await described(browser, waiting))["hold"]["reason"] == "<b>data</b>"
    await browser.post(f"{path}/release", await browser.form(f"{path}/release"))
    assert "hold" not in await described(browser, waiting)


async def test_a_running_job_is_paused_and_resumed(browser):
    job_id = await browser.run("train")
    path = f"/ui/jobs/{job_id}"
    page = await browser.open(f"{path}/pause")
    assert "The job has no checkpoint directory: its next attempt does not continue from this one." in page.text
    await browser.post(f"{path}/pause", await browser.form(f"{path}/pause"))
    assert (await described(browser, job_id))["hold"]["paused"]
    await browser.post(f"{path}/resume", await browser.form(f"{path}/resume"))
    assert "hold" not in await described(browser, job_id)


async def test_a_job_that_has_started_meanwhile_is_not_paused(browser, waiting):
    path = f"/ui/jobs/{waiting}/pause"
    form = dict(await browser.form(path)) | {"state": "RUNNABLE.0"}
    page = await browser.post(path, form, status=409)
    assert "nothing was ordered" in page.text
    assert "hold" not in await described(browser, waiting)


async def test_a_running_job_can_be_paused_and_not_held(browser):
    job_id = await browser.run("train")
    page = await browser.open(f"/ui/jobs/{job_id}/hold")
    assert f"/ui/jobs/{job_id}/pause" in page.page.links
    assert 'name="state"' not in page.body


async def test_a_queue_is_disabled_drained_and_enabled(browser):
    async def queue():
        return (await browser.call("describejobqueues", {"jobQueues": ["default"]}))["jobQueues"][0]

    assert (await browser.post("/ui/queues/default/disable", {})).headers["Location"] == "/ui/queues/default"
    assert (await queue())["state"] == "DISABLED"
    await browser.post("/ui/queues/default/enable", {})
    assert (await queue())["state"] == "ENABLED"
    await browser.post("/ui/queues/default/drain", {})
    assert "drained" in (await queue())["statusReason"].lower()
    await browser.post("/ui/queues/default/undrain", {})
    assert (await queue())["statusReason"] == "JobQueue Healthy"
    operations = {record["operation"] for record in (await browser.call("batchq/listaudit", {}))["records"]}
    assert {"UpdateJobQueue", "DrainQueue"} <= operations
    await browser.post("/ui/queues/none/disable", {}, status=404)


async def test_a_revision_is_deregistered(browser):
    await browser.submit("one")
    path = "/ui/definitions/simple:1/deregister"
    assert "No new job can use this revision." in (await browser.open(path)).text
    assert (await browser.post(path, {})).headers["Location"] == "/ui/definitions/simple:1"
    found = await browser.call("describejobdefinitions", {"jobDefinitions": ["simple:1"]})
    assert found["jobDefinitions"][0]["status"] == "INACTIVE"
    await browser.open("/ui/definitions/simple:9/deregister", status=404)
