"""The title of the browser's tab: counts, which change with the live part of the page."""

from urllib.parse import unquote

import pytest
from msgspec.structs import replace

from batchq.api.console.activity_pictures import PictureCache
from batchq.api.console.job_words import tab_title
from batchq.compute.simulated.script import Script

FAILS = Script(seconds=0, exit_code=3)
TAGS = {"batchq:group": "fit"}


def shown(page):
    return page.body.partition("<title>")[2].partition("</title>")[0]


async def live(browser, path):
    return unquote((await browser.open(path, X_Fragment="live")).headers["X-Tab"])


async def test_the_overview_has_the_running_and_the_failed_jobs_of_its_figures(browser, monkeypatch):
    assert shown(await browser.open("/ui/")) == "0 running · batchq"

    await browser.run()
    drawn = PictureCache.of

    async def of(*args, **members):
        return replace(await drawn(*args, **members), failed=7)

    monkeypatch.setattr(PictureCache, "of", of)

    page = await browser.open("/ui/")
    assert shown(page) == "1 running, 7 failed · batchq"
    assert "Failed by themselves, 24 hours 7" in page.text
    assert await live(browser, "/ui/") == "1 running, 7 failed"


async def test_the_list_of_jobs_and_a_queue_have_the_running_and_the_waiting_jobs(browser):
    await browser.submit_waiting()

    assert await live(browser, "/ui/jobs") == "Jobs: 1 running, 1 waiting"
    assert await live(browser, "/ui/jobs?name=waits") == "Jobs: 1 waiting"
    assert shown(await browser.open("/ui/jobs?by=ended")) == "Jobs · batchq"
    assert await live(browser, "/ui/queues/default") == "default: 1 running, 1 waiting"


async def test_a_job_has_its_state_and_a_group_its_counts(browser):
    running = await browser.run("fit-1", tags=TAGS)
    await browser.run("fit-2", until="FAILED", script=FAILS, tags=TAGS)
    (group,) = (await browser.call("batchq/listgroups", {"groupName": "fit"}))["groups"]

    assert shown(await browser.open(f"/ui/jobs/{running}")) == "RUNNING fit-1 · batchq"
    assert await live(browser, f"/ui/groups/{group['groupId']}") == "fit: 1 running, 1 failed"


async def test_another_page_has_its_own_title(browser):
    page = await browser.open("/ui/queues")

    assert shown(page) == "Queues · batchq"
    assert "data-tab" not in page.body
    assert "X-Tab" not in (await browser.open("/ui/queues", X_Fragment="live")).headers


@pytest.mark.parametrize(
    ("counts", "title"), [((0, 0), "fit: 0 running"), ((0, 2), "fit: 2 failed"), ((1234, 0), "fit: 1,234 running")]
)
def test_counts_of_0_are_left_out(counts, title):
    assert tab_title("fit", dict(zip(("running", "failed"), counts, strict=True))) == title


def test_a_count_that_may_be_higher_has_a_plus():
    assert (
        tab_title("Jobs", {"running": 2, "waiting": 999}, lower_bounds={"waiting"}) == "Jobs: 2 running, 999+ waiting"
    )
