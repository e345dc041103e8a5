"""The page of a group in Chromium: reached from the list of jobs, sorted by a click, accessible, within its width."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from batchq.compute.simulated.script import Script
from tests.console.browser.test_pages import SCHEMES, WIDTHS
from tests.console.browser.visitor import NARROW, WIDE

VALUES = {"grid-1": "0.5", "grid-2": "0.02", "grid-3": "0.1"}


@pytest.fixture
def grid(world):
    """A group of three jobs that have ended, and one that failed."""
    if "grid-1" not in world.jobs:
        for name, lr in VALUES.items():
            world.submit(name, Script(seconds=0), tags={"batchq:group": "grid"}, parameters={"lr": lr})
            world.reach(name, "SUCCEEDED")
        world.submit("gridfails-1", Script(seconds=0, exit_code=3), tags={"batchq:group": "grid"})
        world.reach("gridfails-1", "FAILED")
    return world


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=lambda size: str(size["width"]))
def test_the_page_of_a_group_is_accessible_and_fits(visit, grid, size):
    assert grid.jobs
    page = visit(viewport=size).open("/ui/jobs")
    page.get_by_role("link", name="grid", exact=True).click()
    page.wait_for_url("**/ui/groups/g-*")

    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page, options=rules)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    for width in WIDTHS:
        page.set_viewport_size(size | {"width": width})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_click_on_a_head_sorts_the_table_by_numbers(visit, grid):
    assert grid.jobs
    page = visit(viewport=WIDE).open("/ui/jobs")
    page.get_by_role("link", name="grid", exact=True).click()
    page.wait_for_url("**/ui/groups/g-*")

    page.get_by_role("link", name="lr", exact=True).click()
    page.wait_for_url("**sort=value.lr**")

    assert page.locator("td[data-label=lr]").all_inner_texts()[:3] == ["0.02", "0.1", "0.5"]


def test_the_waiting_jobs_of_a_group_are_held_and_released_in_dialogs(visit, world):
    for number in (1, 2):
        world.submit(f"queued-{number}", queue="gpu", tags={"batchq:group": "queued"})
    page = visit(viewport=WIDE).open("/ui/jobs?queue=gpu")
    page.get_by_role("link", name="queued", exact=True).click()

    page.get_by_role("link", name="Hold the waiting…").click()
    page.get_by_role("dialog").get_by_role("button", name="Hold 2 jobs").click()
    expect(page.get_by_text("2 held")).to_be_visible()

    page.get_by_role("link", name="Release the held…").click()
    page.get_by_role("dialog").get_by_role("button", name="Release 2 jobs").click()
    expect(page.get_by_text("2 held")).to_be_hidden()
    expect(page.get_by_role("link", name="Hold the waiting…")).to_be_visible()
