"""The list of jobs."""

import re
from unittest.mock import patch
from urllib.parse import parse_qs

import pytest

from batchq.api.console import job_list_page, job_tabs, rerun_page
from batchq.api.console.job_list_query import JobsQuery, older_path, position
from batchq.api.console.job_order import SortColumn
from batchq.api.http.page_tokens import PageTokens, position_text
from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import Caller, UserName
from batchq.errors import Invalid
from batchq.ports.job_search import SearchPosition
from tests.console.world import HOSTILE
from tests.service.job_queue import ENDLESS


def rows(page):
    return [identifier.removeprefix("job-") for identifier in page.page.ids if identifier.startswith("job-")]


def link(page, text):
    """The path of the only link with this text."""
    (path,) = re.findall(rf'href="([^"]+)"[^>]*>{text}<', page.body)
    return path.replace("&amp;", "&")


@pytest.fixture
def short_pages(monkeypatch):
    """Pages of 10 jobs: fewer jobs have several pages."""
    monkeypatch.setattr(job_list_page, "PER_PAGE", 10)


async def test_an_empty_server_shows_two_commands_to_copy(browser):
    page = await browser.open("/ui/jobs")
    assert "There are no jobs yet." in page.text
    assert page.body.count('data-copy="batchq ') == 2


async def test_the_newest_job_is_first_and_each_has_its_status_and_a_few_words(browser):
    first = await browser.run("train-1")
    second = await browser.submit("train-2", dependsOn=[{"jobId": first}])
    third = await browser.run("train-3", until="FAILED", script=Script(seconds=0, exit_code=3))
    page = await browser.open("/ui/jobs")
    assert rows(page) == [third, second, first]
    assert "PENDING waits for 1 of 1 dependency" in page.text
    assert "FAILED exit code 3" in page.text
    assert 'title="Waits for 1 of 1 dependency: train-1' in page.body


def tabs(page):
    """The count of each tab."""
    return dict(re.findall(r'>(\w+) <span class="count">([\d,+]+)<', page.body))


async def test_each_tab_has_the_number_of_its_jobs_and_lists_them(browser):
    running = await browser.run("train-1")
    waiting = await browser.submit("train-2", dependsOn=[{"jobId": running}])
    failed = await browser.run("train-3", until="FAILED", script=Script(seconds=0, exit_code=3))
    stopped = await browser.run("train-4")
    await browser.call("terminatejob", {"jobId": stopped, "reason": "enough"})
    await browser.wait_for(stopped, "FAILED")
    await browser.run("blast", until="FAILED", script=Script(seconds=0, exit_code=3))
    page = await browser.open("/ui/jobs?name=train*")
    assert tabs(page) == {"All": "4", "Running": "1", "Waiting": "1", "Failed": "1", "Stopped": "1"}
    lists = [await browser.open(link(page, f"{name} ")) for name in ("Running", "Waiting", "Failed", "Stopped")]
    assert [rows(listing) for listing in lists] == [[running], [waiting], [failed], [stopped]]
    assert all(tabs(listing) == tabs(page) for listing in lists)
    assert all(
        "Remove the filter name train*" in listing.body and "Remove the filter st" not in listing.body
        for listing in lists
    )
    assert tabs(await browser.open("/ui/jobs?name=train*&by=ended")) == {"All": "2", "Failed": "1", "Stopped": "1"}


async def test_a_count_that_reaches_its_bound_says_so(browser):
    for _ in range(3):
        await browser.submit("train")
    with patch.object(job_tabs, "MAX_COUNTED", 2):
        assert tabs(await browser.open("/ui/jobs?name=train"))["All"] == "2+"


async def test_heads_sort_the_list_and_the_order_holds_across_pages(browser, short_pages):
    names = [f"job-{number * 7 % 12:02}" for number in range(12)]
    ids = {name: await browser.submit(name, script=ENDLESS) for name in names}
    path = link(await browser.open("/ui/jobs"), "Job")
    first = await browser.open(path)
    ids["job-000"] = await browser.submit("job-000")
    second = await browser.open(link(first, "Next"))
    assert rows(first) + rows(second) == [ids[name] for name in sorted(names)]
    assert 'aria-sort="ascending"' in first.body
    assert rows(await browser.open(link(second, "Back"))) == [ids[name] for name in sorted(ids)][:10]
    downwards = await browser.open(link(first, "Job"))
    assert rows(downwards) == [ids[name] for name in sorted(ids, reverse=True)][:10]
    assert rows(await browser.open(link(await browser.open("/ui/jobs"), "Created")))[0] == ids[names[0]]


async def test_each_column_sorts_both_ways(browser):
    await browser.submit("b", script=ENDLESS)
    await browser.run("a", until="FAILED", script=Script(seconds=0, exit_code=3))
    for column in SortColumn:
        upwards, downwards = [await browser.open(f"/ui/jobs?sort={sign}{column}") for sign in ("", "-")]
        assert rows(upwards) == rows(downwards)[::-1]
        await browser.open(f"/ui/jobs?sort={column}er", status=400)


