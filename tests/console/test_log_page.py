"""The page of a job's log: its lines, windows of them, the search, the download, and what a follower gets."""

import re

import aiohttp
import pytest

from batchq.compute.simulated.script import Script, script_variable
from batchq.errors import StoreFailed
from batchq.services import log_windows
from batchq.store.log_files import LogFiles
from tests.console.test_largest_answers import job_with_log
from tests.console.world import HOSTILE
from tests.service.job_queue import ENDLESS


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def job_that_writes(browser, *output, seconds=0, status="SUCCEEDED", name="train-1", **members):
    """The id of a job that has written the lines."""
    job_id = await browser.submit(name, script=Script(seconds=seconds, output=output), **members)
    await browser.wait_for(job_id, status)
    return job_id


def positions(page):
    return [int(identifier[1:]) for identifier in page.page.ids if re.fullmatch(r"L\d+", identifier)]


def attribute(page, name):
    found = re.search(rf'<ol id="(?:log|lines)"[^>]* {name}="([^"]*)"', page.body)
    return found and found[1]


async def test_the_page_shows_the_last_lines_with_their_numbers_and_follows(browser):
    job_id = await job_that_writes(browser, "one", "two", seconds=None, status="RUNNING")
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "1 one 2 two" in page.text
    assert attribute(page, "data-next").startswith("1.")
    assert attribute(page, "data-follow") == ""


async def test_a_log_that_is_longer_than_the_page_is_read_by_older_and_newer_pages(browser):
    job_id = await job_that_writes(browser, *[f"line-{index}" for index in range(10)])
    path = f"/ui/jobs/{job_id}/log"
    last = await browser.open(f"{path}?tail=4")
    assert "7 line-6 8 line-7 9 line-8 10 line-9" in last.text
    before = positions(last)[0]
    older = await browser.open(f"{path}?before={before}&limit=4")
    assert "3 line-2 4 line-3 5 line-4 6 line-5" in older.text
    newer = await browser.open(f"{path}?after=1.{positions(older)[0]}&limit=3")
    assert "3 line-2 4 line-3 5 line-4" in newer.text
    assert attribute(newer, "data-next") is None


async def test_lines_are_not_numbered_if_too_much_must_be_read_for_it(browser, monkeypatch):
    monkeypatch.setattr(log_windows, "MAX_COUNTED", 10)
    job_id = await job_that_writes(browser, "one", "two")
    assert "# two" in (await browser.open(f"/ui/jobs/{job_id}/log?tail=1")).text


async def test_a_link_to_a_line_shows_the_lines_around_it(browser):
    job_id = await job_that_writes(browser, *[f"line-{index}" for index in range(10)])
    path = f"/ui/jobs/{job_id}/log"
    at = positions(await browser.open(path))[7]
    page = await browser.open(f"{path}?attempt=1&at={at}&limit=5")
    assert "4 line-3 5 line-4 6 line-5 7 line-6 8 line-7" in page.text
    assert attribute(page, "data-follow") is None


async def test_a_position_behind_the_end_is_refused_by_the_search(browser):
    job_id = await job_that_writes(browser, "one")
    path = f"/ui/jobs/{job_id}/log"
    end = attribute(await browser.open(path), "data-next").partition(".")[2]
    await browser.open(f"{path}?q=one&beyond={end}", status=400)


async def test_a_position_that_is_not_of_the_log_is_refused(browser):
    job_id = await job_that_writes(browser, "one", "two")
    for query in ("at=3", "before=3", "after=1.3", "after=x", "tail=2001", "attempt=0", "times=never"):
        await browser.open(f"/ui/jobs/{job_id}/log?{query}", status=400)


async def test_a_follower_gets_only_the_next_lines(browser):
    job_id = await job_that_writes(browser, "one", "two", seconds=None, status="RUNNING")
    path = f"/ui/jobs/{job_id}/log"
    second = positions(await browser.open(path))[1]
    part = await browser.open(f"{path}?after=1.{second}&wait=20", X_Fragment="lines")
    assert part.text == "2 two"
    nothing = await browser.open(f"{path}?after={attribute(part, 'data-next')}&wait=0", X_Fragment="lines")
    assert (nothing.text, attribute(nothing, "data-over")) == ("", "false")


async def test_a_follower_of_an_ended_job_is_told_that_no_more_lines_can_come(browser):
    job_id = await job_that_writes(browser, "one")
    path = f"/ui/jobs/{job_id}/log"
    follow = attribute(await browser.open(path), "data-next")
    assert attribute(await browser.open(f"{path}?after={follow}&wait=20", X_Fragment="lines"), "data-over") == "true"


async def test_a_search_shows_the_lines_around_each_match(browser):
    job_id = await job_that_writes(browser, *[f"line-{index}" for index in range(20)])
    page = await browser.open(f"/ui/jobs/{job_id}/log?q=line-10")
    assert [f"line-{index}" in page.text.split() for index in range(6, 15)] == [False, *[True] * 7, False]
    assert "1 found; the search has come to the end of the log." in page.text
    assert re.findall(r"<mark>(.*)</mark>", page.body) == ["line-10"]


