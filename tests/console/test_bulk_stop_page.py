"""The pages that cancel or terminate several jobs."""

import asyncio
from uuid import uuid4

import pytest

from batchq.compute.simulated.script import Script
from batchq.domain.times import milliseconds
from tests.console.conftest import form_in
from tests.service.job_queue import ENDLESS


async def preview(browser, query, **fields):
    return await browser.form(f"/ui/stop?{query}", **fields)


async def statuses(browser, ids):
    jobs = (await browser.call("describejobs", {"jobs": ids}))["jobs"]
    return {job["jobId"]: job["status"] for job in jobs}


@pytest.fixture
async def held(browser):
    """A function that submits jobs that wait; returns their ids."""
    first = await browser.submit("first", script=ENDLESS)

    async def held(count, name="sim", **members):
        after = {"dependsOn": [{"jobId": first}]} | members
        return [await browser.submit(f"{name}-{index}", **after) for index in range(count)]

    return held


async def test_chosen_jobs_are_previewed_and_stopped_with_the_reason(browser, held):
    ids = await held(3)
    query = "&".join(f"job={identifier}" for identifier in ids[:2])
    page = await browser.open(f"/ui/stop?{query}")
    assert "2 would be terminated: FAILED at once, no container is created" in page.text
    answer = await browser.post("/ui/stop", form_in(page, reason="<i>enough</i>"))
    result = await browser.open(answer.headers["Location"])
    assert "2 terminated: FAILED at once, no container is created" in result.text
    found = await statuses(browser, ids)
    assert [found[identifier] for identifier in ids] == ["FAILED", "FAILED", "PENDING"]
    jobs = (await browser.call("describejobs", {"jobs": ids[:1]}))["jobs"]
    assert jobs[0]["statusReason"] == "<i>enough</i>"


async def test_a_filter_stops_the_jobs_of_the_preview_and_none_that_came_later(browser, held):
    ids = await held(3)
    form = await preview(browser, "kind=CANCEL&name=sim-*", reason="enough")
    late = await held(1, name="sim-late")
    await browser.post("/ui/stop", form)
    found = await statuses(browser, [*ids, *late])
    assert [found[identifier] for identifier in (*ids, *late)] == ["FAILED", "FAILED", "FAILED", "PENDING"]


async def test_more_jobs_than_an_order_names_are_selected_by_creation(browser, held, monkeypatch):
    monkeypatch.setattr("batchq.api.console.bulk_stop_page.MAX_NAMED", 2)
    ids = await held(3)
    form = await preview(browser, "name=sim-*", reason="enough")
    late = await held(1, name="sim-late")
    await browser.post("/ui/stop", form)
    found = await statuses(browser, [*ids, *late])
    assert [found[identifier] for identifier in (*ids, *late)] == ["FAILED", "FAILED", "FAILED", "PENDING"]


async def test_jobs_that_match_since_a_preview_of_many_prevent_the_order(browser, held, monkeypatch):
    """A filter of states selects other old jobs later. Here `late` stands for one: it counts as created before."""
    monkeypatch.setattr("batchq.api.console.bulk_stop_page.MAX_NAMED", 2)
    monkeypatch.setattr("batchq.api.console.bulk_stop_page.milliseconds", lambda now: milliseconds(now) + 600_000)
    ids = await held(3)
    form = await preview(browser, "name=sim-*", reason="enough")
    late = await held(1, name="sim-late")

    page = await browser.post("/ui/stop", form, status=400)

    assert "1 job that was not in the preview: nothing was ordered" in page.text
    assert set((await statuses(browser, [*ids, *late])).values()) == {"PENDING"}
    await browser.post("/ui/stop", form_in(page, reason="enough"))
    assert set((await statuses(browser, [*ids, *late])).values()) == {"FAILED"}


