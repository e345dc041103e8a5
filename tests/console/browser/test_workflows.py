"""Whole visits of the console: what a person does from one page to the next."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from batchq.compute.simulated.script import Script, script_variable
from tests.console.browser.test_pages import PHONE
from tests.console.browser.visitor import WIDE
from tests.service.waiting import reaches

MANY = 500


def head(page, status):
    """The status at the top of a job's page."""
    return page.locator(f"#job-head .status-{status}")


def stop_by_dialog(page, reason):
    page.get_by_role("link", name="Stop…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="Terminate").check()
    dialog.get_by_label("In your own words").fill(reason)
    dialog.get_by_role("button", name=re.compile("^Stop ")).click()


def test_a_job_is_submitted_waits_starts_and_is_stopped_on_pages_that_are_never_reloaded(visitor, world):
    world.add_queue("seen", vcpus=1)
    world.define("seen", [script_variable(Script(seconds=None, on_term=143, output=("first line",)))])
    world.submit("before-1", queue="seen")
    page = visitor.open("/ui/submit?definition=seen")
    page.get_by_label("Name", exact=True).fill("seen-1")
    page.get_by_label("Queue", exact=True).select_option("seen")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#why")).to_contain_text("First in queue seen")
    expect(page.locator("#why")).to_contain_text("before-1")
    log = visitor.open(page.url.partition("?")[0] + "/log")

    world.batch.terminate_job(jobId=world.jobs["before-1"], reason="room for others")

    expect(head(page, "RUNNING")).to_be_visible()
    expect(log.locator("#log")).to_contain_text("first line")
    stop_by_dialog(page, "too hot")
    expect(head(page, "FAILED")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("too hot")


def test_a_request_is_checked_before_it_is_submitted_once(visitor, world):
    page = visitor.open("/ui/submit?definition=align")
    page.get_by_label("Name", exact=True).fill("checked-1")
    page.get_by_label("Queue", exact=True).select_option("gpu")
    page.get_by_label("Command").fill("align 'two words' --fast")

    page.get_by_role("button", name="Check").click()
    expect(page.locator("#checked")).to_contain_text("Nothing was submitted")
    expect(page.locator("#batchq-command")).to_contain_text("'two words'")
    assert jobs_named(world, "checked-1") == 0
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(head(page, "RUNNABLE")).to_be_visible()

    assert jobs_named(world, "checked-1") == 1


def jobs_named(world, name):
    found = world.batch.list_jobs(jobQueue="gpu", filters=[{"name": "JOB_NAME", "values": [name]}])
    return len(found["jobSummaryList"])


def test_a_job_is_found_and_stopped_by_keyboard_alone(visitor, world):
    job = world.submit("keyboard-1")
    world.reach("keyboard-1", "RUNNING")
    page = visitor.open("/ui/")
    keys = page.keyboard

    keys.press("/")
    keys.type("keyboard-1")
    keys.press("Enter")
    expect(head(page, "RUNNING")).to_be_visible()
    keys.press("t")
    expect(page.get_by_role("dialog")).to_be_visible()
    while page.evaluate("() => document.activeElement.id") != "reason":
        keys.press("Tab")
    keys.type("wrong input")
    keys.press("Enter")

    expect(head(page, "FAILED")).to_be_visible()
    assert reaches(world.batch, job, "FAILED")["statusReason"] == "wrong input"


def test_a_dialog_closes_by_escape_and_returns_the_focus(visitor, world):
    page = visitor.open(f"/ui/jobs/{world.jobs['model-7']}")
    opener = page.get_by_role("link", name="Stop…")
    opener.focus()

    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_a_menu_closes_by_escape_and_when_the_focus_leaves(visitor):
    page = visitor.open("/ui/queues")
    menu, links = page.locator("nav .menu > summary"), page.locator("nav .menu a")
    menu.focus()

    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(links.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    expect(links.first).to_be_hidden()

    page.keyboard.press("Enter")
    page.get_by_role("searchbox").focus()
    expect(links.first).to_be_hidden()


def test_a_child_is_found_in_the_grid_by_arrow_keys(visitor, world):
    array = world.jobs["sweep-1"]
    page = visitor.open(f"/ui/jobs/{array}/children")
    columns = int(page.locator("svg[data-columns]").get_attribute("data-columns"))
    page.locator("svg[data-columns]").focus()

    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#grid-child")).to_have_text(f"Child {columns + 1}")
    expect(page.locator("svg .marker")).to_be_in_viewport()
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(f"/ui/jobs/{array}(:|%3A){columns + 1}$"))


def test_an_id_is_copied_whole(visit, world):
    visitor, job = visit(permissions=["clipboard-read"]), world.jobs["model-7"]
    page = visitor.open(f"/ui/jobs/{job}")

    page.keyboard.press("c")

    expect(page.locator("#announce")).to_have_text("Copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == job


def test_jobs_are_chosen_and_stopped_without_scripts(visit, world):
    for name in ("plain-1", "plain-2", "plain-3"):
        world.submit(name)
        world.reach(name, "RUNNING")
    page = visit(java_script_enabled=False).open("/ui/jobs?name=plain-*")

    for name in ("plain-1", "plain-2"):
        page.locator(f"#job-{world.jobs[name]}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Terminate…").click()
    page.get_by_label("In your own words").fill("no longer needed")
    page.get_by_role("button", name="Terminate 2 jobs").click()

    expect(page.locator("#outcomes")).to_contain_text("2")
    assert world.reach("plain-1", "FAILED")["statusReason"] == "no longer needed"
    assert world.reach("plain-2", "FAILED")["statusReason"] == "no longer needed"
    assert world.reach("plain-3", "RUNNING")


def test_a_job_is_submitted_and_searched_without_scripts(visit, world):
    page = visit(java_script_enabled=False).open("/ui/submit?definition=align")

    page.get_by_label("Name", exact=True).fill("unscripted-1")
    page.get_by_label("Queue", exact=True).select_option("train")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("searchbox").fill("unscripted-1")
    page.get_by_role("searchbox").press("Enter")

    expect(page.get_by_role("heading", level=1)).to_contain_text("unscripted-1")
    expect(page.get_by_role("link", name="refresh")).to_be_visible()


def test_a_job_that_starts_under_an_open_dialog_is_not_stopped_before_a_second_look(visitor, world):
    world.add_queue("dialog", vcpus=1)
    world.submit("ahead-1", queue="dialog")
    job = world.submit("dialog-1", queue="dialog")
    page = visitor.open(f"/ui/jobs/{job}/stop")

    world.batch.terminate_job(jobId=world.jobs["ahead-1"], reason="room for others")
    world.reach("dialog-1", "RUNNING")
    page.get_by_role("radio", name="Terminate").check()
    page.get_by_label("In your own words").fill("too long")
    page.get_by_role("button", name=re.compile("^Stop ")).click()

    expect(page.get_by_role("alert")).to_be_visible()
    assert world.reach("dialog-1", "RUNNING")
    page.get_by_role("button", name=re.compile("^Stop ")).click()
    assert world.reach("dialog-1", "FAILED")["statusReason"] == "too long"
    visitor.forgive("409")


def test_five_hundred_jobs_are_stopped_after_their_number_is_typed(visitor, world):
    world.add_queue("bulk", vcpus=1)
    first, *_ = [world.submit("bulk-1", queue="bulk") for _ in range(MANY)]
    page = visitor.open("/ui/stop?queue=bulk&name=bulk-*&kind=TERMINATE")
    page.get_by_label("In your own words").fill("wrong input")
    confirm = page.get_by_role("button", name=f"Terminate {MANY} jobs")

    confirm.click()
    expect(page.get_by_role("alert")).to_be_visible()
    later = world.submit("bulk-1", queue="bulk")
    page.get_by_label("Type the number of jobs").fill(str(MANY))
    confirm.click()

    expect(page.locator("#outcomes")).to_contain_text(f"{MANY - 1} terminated")  # and the running one is stopping
    assert reaches(world.batch, first, "FAILED")["statusReason"] == "wrong input"
    assert reaches(world.batch, later, "RUNNABLE", "STARTING", "RUNNING")
    visitor.forgive("400")


@pytest.mark.parametrize("status", ["RUNNING", "FAILED"])
def test_a_filter_of_the_list_is_one_click_away_from_the_next(visitor, world, status):
    page = visitor.open("/ui/jobs?queue=train")

    page.locator("summary", has_text="Filter").click()
    page.get_by_role("checkbox", name=status).check()
    page.get_by_role("button", name="Apply").click()

    expect(page.locator(f"#main tbody .status-{status}").first).to_be_visible()
    expect(page.locator(f"#main tbody .status:not(.status-{status})")).to_have_count(0)
    page.get_by_role("link", name=f"Remove the filter state {status}").click()
    expect(page.locator("#main tbody .status-SUCCEEDED").first).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["screen", "phone"])
def test_a_list_is_searched_while_one_types_and_its_rows_are_chosen_together(visit, world, size):
    assert world.jobs
    page = visit(viewport=size).open("/ui/jobs?queue=gpu")

    page.get_by_role("searchbox", name="Search in this list").fill("waits-1")
    expect(page.locator("#main tbody tr")).to_have_count(11)
    expect(page.get_by_role("button", name="Terminate…")).to_be_hidden()
    page.get_by_role("checkbox", name="Choose all jobs of this page").check()
    expect(page.locator("[data-chosen]")).to_have_text("11")
    expect(page.get_by_role("button", name="Terminate…")).to_be_visible()
    page.get_by_role("link", name="Choose all 11 that match").click()

    expect(page.get_by_text("All 11 jobs that match are chosen.")).to_be_visible()
    page.get_by_role("link", name="Terminate…").click()
    expect(page.get_by_role("button", name="Terminate 11 jobs")).to_be_visible()


def test_a_list_is_sorted_on_a_phone(visit, world):
    assert world.jobs
    page = visit(viewport=PHONE).open("/ui/jobs?queue=gpu")

    page.get_by_role("link", name="Status", exact=True).click()
    page.wait_for_url("**sort=state*")

    head = page.get_by_role("link", name="Status").bounding_box()
    assert 0 <= head["x"] <= PHONE["width"] - head["width"]
    assert head["height"] >= 44


def test_settings_change_the_theme_the_times_and_the_shortcuts(visit):
    page = visit(color_scheme="light", timezone_id="Asia/Tokyo").open("/ui/settings")
    page.get_by_role("radio", name="Dark").check()
    page.get_by_role("radio", name="UTC").check()
    page.get_by_role("radio", name="Off").check()
    light = background(page)

    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    assert background(page) != light
    page.keyboard.type("gj")
    expect(page).to_have_url(re.compile("/ui/settings$"))


def background(page):
    return page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")


def test_times_are_those_of_the_browser_or_utc(visit, world):
    visitor = visit(timezone_id="Asia/Tokyo")
    page = visitor.open(f"/ui/jobs/{world.jobs['model-7']}")
    time = page.locator("#live tbody time").first
    at = datetime.fromisoformat(time.get_attribute("datetime"))

    expect(time).to_have_text(at.astimezone(ZoneInfo("Asia/Tokyo")).strftime("%Y-%m-%d %H:%M:%S"))
    visitor.context.add_cookies([{"name": "times", "value": "utc", "url": page.url}])
    page.reload()
    expect(time).to_have_text(at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"))
