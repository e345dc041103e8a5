"""The pages that hold, release, pause and resume jobs, and the forms of queues and job definitions."""

import pytest

from batchq.compute.simulated.script import Script
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


@pytest.fixture
async def group(browser, waiting):
    """A function that submits jobs of a group that wait; returns the path of the group's page."""
    assert waiting

    async def group(count, **members):
        await browser.run("fit-0", script=Script(seconds=0), until="SUCCEEDED", tags={"batchq:group": "fit"})
        for index in range(count):
            after = [{"jobId": waiting}]
            await browser.submit(f"fit-{index + 1}", dependsOn=after, tags={"batchq:group": "fit"}, **members)
        return f"/ui/groups/{(await browser.call('batchq/listgroups', {}))['groups'][0]['groupId']}"

    return group


async def held_names(browser):
    jobs = (await browser.call("batchq/listjobs", {"held": True}))["jobs"]
    return {job["jobName"] for job in jobs}


async def test_the_waiting_jobs_of_a_group_are_held_and_released(browser, group):
    path = await group(3)
    assert f"{path}/release" not in (await browser.open(path)).page.links

    answer = await browser.post(f"{path}/hold", await browser.form(f"{path}/hold", reason="<b>data</b>"))

    assert answer.headers["Location"] == path
    assert await held_names(browser) == {"fit-1", "fit-2", "fit-3"}
    page = await browser.open(path)
    assert "3 held" in page.text
    assert f"{path}/hold" not in page.page.links
    await browser.post(f"{path}/release", await browser.form(f"{path}/release"))
    assert await held_names(browser) == set()
    records = (await browser.call("batchq/listaudit", {}))["records"]
    assert [record["operation"] for record in records[:6]] == ["ReleaseJob"] * 3 + ["HoldJob"] * 3


async def test_many_jobs_of_a_group_are_held_only_if_their_number_is_typed(browser, group):
    path = await group(1, arrayProperties={"size": 30})
    assert "1 job with 30 children" in (await browser.open(f"{path}/hold")).text

    page = await browser.post(f"{path}/hold", await browser.form(f"{path}/hold", count="1"), status=400)
    assert "Type the number of jobs, 31, to confirm the order." in page.text
    assert await held_names(browser) == set()
    await browser.post(f"{path}/hold", await browser.form(f"{path}/hold", count="31"))
    assert "fit-1" in await held_names(browser)


async def test_jobs_that_came_after_the_preview_are_not_held(browser, group):
    path = await group(1)
    form = await browser.form(f"{path}/hold")
    await group(2)

    await browser.post(f"{path}/hold", form)

    jobs = (await browser.call("batchq/listjobs", {"held": True}))["jobs"]
    assert len(jobs) == 1


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