async def test_a_job_that_is_created_in_the_millisecond_of_the_preview_is_in_the_preview(browser, held, monkeypatch):
    ids = await held(1)
    (job,) = (await browser.call("describejobs", {"jobs": ids}))["jobs"]
    monkeypatch.setattr("batchq.api.console.bulk_stop_page.milliseconds", lambda _now: job["createdAt"])
    await browser.post("/ui/stop", await preview(browser, "name=sim-*", reason="enough"))
    assert await statuses(browser, ids) == {ids[0]: "FAILED"}


async def test_many_jobs_are_stopped_only_if_their_number_is_typed(browser, held):
    ids = await held(21)
    for typed in ("", "20", "all"):
        form = await preview(browser, "name=sim-*", reason="enough", count=typed)
        page = await browser.post("/ui/stop", form, status=400)
        assert "Type the number of jobs, 21, to confirm the order." in page.text
        assert 'value="enough"' in page.body
    assert set((await statuses(browser, ids)).values()) == {"PENDING"}
    await browser.post("/ui/stop", await preview(browser, "name=sim-*", reason="enough", count="21"))
    assert set((await statuses(browser, ids)).values()) == {"FAILED"}


async def test_children_of_arrays_count_as_jobs(browser, held):
    (array,) = await held(1, arrayProperties={"size": 30})
    form = await preview(browser, f"job={array}", reason="enough", count="1")
    page = await browser.post("/ui/stop", form, status=400)
    assert "1 job with 30 children" in page.text
    assert "Type the number of jobs, 31, to confirm the order." in page.text
    answer = await browser.post("/ui/stop", await preview(browser, f"job={array}", reason="enough", count="31"))
    assert "1 terminated with 30 children" in (await browser.open(answer.headers["Location"])).text


async def test_a_form_without_a_reason_orders_nothing(browser, held):
    ids = await held(1)
    page = await browser.post("/ui/stop", await preview(browser, f"job={ids[0]}"), status=400)
    assert "Give a reason" in page.text
    await browser.post("/ui/stop", form_in(page, preset="wrong input"))
    assert (await statuses(browser, ids))[ids[0]] == "FAILED"


async def test_a_form_that_is_sent_twice_orders_once(browser, held):
    form = await preview(browser, f"job={(await held(1))[0]}", reason="enough")
    answers = await asyncio.gather(browser.post("/ui/stop", form), browser.post("/ui/stop", form))
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert "1 terminated" in (await browser.open(answers[1].headers["Location"])).text


async def test_jobs_that_are_stopping_already_are_not_counted(browser):
    job_id = await browser.run("deaf", script=Script(seconds=None))
    await browser.call("terminatejob", {"jobId": job_id, "reason": "first"})
    page = await browser.open(f"/ui/stop?job={job_id}")
    assert "1 already stopping" in page.text
    assert 'name="reason"' not in page.body


async def test_a_form_without_its_preview_orders_nothing(browser, held):
    ids = await held(1)
    form = dict(await preview(browser, f"job={ids[0]}", reason="enough")) | {"invocation": str(uuid4())}
    page = await browser.post("/ui/stop", form, status=400)
    assert "The preview is no longer stored: nothing was ordered." in page.text
    assert (await statuses(browser, ids))[ids[0]] == "PENDING"


async def test_the_preview_lists_the_first_hundred_jobs(browser):
    array = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 130})
    await browser.wait_for(f"{array}:0", "RUNNING")
    page = await browser.open("/ui/stop?state=RUNNING&state=RUNNABLE&name=sweep")
    assert page.body.count('data-label="Outcome"') == 100
    assert "The first 100 of 130 jobs are listed." in page.text


async def test_the_audit_log_names_the_operation_of_the_api(browser, held):
    ids = await held(1)
    await browser.post("/ui/stop", await preview(browser, f"job={ids[0]}", reason="enough"))
    records = (await browser.call("batchq/listaudit", {"job": ids[0]}))["records"]
    assert "TerminateJobsByFilter" in {record["operation"] for record in records}
