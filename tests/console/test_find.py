"""The page that finds jobs, queues and definitions."""

from urllib.parse import quote

from tests.console.world import HOSTILE
from tests.service.job_queue import ENDLESS


async def location(browser, text):
    """Where a search for this text leads at once."""
    return (await browser.open(f"/ui/find?q={text}", status=303)).headers["Location"]


async def test_an_id_or_its_first_8_digits_open_the_job(browser):
    job_id = await browser.submit("train-17", script=ENDLESS)
    for text in (job_id, job_id[:8], job_id[:13].upper(), f"%20{job_id}%20"):
        assert await location(browser, text) == f"/ui/jobs/{job_id}"
    assert await location(browser, f"arn:aws:batch:us-east-1:123456789012:job/{job_id}") == f"/ui/jobs/{job_id}"


async def test_an_id_with_an_index_opens_the_child(browser):
    job_id = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 5})
    assert await location(browser, f"{job_id[:8]}:3") == f"/ui/jobs/{job_id}:3"
    assert "was found" in (await browser.open(f"/ui/find?q={job_id[:8]}:5")).text


async def test_a_name_that_one_job_has_opens_the_job(browser):
    first = await browser.submit("train-1", script=ENDLESS)
    await browser.submit("train-10", script=ENDLESS)
    assert await location(browser, "TRAIN-1") == f"/ui/jobs/{first}"


async def test_several_jobs_of_a_name_or_with_it_in_their_names_are_listed(browser):
    jobs = [await browser.submit(name, script=ENDLESS) for name in ("train-1", "train-2")]
    page = await browser.open("/ui/find?q=rain")
    assert "/ui/queues/default" in page.page.links
    assert {f"/ui/jobs/{job}" for job in jobs} <= set(page.page.links)


async def test_a_queue_and_a_definition_are_found_by_name(browser):
    await browser.submit("train-1", script=ENDLESS)
    assert await location(browser, "default") == "/ui/queues/default"
    assert await location(browser, "simple") == "/ui/definitions/simple"
    assert await location(browser, "simple:1") == "/ui/definitions/simple%3A1"
    assert "was found" in (await browser.open("/ui/find?q=simple:7")).text


async def test_a_group_is_found_by_its_id_and_by_its_name_or_a_part_of_it(browser):
    await browser.submit("train-1", script=ENDLESS, tags={"batchq:group": "fit-learning-rates"})
    (group,) = (await browser.call("batchq/listgroups", {}))["groups"]
    for text in (group["groupId"], "FIT-learning-rates", "learning"):
        assert await location(browser, text) == f"/ui/groups/{group['groupId']}"
    assert "was found" in (await browser.open(f"/ui/find?q=g-{'0' * 20}")).text


async def test_a_text_that_names_nothing_reports_what_was_searched(browser):
    await browser.submit("train-1", script=ENDLESS)
    page = await browser.open("/ui/find?q=nothing")
    assert "No job, group, queue or definition was found" in page.text
    assert "The names of all jobs were searched." in page.text


async def test_any_text_may_be_searched_for(browser):
    await browser.submit("train-1", script=ENDLESS)
    for text in (HOSTILE[:200], "*x", "%", "8f2c51a7:", "8f2c51a7:99999999", "a" * 256):
        page = await browser.open(f"/ui/find?q={quote(text)}")
        assert page.body.count("<script") == 2
        assert "\u202e" not in page.body
