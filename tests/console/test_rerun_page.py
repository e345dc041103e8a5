"""The page that submits finished jobs again."""

import asyncio
import re

import pytest

from batchq.compute.simulated.script import Script
from tests.console.conftest import form_in
from tests.service.job_queue import ENDLESS


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def ended(browser, name="fit", status="FAILED", **members):
    """A job, or an array, that has ended in this status."""
    script = Script(seconds=0, exit_code=int(status == "FAILED"))
    job_id = await browser.submit(name, command=["fit"], script=script, **members)
    await browser.wait_for(job_id, status)
    return job_id


async def test_a_finished_job_is_submitted_again_with_more_memory(browser):
    old = await ended(browser)
    page = await browser.open(f"/ui/rerun?job={old}")
    assert "Submit 1 job again" in page.text
    answer = await browser.post("/ui/rerun", form_in(page, memory="128m"))
    new = await browser.describe(answer.headers["Location"])
    assert (new["jobName"], new["tags"]["batchq:rerun-of"]) == ("fit", old)
    amounts = {requirement["type"]: requirement["value"] for requirement in new["container"]["resourceRequirements"]}
    assert (amounts["MEMORY"], new["container"]["command"]) == ("128", ["fit"])


async def test_the_failed_children_of_an_array_are_submitted_alone(browser):
    array = await ended(browser, "three", arrayProperties={"size": 3})
    page = await browser.open(f"/ui/rerun?job={array}&failed=1")
    answer = await browser.post("/ui/rerun", form_in(page))
    result = await browser.open(answer.headers["Location"])
    assert "3 of 3 jobs submitted again" in result.text
    jobs = (await browser.call("batchq/listjobs", {"jobNames": ["three"]}))["jobs"]
    new = [await browser.describe(job["jobId"]) for job in jobs if job["jobId"] != array]
    variables = [variable for job in new for variable in job["container"]["environment"]]
    indexes = [variable["value"] for variable in variables if variable["name"] == "AWS_BATCH_JOB_ARRAY_INDEX"]
    assert sorted(indexes) == ["0", "1", "2"]


async def test_only_failed_jobs_are_submitted_on_request(browser):
    failed, succeeded = await ended(browser), await ended(browser, status="SUCCEEDED")
    page = await browser.open(f"/ui/rerun?job={failed}&job={succeeded}&failed=1")
    assert f"/ui/jobs/{failed}" in page.page.links
    assert f"/ui/jobs/{succeeded}" not in page.page.links
    none = await browser.open(f"/ui/rerun?job={succeeded}&failed=1", status=400)
    assert "None of the jobs is FAILED." in none.text


async def test_stopped_jobs_and_jobs_that_were_submitted_again_are_left_out(browser):
    failed, repeated = await ended(browser), await ended(browser)
    stopped = await browser.run("endless")
    await browser.call("terminatejob", {"jobId": stopped, "reason": "enough"})
    await browser.wait_for(stopped, "FAILED")
    answer = await browser.post("/ui/rerun", form_in(await browser.open(f"/ui/rerun?job={repeated}")))
    new = answer.headers["Location"]
    chosen = f"/ui/rerun?job={failed}&job={repeated}&job={stopped}&failed=1"

    page = await browser.open(chosen)

    assert "2 left out: 1 cancelled or terminated by a user, 1 submitted again already." in page.text
    assert "Submit 1 job again" in page.text
    with_stopped = await browser.open(f"{chosen}&alsoStopped=1")
    assert "Submit 2 jobs again" in with_stopped.text
    outdated = await browser.form(chosen)
    answer = await browser.post("/ui/rerun", form_in(page))
    assert (await browser.describe(answer.headers["Location"]))["tags"]["batchq:rerun-of"] == failed
    await browser.post("/ui/rerun", form_in(with_stopped))
    refused = await browser.post("/ui/rerun", outdated, status=400)
    assert "No job is submitted: 3 left out: 3 submitted again already." in refused.text
    for path in (f"/ui/jobs/{repeated}", "/ui/jobs"):
        shown = await browser.open(path)
        assert f"Submitted again as {new[-36:][:8]}" in shown.text
        assert new in shown.page.links


async def test_a_child_shows_as_which_job_it_was_submitted_again(browser):
    array = await ended(browser, "sweep", arrayProperties={"size": 2})
    await browser.post("/ui/rerun", await browser.form(f"/ui/rerun?job={array}:1&failed=1"))

    page = await browser.open(f"/ui/jobs/{array}/children?state=FAILED")

    assert page.text.count("Submitted again as") == 1