async def test_a_search_joins_matches_that_are_close(browser):
    job_id = await job_that_writes(browser, *[f"line-{index}" for index in range(40)])
    page = await browser.open(f"/ui/jobs/{job_id}/log?q=?line-10+?line-14+?line-30")
    assert page.body.count('<ol class="log') == 2
    assert [page.text.split().count(f"line-{number}") for number in (10, 12, 14, 30, 20)] == [1, 1, 1, 1, 0]


async def test_a_search_without_a_match_says_so(browser):
    job_id = await job_that_writes(browser, "one")
    assert "No line of the log matches." in (await browser.open(f"/ui/jobs/{job_id}/log?q=other")).text


async def test_a_search_for_more_matches_than_a_page_has_goes_on(browser):
    job_id = await job_that_writes(browser, *[f"line-{index}" for index in range(150)])
    path = f"/ui/jobs/{job_id}/log"
    first = await browser.open(f"{path}?q=line")
    assert "100 found in the lines up to" in first.text
    (beyond,) = re.findall(r"beyond=(\d+)", first.body)
    rest = await browser.open(f"{path}?q=line&beyond={beyond}")
    assert "50 found on this page; the search has come to the end of the log." in rest.text


async def test_lines_around_a_match_are_cut_and_count_towards_the_page(browser):
    lines = [line for number in range(95) for line in (*["x" * 10_000] * 3, f"match {number}")]
    path = f"/ui/jobs/{await job_with_log(browser, browser.data, lines)}/log?q=match"
    pages, further = [], [""]
    while further:
        page = await browser.open(path + further[0])
        pages.append(re.findall(r"<mark>match (\d+)</mark>", page.body))
        assert set(re.findall("x+…?", page.text)) == {"x" * 4000 + "…"}
        further = re.findall(r'(&amp;beyond=\d+)">Search further', page.body)
        further = [link.replace("&amp;", "&") for link in further]
    assert [int(element) for each in pages for element in each] == list(range(95))
    assert len(pages) > 1


async def test_a_match_beside_another_match_is_shown_whole(browser):
    lines = ["match " + "y" * 5000, "match " + "z" * 5000]
    page = await browser.open(f"/ui/jobs/{await job_with_log(browser, browser.data, lines)}/log?q=match")
    assert re.findall(r"<code><mark>match (y+|z+)</mark>", page.body) == ["y" * 5000, "z" * 5000]


async def test_a_pattern_that_is_not_supported_is_refused(browser):
    job_id = await job_that_writes(browser, "one")
    page = await browser.open(f"/ui/jobs/{job_id}/log?q=%7B%24.a%3D1%7D", status=400)
    assert "use terms" in page.text


async def test_the_whole_log_is_downloaded_as_it_was_written(browser):
    lines = [f"line-{index} <b> \x1b[31mred" for index in range(100)]
    job_id = await job_that_writes(browser, *lines)
    file = await browser.open(f"/ui/jobs/{job_id}/log/text")
    assert file.body == "".join(f"{line}\n" for line in lines)
    assert file.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert file.headers["Content-Disposition"] == f'attachment; filename="{job_id}-1.log"'
    assert file.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_download_that_fails_is_not_taken_for_the_whole_log(browser, monkeypatch):
    async def fail(*_, **__):
        raise StoreFailed("a disk error")

    job_id = await job_that_writes(browser, "one")
    monkeypatch.setattr(LogFiles, "read", fail)
    with pytest.raises(aiohttp.ClientPayloadError):
        await browser.open(f"/ui/jobs/{job_id}/log/text")


async def test_a_hostile_line_is_shown_as_text_with_its_colour(browser):
    job_id = await job_that_writes(browser, HOSTILE)
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "<script>window" not in page.body
    assert "<img" not in page.body
    assert '<span class="sgr-31">red</span>' in page.body
    assert not [character for character in page.body if not character.isprintable() and character != "\n"]


async def test_a_long_line_is_folded(browser):
    job_id = await job_that_writes(browser, "x" * 5000)
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert f"<details><summary>{'x' * 200}… (5,000 characters)</summary>" in page.body


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ("off", "1 one"),
        ("since", r"1 \+0:00:0\d\.\d{3} one"),
        ("local", r"1 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC one"),
    ],
)
async def test_times_are_shown_on_request(browser, times, shown):
    job_id = await job_that_writes(browser, "one")
    page = await browser.open(f"/ui/jobs/{job_id}/log?times={times}")
    assert re.search(rf"Download {shown} Keyboard", page.text)


async def test_a_job_that_has_not_started_has_an_empty_page_that_follows(browser):
    job_id = await browser.submit("waits-1", dependsOn=[{"jobId": await browser.submit("endless-1", script=ENDLESS)}])
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "The job has not started." in page.text
    assert attribute(page, "data-next") == "0"


async def test_a_job_without_output_says_so(browser):
    job_id = await job_that_writes(browser)
    assert "Attempt 1 wrote no output." in (await browser.open(f"/ui/jobs/{job_id}/log")).text


