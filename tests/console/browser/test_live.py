"""Pages follow changes without a reload, over one connection each."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.world import Submitter
from tests.support.service import serving_forked

TABS = 7  # one more than the connections that a browser opens to a server


@pytest.fixture
def own_service(tmp_path):
    """A server that the test stops and starts again."""
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


def cell(page, queue, column):
    return page.locator(f"#queue-{queue} [data-label={column}]")


def test_the_overview_follows_changes_without_a_reload(visitor, world):
    world.add_queue("followed", vcpus=2)
    page = visitor.open("/ui/")
    page.evaluate("() => { window.loadedOnce = true }")
    expect(cell(page, "followed", "Running")).to_have_text("0")

    world.submit("followed-1", queue="followed")

    expect(cell(page, "followed", "Running")).to_have_text("1")
    assert page.evaluate("() => window.loadedOnce")


def test_seven_tabs_of_a_browser_are_all_live(visitor, world):
    world.add_queue("tabs", vcpus=2)
    pages = [visitor.open("/ui/") for _ in range(TABS)]

    world.submit("tabs-1", queue="tabs")

    for page in pages:
        expect(cell(page, "tabs", "Running")).to_have_text("1")
    visitor.forgive("503")  # a session has three streams; the other tabs ask for changes now and then


def test_a_refresh_keeps_the_focus_and_what_was_chosen(visitor, world):
    first = world.submit("kept-1")
    world.reach("kept-1", "RUNNING")
    page = visitor.open("/ui/jobs?name=kept-*")
    choice = page.locator(f"#job-{first}").get_by_role("checkbox")
    choice.check()

    second = world.submit("kept-2")

    expect(page.locator(f"#job-{second}")).to_be_visible()
    expect(choice).to_be_checked()
    expect(choice).to_be_focused()


def test_a_paused_page_does_not_change_until_it_is_live_again(visitor, world):
    world.add_queue("paused", vcpus=2)
    page, other = visitor.open("/ui/"), visitor.open("/ui/")
    page.get_by_role("button", name="Live").click()

    world.submit("paused-1", queue="paused")

    expect(cell(other, "paused", "Running")).to_have_text("1")
    expect(cell(page, "paused", "Running")).to_have_text("0")
    page.get_by_role("button", name="Paused").click()
    expect(cell(page, "paused", "Running")).to_have_text("1")


def test_a_page_survives_a_restart_of_its_server(visit, own_service):
    visitor = visit(own_service.url)
    page = visitor.open("/ui/")
    expect(page.locator("#queue-default")).to_be_visible()

    own_service.stop()
    expect(page.locator("#not-live")).to_have_text(re.compile("Not live since .*"))
    own_service.start()
    Submitter(own_service.client()).submit("again-1", queue="default")

    expect(cell(page, "default", "Running")).to_have_text("1")
    expect(page.locator("#not-live")).to_be_hidden()
    visitor.forgive("ERR_")


#: Records notifications: the browser of the tests shows none.
NOTIFICATIONS = """
window.shown = [];
window.Notification = class {
  static permission = "default";
  static requestPermission = async () => (Notification.permission = "granted");
  constructor(title, { body, tag }) { window.shown.push([title, body, tag]); }
};
"""


def test_a_followed_job_and_a_followed_group_notify_once_when_they_end(visitor, world):
    job = world.submit("followed-1")
    world.submit("followed-2", tags={"batchq:group": "pursued"})
    world.reach("followed-1", "RUNNING")
    world.reach("followed-2", "RUNNING")
    visitor.context.add_init_script(NOTIFICATIONS)
    page, other = visitor.open(f"/ui/jobs/{job}"), visitor.open("/ui/jobs")
    other.get_by_role("link", name="pursued", exact=True).click()
    for tab in (page, other):
        tab.get_by_role("button", name="Follow", exact=True).click()
        expect(tab.get_by_role("button", name="Following")).to_have_attribute("aria-pressed", "true")

    for name in ("followed-1", "followed-2"):
        world.batch.terminate_job(jobId=world.jobs[name], reason="enough")

    expect(page.get_by_role("button", name="Follow")).to_be_hidden()
    expect(other.get_by_role("button", name="Follow")).to_be_hidden()
    (ended, group_ended) = sorted(page.evaluate("() => window.shown") + other.evaluate("() => window.shown"))[::-1]
    assert ended[0] == "followed-1: FAILED"
    assert "enough" in ended[1]
    assert ended[2] == f"/ui/jobs/{job}"
    assert group_ended[0] == "Group pursued: 0 succeeded, 0 failed, 1 stopped"
    assert page.evaluate("() => localStorage['batchq followed']") == "{}"
