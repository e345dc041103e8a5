"""The list of jobs."""

import re
from urllib.parse import parse_qs

import pytest

from batchq.api.console.job_list_page import JobsQuery, older_path, position
from batchq.api.http.page_tokens import PageTokens
from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import Caller, UserName
from batchq.errors import Invalid
from batchq.ports.job_search import SearchPosition
from tests.console.world import HOSTILE
from tests.service.job_queue import ENDLESS


def rows(page):
    return [it.removeprefix("job-") for it in page.page.ids if it.startswith("job-")]


def link(page, text):
    """The path of the only link with this text."""
    (path,) = re.findall(rf'href="([^"]+)">{text}<', page.body)
    return path.replace("&amp;", "&")


async def test_an_empty_server_shows_two_commands_to_copy(browser):
    page = await browser.open("/ui/jobs")
    assert "There are no jobs yet." in page.text
    assert page.body.count('data-copy="batchq ') == 2


async def test_the_newest_job_is_first_and_each_has_its_status_and_why(browser):
    first = await browser.run("train-1")
    second = await browser.submit("train-2", dependsOn=[{"jobId": first}])
    page = await browser.open("/ui/jobs")
    assert rows(page) == [second, first]
    assert "PENDING" in page.text
    assert "train-1" in page.text


async def test_filters_are_combined_and_each_has_a_link_that_removes_it(browser):
    first = await browser.submit("train-1", script=ENDLESS)
    await browser.submit("blast-1", script=ENDLESS)
    await browser.wait_for(first, "RUNNING")
    page = await browser.open("/ui/jobs?state=RUNNING&state=STARTING&name=TRAIN*&queue=default&from=1h")
    assert rows(page) == [first]
    assert "/ui/jobs?state=STARTING&queue=default&name=TRAIN%2A&from=1h" in [
        it.replace("&amp;", "&") for it in page.page.links
    ]
    assert 'name="state" value="RUNNING" checked' in page.body
    assert '<input type="hidden" name="name" value="TRAIN*">' in page.body


async def test_jobs_are_filtered_by_exit_code(browser):
    ids = [await browser.run(until="FAILED", script=Script(seconds=0, exit_code=it)) for it in (3, 4)]
    page = await browser.open("/ui/jobs?exit=3")
    assert rows(page) == [ids[0]]
    assert "exit: 3" in page.text
    await browser.open("/ui/jobs?exit=three", status=400)


async def test_the_fields_of_the_form_may_be_empty(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    empty = "queue=&name=&user=&account=&definition=&exit=&from=&to=&by=created"
    assert rows(await browser.open(f"/ui/jobs?{empty}")) == [job_id]


async def test_a_list_by_end_has_finished_jobs_only(browser):
    ended = await browser.run("train-1", script=None, until="SUCCEEDED")
    await browser.submit("train-2", script=ENDLESS)
    assert rows(await browser.open("/ui/jobs?by=ended")) == [ended]
    assert rows(await browser.open("/ui/jobs?by=ended&to=1h")) == []


async def test_pages_continue_at_a_token_and_lead_back(browser):
    first = await browser.submit("first", script=ENDLESS)
    ids = [await browser.submit(f"job-{number}", script=ENDLESS) for number in range(60)]
    newest = await browser.open("/ui/jobs")
    older = await browser.open(link(newest, "Older"))
    assert rows(newest) == ids[:9:-1]
    assert rows(older) == [*ids[9::-1], first]
    assert rows(await browser.open(link(older, "Newer"))) == rows(newest)
    assert "Older" not in older.text


async def test_a_token_of_another_filter_is_refused(browser):
    for number in range(51):
        await browser.submit(f"job-{number}", script=ENDLESS)
    older = link(await browser.open("/ui/jobs"), "Older")
    assert "nextToken is not valid" in (await browser.open(f"{older}&queue=default", status=400)).text


def test_a_token_of_another_user_is_refused():
    tokens, (ada, bob) = PageTokens(bytes(32)), (Caller(user=UserName(it)) for it in ("ada", "bob"))
    path = older_path(JobsQuery(), SearchPosition(at=0, order=7), tokens, ada)
    query = JobsQuery(page=parse_qs(path.partition("?")[2])["page"])
    assert position(query, tokens, ada) == SearchPosition(at=0, order=7)
    with pytest.raises(Invalid):
        position(query, tokens, bob)


async def test_a_page_behind_the_last_job_says_so(browser):
    ids = [await browser.submit(f"job-{number}", script=ENDLESS) for number in range(51)]
    unfinished = "&".join(f"state={it}" for it in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"))
    older = link(await browser.open(f"/ui/jobs?{unfinished}"), "Older")
    assert rows(await browser.open(older)) == [ids[0]]
    await browser.call("terminatejob", {"jobId": ids[0], "reason": "a test"})
    await browser.wait_for(ids[0], "FAILED")
    assert "There are no older jobs." in (await browser.open(older)).text


async def test_jobs_are_counted_by_name_and_status(browser):
    for _ in range(2):
        await browser.wait_for(await browser.submit("train"), "SUCCEEDED")
    await browser.wait_for(await browser.submit("train", script=ENDLESS), "RUNNING")
    await browser.submit("blast", script=ENDLESS)
    page = await browser.open("/ui/jobs?group=name")
    train = re.search(r'id="name-train">(.*?)</tr>', page.body, re.DOTALL)[1]
    assert re.findall(r'data-label="(\w+)">(\d+)', train)[:1] == [("Jobs", "3")]
    assert ("SUCCEEDED", "2") in re.findall(r'data-label="(\w+)">(\d+)', train)
    assert "/ui/jobs?name=train" in page.page.links


async def test_chosen_jobs_are_sent_to_the_pages_that_stop_and_resubmit(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    page = await browser.open("/ui/jobs")
    assert f'name="job" value="{job_id}"' in page.body
    assert '<form action="/ui/stop">' in page.body
    assert 'formaction="/ui/rerun"' in page.body


async def test_all_unfinished_jobs_of_a_filter_can_be_stopped(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    for query in ("queue=default&name=train*", "name=*rain*&from=1h", "definition=simple"):
        page = await browser.open(f"/ui/jobs?{query}")
        (path,) = [it.replace("&amp;", "&") for it in page.page.links if it.startswith("/ui/stop?")]
        assert job_id in (await browser.open(path)).body
    for other in ("", "?from=1h", "?state=FAILED&state=RUNNING", "?name=train*&by=ended"):
        assert "Stop all that match" not in (await browser.open(f"/ui/jobs{other}")).text


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
    assert "\\u202edesrever" in page.text
    sent = await browser.open("/ui/jobs?name=%22%3E%3Cscript%3E&name=%E2%80%AEx")
    assert "<script>" not in sent.body.replace("<script type", "")
    assert "\u202e" not in sent.body