async def test_the_page_beyond_the_end_says_so(browser):
    job_id = await job_that_writes(browser, "one")
    path = f"/ui/jobs/{job_id}/log"
    end = attribute(await browser.open(path), "data-next")
    assert "There are no further lines." in (await browser.open(f"{path}?after={end}")).text


async def test_a_large_array_links_to_the_logs_of_its_first_children(browser):
    job_id = await browser.submit("sweep-1", script=ENDLESS, arrayProperties={"size": 101})
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "Children: 101" in page.text
    assert "The first 100 are listed." in page.text
    assert f"/ui/jobs/{job_id}/children" in page.page.links


async def test_an_array_links_to_the_logs_of_its_children(browser):
    job_id = await job_that_writes(browser, "one", arrayProperties={"size": 3})
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert f"/ui/jobs/{job_id}:2/log" in page.page.links
    await browser.wait_for(f"{job_id}:2", "SUCCEEDED")
    assert "one" in (await browser.open(f"/ui/jobs/{job_id}:2/log")).text.split()


async def test_an_attempt_that_does_not_exist_is_not_found(browser):
    job_id = await job_that_writes(browser, "one")
    await browser.open(f"/ui/jobs/{job_id}/log?attempt=2", status=404)


def playing(*scripts):
    """Properties of a simulated container with a script for each attempt."""
    name, value = script_variable(*scripts)
    needs = [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "4"}]
    return {"image": "busybox", "environment": [{"name": name, "value": value}], "resourceRequirements": needs}


async def submit_definition(browser, *, status="SUCCEEDED", **members):
    await browser.call("registerjobdefinition", {"jobDefinitionName": "special"} | members)
    job = {"jobName": "special-1", "jobQueue": "default", "jobDefinition": "special"}
    job_id = (await browser.call("submitjob", job))["jobId"]
    await browser.wait_for(job_id, status)
    return job_id


async def test_each_container_of_a_task_has_its_own_log(browser):
    containers = [
        playing(Script(seconds=0, output=(f"of {name}",))) | {"name": name, "essential": name == "main"}
        for name in ("main", "helper")
    ]
    properties = {"taskProperties": [{"containers": containers}]}
    job_id = await submit_definition(browser, type="container", ecsProperties=properties)
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "Container main helper" in page.text
    assert "1 of main" in page.text
    other = await browser.open(f"/ui/jobs/{job_id}/log?attempt=1&container=helper")
    assert "1 of helper" in other.text
    assert 'value="helper"' in other.body
    await browser.open(f"/ui/jobs/{job_id}/log?container=none", status=400)


async def test_each_node_has_its_own_log(browser):
    nodes = [{"targetNodes": "0:", "container": playing(Script(seconds=None, output=("of a node",)))}]
    properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": nodes}
    job_id = await submit_definition(browser, type="multinode", nodeProperties=properties, status="RUNNING")
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert f"/ui/jobs/{job_id}/nodes/1/log" in page.page.links
    part = await browser.open(f"/ui/jobs/{job_id}/nodes/1/log?after=0&wait=20", X_Fragment="lines")
    assert part.text == "1 of a node"
    page = await browser.open(f"/ui/jobs/{job_id}/nodes/1/log")
    assert "1 of a node" in page.text
    assert re.search(r"Jobs (\S+) \1#1 Log of \1#1 ", page.text)
    assert (await browser.open(f"/ui/jobs/{job_id}/nodes/1/log/text")).body == "of a node\n"
    await browser.open(f"/ui/jobs/{job_id}/nodes/2/log", status=404)


async def test_each_attempt_has_its_own_log(browser):
    attempts = playing(Script(seconds=0, exit_code=1, output=("first",)), Script(seconds=0, output=("second",)))
    job_id = await submit_definition(
        browser, type="container", containerProperties=attempts, retryStrategy={"attempts": 2}
    )
    assert "1 second" in (await browser.open(f"/ui/jobs/{job_id}/log")).text
    page = await browser.open(f"/ui/jobs/{job_id}/log?attempt=1")
    assert "Attempt 1 2" in page.text
    assert "1 first" in page.text


async def test_a_follower_continues_with_the_next_attempt(browser):
    attempts = playing(Script(seconds=0, exit_code=1, output=("first",)), Script(seconds=0, output=("second",)))
    job_id = await submit_definition(
        browser, type="container", containerProperties=attempts, retryStrategy={"attempts": 2}
    )
    first = await browser.open(f"/ui/jobs/{job_id}/log?after=1.0", X_Fragment="lines")
    second = await browser.open(f"/ui/jobs/{job_id}/log?after={attribute(first, 'data-next')}", X_Fragment="lines")
    assert (first.text, second.text) == ("1 first", "1 second")


async def test_output_that_is_not_stored_is_not_shown(browser):
    content = playing(Script(seconds=0)) | {"logConfiguration": {"logDriver": "syslog"}}
    job_id = await submit_definition(browser, type="container", containerProperties=content)
    page = await browser.open(f"/ui/jobs/{job_id}/log")
    assert "The log driver of the job does not store its output in batchq." in page.text
    assert attribute(page, "data-next") is None
    await browser.open(f"/ui/jobs/{job_id}/log/text", status=400)
