"""Whole visits of the console: what a person does from one page to the next."""

import re

import pytest
from playwright.sync_api import expect

from batchq.compute.simulated.script import Script
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


def test_a_waiting_job_is_seen_to_start_and_to_end_by_a_stop_without_a_reload(visitor, world):
    world.add_queue("seen", vcpus=1)
    world.submit("before-1", queue="seen")
    job = world.submit("seen-1", Script(seconds=None, on_term=143, output=("first line",)), queue="seen")
    log = visitor.open(f"/ui/jobs/{job}/log")
    page = visitor.open(f"/ui/jobs/{job}")
    expect(page.locator("#why")).to_contain_text("First in queue seen")
    expect(page.locator("#why")).to_contain_text("before-1")

    world.batch.terminate_job(jobId=world.jobs["before-1"], reason="room for others")

    expect(head(page, "RUNNING")).to_be_visible()
    expect(log.locator("#log")).to_contain_text("first line")
    stop_by_dialog(page, "too hot")
    expect(head(page, "FAILED")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("too hot")


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
    for number in range(MANY):
        world.submit(f"bulk-{number}", queue="bulk")
    page = visitor.open("/ui/stop?queue=bulk&name=bulk-*&kind=TERMINATE")
    page.get_by_label("In your own words").fill("wrong input")
    confirm = page.get_by_role("button", name=f"Terminate {MANY} jobs")

    confirm.click()
    expect(page.get_by_role("alert")).to_be_visible()
    later = world.submit("bulk-later", queue="bulk")
    page.get_by_label("Type the number of jobs").fill(str(MANY))
    confirm.click()

    expect(page.locator("#outcomes")).to_contain_text(f"{MANY - 1} terminated")  # and the running one is stopping
    assert world.reach("bulk-0", "FAILED")["statusReason"] == "wrong input"
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
