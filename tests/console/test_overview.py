"""The overview page."""


async def test_the_overview_shows_queues_capacity_and_what_runs(browser):
    job_id = await browser.submit("train-17", command=["sleep", "60"])
    await browser.wait_for(job_id, "RUNNING")
    page = await browser.open("/ui/")
    assert "Jobs start as soon as there is capacity for them." in page.text
    assert {"queue-default", "environment-local", f"job-{job_id}"} <= set(page.page.ids)
    assert f"/ui/jobs/{job_id}" in page.page.links
