"""Visits of a job's page and of a webhook: what stays while a page is updated, more memory, a secret."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from batchq.compute.simulated.script import Script
from tests.console.browser.test_pages import SCHEMES, WIDTHS
from tests.console.browser.visitor import NARROW

KILLED = Script(seconds=0, exit_code=137, out_of_memory=True, output=("step 1", "step 2"))


def check(page):
    """The page is accessible in both schemes and fits all widths."""
    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page, options=rules)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    for width in WIDTHS:
        page.set_viewport_size(NARROW | {"width": width})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_log_stays_while_the_page_is_updated_and_memory_is_offered(visit, world):
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    world.submit("keeps-1", Script(seconds=None, on_term=143, output=("first line", "second line")))
    world.reach("keeps-1", "RUNNING")
    page = visitor.open(f"/ui/jobs/{world.jobs['keeps-1']}")
    expect(page.locator("#log")).to_contain_text("second line")
    page.locator("#log").evaluate("(log) => { log.dataset.seen = 'yes'; }")

    world.batch.terminate_job(jobId=world.jobs["keeps-1"], reason="enough")
    expect(page.locator("#job-head .status-FAILED")).to_be_visible()

    assert page.locator("#log").get_attribute("data-seen") == "yes"
    expect(page.locator("#announce")).to_have_text("Ended: FAILED")
    expect(page.locator("#output-end")).not_to_contain_text("New lines")
    expect(page.locator("#why .last-lines")).to_contain_text("first line")
    expect(page.locator("#request")).to_be_visible()
    log = visitor.open(f"/ui/jobs/{world.jobs['keeps-1']}/log")
    log.get_by_role("button", name="Copy", exact=True).click()
    assert log.evaluate("() => navigator.clipboard.readText()") == "first line\nsecond line"

    world.submit("killed-1", KILLED)
    world.reach("killed-1", "FAILED")
    page = visitor.open(f"/ui/jobs/{world.jobs['killed-1']}")
    check(page)
    page.get_by_role("link", name="Resubmit with 64 MiB").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Memory")).to_have_value("64m")
    dialog.get_by_role("button", name="Submit 1 job again").click()
    page.wait_for_url(re.compile(rf"/ui/jobs/(?!{world.jobs['killed-1']})"))
    expect(page.locator("#kept-request")).to_contain_text("1 vCPU, 64 MiB")


def test_a_webhook_is_created_and_its_secret_is_shown_once(visitor):
    page = visitor.open("/ui/webhooks/new")
    page.get_by_label("Name", exact=True).fill("seen-once")
    page.get_by_label("URL").fill("https://hooks.example.com/x")
    page.get_by_role("button", name="Create").click()

    expect(page.locator("#secret")).to_contain_text("whsec_")
    check(page)
    page.get_by_role("link", name="Webhooks", exact=True).first.click()
    page.get_by_role("link", name="seen-once").click()
    expect(page.locator("#secret")).to_have_count(0)
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete seen-once").click()
    expect(page.locator("#no-webhooks")).to_be_visible()