async def test_only_the_newest_jobs_are_sorted_and_the_page_says_so(browser):
    ids = [await browser.submit(f"job-{number}", script=ENDLESS) for number in range(3)]
    with patch.object(job_list_page, "MAX_SORTED", 2):
        page = await browser.open("/ui/jobs?sort=name")
    assert rows(page) == ids[1:]
    assert "Only the newest jobs are sorted" in page.text


async def test_a_search_leads_to_the_list_with_a_filter_or_to_the_job(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    await browser.submit("blast-1", script=ENDLESS)
    found = await browser.open("/ui/jobs?search=rain&queue=default&name=other&sort=name", status=303)
    assert found.headers["Location"] == "/ui/jobs?queue=default&name=%2Arain%2A&sort=name"
    page = await browser.open(found.headers["Location"])
    assert rows(page) == [job_id]
    assert 'value="rain"' in page.body
    while_typing = await browser.open("/ui/jobs?search=rain&queue=default", X_Fragment="live")
    assert rows(while_typing) == [job_id]
    by_id = await browser.open(f"/ui/jobs?search={job_id[:8]}", status=303)
    assert by_id.headers["Location"] == f"/ui/find?q={job_id[:8]}"


async def test_filters_are_combined_and_each_has_a_link_that_removes_it(browser):
    first = await browser.submit("train-1", script=ENDLESS)
    await browser.submit("blast-1", script=ENDLESS)
    await browser.wait_for(first, "RUNNING")
    page = await browser.open("/ui/jobs?state=RUNNING&state=PENDING&name=TRAIN*&queue=default&from=1h")
    assert rows(page) == [first]
    assert "/ui/jobs?state=PENDING&queue=default&name=TRAIN%2A&from=1h" in [
        found_link.replace("&amp;", "&") for found_link in page.page.links
    ]
    assert 'name="state" value="RUNNING" checked' in page.body
    assert '<input type="hidden" name="search" value="TRAIN*">' in page.body
    assert link(page, "Remove all") == "/ui/jobs"


async def test_jobs_are_filtered_by_exit_code(browser):
    ids = [await browser.run(until="FAILED", script=Script(seconds=0, exit_code=code)) for code in (3, 4)]
    page = await browser.open("/ui/jobs?exit=3")
    assert rows(page) == [ids[0]]
    assert "exit 3" in page.text
    await browser.open("/ui/jobs?exit=three", status=400)


async def test_the_fields_of_the_form_may_be_empty(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    empty = "queue=&name=&user=&account=&definition=&exit=&from=&to=&by=created"
    assert rows(await browser.open(f"/ui/jobs?{empty}")) == [job_id]


async def test_a_list_by_end_has_finished_jobs_only(browser):
    ended = await browser.run("train-1", script=Script(seconds=0), until="SUCCEEDED")
    await browser.submit("train-2", script=ENDLESS)
    assert rows(await browser.open("/ui/jobs?by=ended")) == [ended]
    assert rows(await browser.open("/ui/jobs?by=ended&to=1h")) == []


async def test_pages_continue_at_a_token_and_lead_back(browser, short_pages):
    first = await browser.submit("first", script=ENDLESS)
    ids = [await browser.submit(f"job-{number}", script=ENDLESS) for number in range(12)]
    newest = await browser.open("/ui/jobs")
    older = await browser.open(link(newest, "Older"))
    assert rows(newest) == ids[:1:-1]
    assert rows(older) == [*ids[1::-1], first]
    assert rows(await browser.open(link(older, "Newer"))) == rows(newest)
    assert "Older" not in older.text


async def test_a_token_of_another_filter_is_refused(browser, short_pages):
    for number in range(11):
        await browser.submit(f"job-{number}", script=ENDLESS)
    older = link(await browser.open("/ui/jobs"), "Older")
    assert "nextToken is not valid" in (await browser.open(f"{older}&queue=default", status=400)).text


def test_a_token_of_another_user_is_refused():
    tokens, (ada, bob) = PageTokens(bytes(32)), (Caller(user=UserName(user)) for user in ("ada", "bob"))
    path = older_path(JobsQuery(), position_text(SearchPosition(at=0, sequence=7)), tokens, ada)
    query = JobsQuery(page=parse_qs(path.partition("?")[2])["page"])
    assert position(query, tokens, ada) == SearchPosition(at=0, sequence=7)
    with pytest.raises(Invalid):
        position(query, tokens, bob)


async def test_a_page_behind_the_last_job_says_so(browser, short_pages):
    ids = [await browser.submit(f"job-{number}", script=ENDLESS) for number in range(11)]
    unfinished = "&".join(f"state={status}" for status in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"))
    older = link(await browser.open(f"/ui/jobs?{unfinished}"), "Older")
    assert rows(await browser.open(older)) == [ids[0]]
    await browser.call("terminatejob", {"jobId": ids[0], "reason": "a test"})
    await browser.wait_for(ids[0], "FAILED")
    assert "There are no older jobs." in (await browser.open(older)).text


async def test_jobs_are_counted_by_name_and_status(browser):
    for _ in range(2):
        await browser.wait_for(await browser.submit("train", script=Script(seconds=0)), "SUCCEEDED")
    await browser.wait_for(await browser.submit("train", script=ENDLESS), "RUNNING")
    await browser.submit("blast", script=ENDLESS)
    page = await browser.open("/ui/jobs?grouped=name")
    train = re.search(r'id="name-train">(.*?)</tr>', page.body, re.DOTALL)[1]
    assert re.findall(r'data-label="(\w+)">(\d+)', train)[:1] == [("Jobs", "3")]
    assert ("SUCCEEDED", "2") in re.findall(r'data-label="(\w+)">(\d+)', train)
    assert "/ui/jobs?name=train" in page.page.links


async def test_chosen_jobs_are_sent_to_the_pages_that_stop_and_resubmit(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    page = await browser.open("/ui/jobs")
    assert f'name="job" value="{job_id}"' in page.body
    assert '<form class="choosing" action="/ui/stop">' in page.body
    assert 'formaction="/ui/rerun"' in page.body


async def chosen(browser, query):
    """The list with all jobs of these filters chosen."""
    page = await browser.open(f"/ui/jobs?{query}")
    (path,) = re.findall(r'href="([^"]+)">Choose all', page.body)
    return await browser.open(path.replace("&amp;", "&"))


async def test_all_jobs_that_match_are_chosen_and_stopped(browser, short_pages):
    ids = [await browser.submit(f"train-{number}", script=ENDLESS) for number in range(21)]
    await browser.submit("train-array", script=ENDLESS, arrayProperties={"size": 9})
    page = await chosen(browser, "queue=default&name=train*")
    assert "All 22 jobs that match are chosen." in page.text
    preview = await browser.open(link(page, "Terminate…"))
    assert "22 jobs" in preview.text
    assert "Type the number of jobs and children, 31, to confirm" in preview.text
    for query in ("name=*rain*&from=1h", "definition=simple", "state=RUNNABLE&state=RUNNING&state=STARTING"):
        assert ids[-1] in (await browser.open(link(await chosen(browser, query), "Cancel…"))).body
    assert "Choose all" not in (await browser.open("/ui/jobs")).text
    for query in ("from=1h", "state=FAILED&state=RUNNING", "stopped=no", "name=train*&by=ended"):
        assert "/ui/stop?" not in (await browser.open(f"/ui/jobs?{query}&chosen=all")).body


async def test_all_finished_jobs_that_match_are_submitted_again(browser):
    ids = [await browser.run("train", until="FAILED", script=Script(seconds=0, exit_code=3)) for _ in range(2)]
    await browser.submit("train", script=ENDLESS)
    await browser.run("blast", until="FAILED", script=Script(seconds=0, exit_code=3))
    form = await browser.form(link(await chosen(browser, "name=train&from=1h"), "Resubmit…"))
    await browser.run("train", until="FAILED", script=Script(seconds=0, exit_code=3))  # after the preview
    outcome = await browser.open((await browser.post("/ui/rerun", form)).headers["Location"])
    assert all(job_id in outcome.body for job_id in ids)
    assert "2 of 2 jobs submitted again" in outcome.text
    assert "/ui/rerun?" not in (await browser.open("/ui/jobs?state=RUNNING&chosen=all")).body
    for matching in ("", "from%3D1h", "name%3Da%26nonsense%3D1", "%FF"):
        await browser.open(f"/ui/rerun?matching={matching}", status=400)
    with patch.object(rerun_page, "MAX_JOBS", 1):
        assert "More than 1 jobs match" in (await browser.open("/ui/rerun?matching=name%3Dtrain", status=400)).text


async def test_a_held_job_shows_that_it_is_held(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    waiting = await browser.submit("train-2", dependsOn=[{"jobId": job_id}])
    await browser.call(f"batchq/jobs/{waiting}/hold", {"reason": "wait"})
    assert "PENDING held" in (await browser.open("/ui/jobs?name=train-2")).text


async def test_hostile_text_in_filters_and_reasons_is_shown_escaped(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    await browser.call("terminatejob", {"jobId": job_id, "reason": HOSTILE[:1024]})
    await browser.wait_for(job_id, "FAILED")
    page = await browser.open("/ui/jobs?state=FAILED")
    assert "<script>window" not in page.body
    assert "\u202e" not in page.body
    assert "\\u202edesrever" in page.body
    sent = await browser.open("/ui/jobs?name=%22%3E%3Cscript%3E&name=%E2%80%AEx")
    assert "<script>" not in sent.body.replace("<script type", "")
    assert "\u202e" not in sent.body