async def test_a_form_that_is_sent_twice_submits_each_job_once(browser):
    ids = [await ended(browser, "twice") for _ in range(2)]
    form = form_in(await browser.open(f"/ui/rerun?job={ids[0]}&job={ids[1]}"))
    answers = await asyncio.gather(browser.post("/ui/rerun", form), browser.post("/ui/rerun", form))
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert len((await browser.call("batchq/listjobs", {"jobNames": ["twice"]}))["jobs"]) == 4


async def test_a_job_that_is_not_finished_is_not_submitted_again(browser):
    job_id = await browser.submit("runs", script=ENDLESS)
    page = await browser.open(f"/ui/rerun?job={job_id}", status=400)
    assert "only finished jobs are submitted again." in page.text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"memory": "much"}, "The memory must be a size"), ({"queue": "none"}, "JobQueue none not found.")],
)
async def test_an_error_keeps_what_was_typed(own_browser, fields, sentence):
    old = await ended(own_browser)
    form = form_in(await own_browser.open(f"/ui/rerun?job={old}"), **{"vcpus": "2"} | fields)
    page = await own_browser.post("/ui/rerun", form, status=400)
    assert sentence in page.text
    assert 'value="2"' in page.body
    assert len((await own_browser.call("batchq/listjobs", {}))["jobs"]) == 1


KILLED = Script(seconds=0, exit_code=137, out_of_memory=True)
KILLED_UNREPORTED = Script(seconds=0, exit_code=137)


async def memory_of(browser, path):
    """The MiB that a job requests."""
    container = (await browser.describe(path))["container"]
    return next(
        requirement["value"] for requirement in container["resourceRequirements"] if requirement["type"] == "MEMORY"
    )


def link_of(page, text):
    """The path of the link with this text."""
    return re.search(rf'<a [^>]*href="([^"]*)"[^>]*>{text}</a>', page.body)[1].replace("&amp;", "&")


async def test_a_job_that_was_killed_for_memory_is_submitted_again_with_more(browser):
    old, failed = await browser.run(script=KILLED, until="FAILED"), await ended(browser)
    page = await browser.open(f"/ui/jobs/{old}")
    assert "Resubmit with" not in (await browser.open(f"/ui/jobs/{failed}")).text

    form = await browser.form(link_of(page, "Resubmit with 128 MiB"), memory="128m")
    new = (await browser.post("/ui/rerun", form)).headers["Location"]

    assert (await memory_of(browser, new), (await browser.describe(new))["tags"]["batchq:rerun-of"]) == ("128", old)
    assert "Resubmit with" not in (await browser.open(f"/ui/jobs/{old}")).text


async def test_the_children_of_an_array_that_were_killed_for_memory_are_submitted_again_with_more(browser):
    array = await browser.run(script=KILLED, until="FAILED", arrayProperties={"size": 2})

    offer = "Resubmit the 2 killed for memory with 128 MiB"
    links = [link_of(await browser.open(f"/ui/jobs/{array}{part}"), offer) for part in ("", "/children")]
    form = form_in(await browser.open(links[0]), memory="128m")
    result = await browser.open((await browser.post("/ui/rerun", form)).headers["Location"])

    assert links[0] == links[1]
    assert "2 of 2 jobs submitted again" in result.text


async def test_the_jobs_of_a_group_that_were_killed_for_memory_are_submitted_again_with_more(browser):
    group = {"batchq:group": "fit"}
    killed = [await browser.run(script=script, until="FAILED", tags=group) for script in (KILLED, KILLED_UNREPORTED)]
    await browser.run(script=Script(seconds=0, exit_code=1), until="FAILED", tags=group)
    (row,) = (await browser.call("batchq/listgroups", {"groupName": "fit"}))["groups"]
    path = f"/ui/groups/{row['groupId']}"

    link = link_of(await browser.open(path), "Resubmit the 2 killed, likely for memory, with 128 MiB")
    preview = await browser.open(link)
    result = await browser.open((await browser.post("/ui/rerun", form_in(preview, memory="128m"))).headers["Location"])

    assert (
        'name="memory" maxlength="12" autocomplete="off" placeholder="as before; 512m, 4g" value="128m"' in preview.body
    )
    assert "2 of 2 jobs submitted again" in result.text
    new = [link for link in result.page.links if link.startswith("/ui/jobs/") and link.rpartition("/")[2] not in killed]
    for job_id in new:
        await browser.wait_for(job_id.rpartition("/")[2], "FAILED")
        job = await browser.describe(job_id)
        assert (await memory_of(browser, job_id), job["tags"]["batchq:group"]) == ("128", "fit")
        assert job["tags"]["batchq:rerun-of"] in killed
    assert "Resubmit the 2 killed, likely for memory, with 256 MiB" in (await browser.open(path)).text
