"""How many transactions of the database a page reads: each costs 0.1 ms of CPU, more than most of the statements."""

from unittest.mock import patch

import pytest

from batchq.compute.simulated.script import Script
from batchq.store.database import ReadThread
from tests.console.test_queue_pages import queue


@pytest.fixture
async def finished(browser):
    """The id of a job that has ended; no other job waits."""
    return await browser.run("train", until="SUCCEEDED", script=Script(seconds=0))


async def reads(browser, path):
    """The number of transactions of the second load of a page, which has its pictures already."""
    await browser.open(path)
    counted, run = [], ReadThread.run

    async def counting(thread, work):
        counted.append(work)
        return await run(thread, work)

    with patch.object(ReadThread, "run", counting):
        await browser.open(path)
    return len(counted)


@pytest.mark.parametrize(
    ("path", "transactions"),
    [
        ("/ui/", 1),  # recent failures
        ("/ui/jobs", 2),  # the jobs; the groups, the reruns and the counts of the tabs
        ("/ui/jobs?state=SUCCEEDED", 2),
        ("/ui/jobs?name=*rare*", 2),
    ],
)
@pytest.mark.usefixtures("finished")
async def test_a_page_reads_nothing_that_cannot_exist_and_nothing_twice(browser, path, transactions):
    assert await reads(browser, path) == transactions


async def test_the_page_of_a_job_reads_its_explanation_and_its_history_of_the_job_that_it_has(browser, finished):
    # The job; then its history, its reruns and the jobs that wait for it; a job until its log is copied.
    assert await reads(browser, f"/ui/jobs/{finished}") in {2, 3}


async def test_the_overview_reads_a_job_that_waits_for_capacity_once(browser):
    await queue(browser, "gpu")
    await browser.run("long", jobQueue="gpu")
    await browser.wait_for(await browser.submit("next", jobQueue="gpu"), "RUNNABLE")

    # Recent failures and since when the job waits; the job with its place in the queue.
    assert await reads(browser, "/ui/") == 2
