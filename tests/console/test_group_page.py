"""The page of a group: counts, table, pictures, CSV, and its rerun."""

import csv
import io
import re
from html import unescape

import pytest
import pytest_asyncio

from batchq.api.console.group_page import sorted_rows
from batchq.api.console.member_results import MemberRow
from batchq.api.console.svg import histogram, scatter_plot, status_bar
from batchq.compute.simulated.script import Script
from tests.console.conftest import form_in
from tests.support.builders import job

FAST, FAILS = Script(seconds=0), Script(seconds=0, exit_code=3)
TAGS = {"batchq:group": "fit"}


async def run_sweep(browser):
    """A group of three jobs, of which one failed; the path of its page."""
    for lr, script, status in (("0.1", FAST, "SUCCEEDED"), ("0.02", FAST, "SUCCEEDED"), ("1", FAILS, "FAILED")):
        await browser.run(f"fit-{lr[-1]}", until=status, script=script, tags=TAGS, parameters={"lr": lr})
    return f"/ui/groups/{await group_id(browser)}"


@pytest.fixture
async def sweep(browser):
    return await run_sweep(browser)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_sweep(shared_server):
    """The same, for tests that submit nothing."""
    return await run_sweep(shared_server)


async def group_id(browser):
    (row,) = (await browser.call("batchq/listgroups", {"groupName": "fit"}))["groups"]
    return row["groupId"]


def names(page):
    return [word for word in page.text.split() if word.startswith("fit-") and word != "fit-*"]


async def test_the_page_shows_the_counts_the_values_and_the_results(shared_browser, shared_sweep):
    page = await shared_browser.open(shared_sweep)

    assert "3 jobs 2 succeeded 1 failed 0 running 0 waiting" in page.text
    assert "exit code 3: Essential container in task exited 1" in page.text
    assert 'class="shape-FAILED"' in page.body
    assert names(page) == ["fit-1", "fit-1", "fit-2"]
    assert page.body.index('data-label="lr">1<') < page.body.index('data-label="lr">0.1<')


async def test_a_page_that_shows_the_newest_jobs_only_begins_with_a_note(shared_browser, shared_sweep, monkeypatch):
    monkeypatch.setattr("batchq.api.console.group_page.MAX_JOBS", 2)

    page = await shared_browser.open(shared_sweep)

    assert page.text.index("show the newest 2 only; the CSV has all") < page.text.index("3 jobs 2 succeeded")


async def test_the_table_is_sorted_by_numbers_on_the_server(shared_browser, shared_sweep):
    ascending = await shared_browser.open(f"{shared_sweep}?sort=value.lr")
    descending = await shared_browser.open(f"{shared_sweep}?sort=-value.lr")

    order = [ascending.body.index(f'data-label="lr">{lr}<') for lr in ("0.02", "0.1", "1")]
    assert order == sorted(order)
    order = [descending.body.index(f'data-label="lr">{lr}<') for lr in ("1", "0.1", "0.02")]
    assert order == sorted(order)
    assert 'aria-sort="ascending"' in ascending.body


async def test_all_results_are_offered_as_csv(shared_browser, shared_sweep):
    page = await shared_browser.open(f"{shared_sweep}/csv")

    rows = list(csv.DictReader(io.StringIO(page.body)))
    assert [(row["lr"], row["state"], row["exit code"], row["attempts"]) for row in rows] == [
        ("1", "FAILED", "3", "1"),
        ("0.02", "SUCCEEDED", "0", "1"),
        ("0.1", "SUCCEEDED", "0", "1"),
    ]
    assert page.headers["Content-Disposition"] == 'attachment; filename="fit.csv"'


async def test_a_text_of_the_csv_is_no_formula(browser):
    parameters = {"a": "=1+1", "b": "-1", "=cmd|' /C calc'!A0": "c"}
    await browser.run(until="SUCCEEDED", script=FAST, tags=TAGS, parameters=parameters)

    (row,) = csv.DictReader(io.StringIO((await browser.open(f"/ui/groups/{await group_id(browser)}/csv")).body))

    assert (row["a"], row["b"], row["'=cmd|' /C calc'!A0"]) == ("'=1+1", "-1", "c")


@pytest.mark.fault("SE25")
async def test_values_of_many_names_share_a_column_of_the_csv(browser, monkeypatch):
    """A column for each would make a square of cells of jobs that all have names of their own."""
    monkeypatch.setattr("batchq.api.console.member_results.MAX_CSV_NAMES", 2)
    for parameters in ({"a": "1", "b": "2"}, {"a": "3", "c": "4", "d": "5"}):
        await browser.run(until="SUCCEEDED", script=FAST, tags=TAGS, parameters=parameters)

    rows = list(csv.DictReader(io.StringIO((await browser.open(f"/ui/groups/{await group_id(browser)}/csv")).body)))

    assert [(row["a"], row["c"], row["other values"]) for row in rows] == [
        ("3", "4", '{"d": "5"}'),
        ("1", "", '{"b": "2"}'),
    ]


async def test_failed_jobs_are_submitted_again_from_the_page(browser, sweep):
    page = await browser.open(sweep)
    assert "Resubmit the one that failed by itself" in page.text
    path = f"/ui/rerun?group={sweep.rpartition('/')[2]}&failed=1"

    form = form_in(await browser.open(path))
    again = (await browser.post("/ui/rerun", form)).headers["Location"]

    await browser.wait_for(again.rpartition("/")[2], "FAILED")
    page = await browser.open(sweep)
    assert "3 jobs 2 succeeded 1 failed" in page.text
    assert (await browser.describe(again))["tags"]["batchq:group"] == "fit"


async def test_the_stop_of_a_group_names_it(browser, sweep):
    await browser.run("fit-3", tags=TAGS)

    page = await browser.open(f"/ui/stop?group={sweep.rpartition('/')[2]}")

    assert "Terminate 1 job group fit" in page.text
    assert '<a href="/ui/jobs" data-key="g j" aria-current="page">' in page.body


async def test_a_group_is_one_row_of_the_list_of_jobs(browser, sweep):
    await browser.run("alone", until="SUCCEEDED", script=FAST)

    page = await browser.open("/ui/jobs")

    assert sweep in page.page.links
    assert "fit 2 succeeded, 1 failed 3 root" in page.text
    assert names(page) == []


@pytest.mark.parametrize(
    ("filters", "matching"),
    [
        ("name=fit-*", "3"),
        ("state=SUCCEEDED", "2 of 3"),
        ("queue=default&user=root", "3"),
        ("definition=simple&by=ended", "3"),
        ("state=SUCCEEDED&account=root&by=ended", "2 of 3"),
    ],
)
async def test_a_group_is_one_row_under_filters_that_leads_to_its_jobs_that_match(browser, sweep, filters, matching):
    alone = await browser.run("fit-alone", until="SUCCEEDED", script=FAST)

    page = await browser.open(f"/ui/jobs?{filters}")
    path = f"/ui/jobs?group={sweep.rpartition('/')[2]}&{filters.replace('*', '%2A')}"

    assert path in map(unescape, page.page.links)
    assert f"2 succeeded, 1 failed {matching} root" in page.text
    assert f"/ui/jobs/{alone}" in page.page.links
    assert names(page) == ["fit-alone"]
    assert len(names(await browser.open(path))) == int(matching[0])


async def test_the_only_job_of_a_group_that_matches_is_listed_itself(shared_browser, shared_sweep):
    page = await shared_browser.open("/ui/jobs?exit=3")

    assert names(page) == ["fit-1"]
    assert shared_sweep not in page.page.links


@pytest.mark.parametrize("by", ["created", "ended"])
async def test_pages_of_a_filter_have_each_group_and_each_job_once(browser, monkeypatch, by):
    monkeypatch.setattr("batchq.api.console.job_list_page.PER_PAGE", 3)
    alone = []
    for group in "aaaaaaaaa..bb..cccccdd...eee":
        tags = {} if group == "." else {"tags": {"batchq:group": f"fit-{group}"}}
        job_id = await browser.run("fit-job", until="SUCCEEDED", script=FAST, **tags)
        alone += [job_id] if group == "." else []

    links, path, pages = [], f"/ui/jobs?name=fit-job&by={by}", 0
    while path:
        page = await browser.open(path)
        links += [link.rpartition("/")[2] for link in page.page.links]
        following, pages = re.search(r'rel="next" href="([^"]*)"', page.body), pages + 1
        path = following and unescape(following[1])

    ids = {group["groupId"] for group in (await browser.call("batchq/listgroups", {}))["groups"]}
    assert sorted(link for link in links if link in alone) == sorted(alone)
    assert ids <= set(links)
    assert pages <= 7


async def test_a_group_between_the_jobs_of_a_larger_one_is_shown(browser, monkeypatch):
    monkeypatch.setattr("batchq.api.console.job_list_page.PER_PAGE", 3)
    for group in "aaabbaaaa":
        await browser.run("fit-job", until="SUCCEEDED", script=FAST, tags={"batchq:group": f"fit-{group}"})

    page = await browser.open("/ui/jobs?name=fit-job")

    assert [word for word in names(page) if word != "fit-job"] == ["fit-a", "fit-b"]
    assert re.search(r"fit-a 7 succeeded 7 root fit-b 2 succeeded 2 root", page.text)


async def run_in_groups(browser, groups, name="fit-job"):
    for group in groups:
        await browser.run(name, until="SUCCEEDED", script=FAST, tags={"batchq:group": f"fit-{group}"})


async def test_earlier_groups_are_shown_whose_jobs_are_all_between_those_of_a_larger_one(browser, monkeypatch):
    monkeypatch.setattr("batchq.api.console.job_list_page.PER_PAGE", 3)
    await run_in_groups(browser, "bc", name="other")
    await run_in_groups(browser, "aabbcbaaaa")

    page = await browser.open("/ui/jobs?name=fit-job")

    assert re.search(r"fit-a 6 succeeded 6 root fit-b 4 succeeded 3 of 4 root", page.text)
    assert names(page) == ["fit-job", "fit-a", "fit-b", "fit-job"]  # the filter, two groups, the only match of fit-c
    assert 'id="omitted"' not in page.body


async def test_a_page_says_that_groups_between_the_jobs_of_a_larger_one_are_missing(browser, monkeypatch):
    monkeypatch.setattr("batchq.api.console.job_list_page.PER_PAGE", 3)
    monkeypatch.setattr("batchq.api.console.job_collapse.MAX_BETWEEN", 1)
    await run_in_groups(browser, "bc", name="other")
    await run_in_groups(browser, "aabbccaaaa")

    page = await browser.open("/ui/jobs?name=fit-job")

    assert "some have no row here" in page.text


async def test_running_jobs_of_a_group_are_one_row_of_each_page(browser, sweep):
    for name in ("fit-3", "fit-4"):
        await browser.run(name, tags=TAGS)

    running, failed = (
        await browser.open("/ui/jobs?state=STARTING&state=RUNNING"),
        await browser.open("/ui/jobs?stopped=no"),
    )
    overview, environments = await browser.open("/ui/"), await browser.open("/ui/environments")

    assert sweep in running.page.links
    assert names(running) == []
    assert sweep in failed.page.links
    assert names(failed) == ["fit-1"]
    assert "fit: 2 jobs" in overview.text
    assert "fit : 2 jobs ✓ SUCCEEDED" in (await browser.open("/ui/events?state=SUCCEEDED")).text
    assert sweep in overview.page.links
    assert "fit : 2 jobs ▶ RUNNING" in environments.text
    assert f"/ui/jobs?group={sweep.rpartition('/')[2]}&state=RUNNING" in environments.page.links


async def test_the_row_and_the_page_of_a_group_show_the_time_left_and_all_counts(browser, sweep):
    stopped, running = await browser.run("fit-3", tags=TAGS), await browser.run("fit-4", tags=TAGS)
    await browser.submit("fit-5", tags=TAGS, dependsOn=[{"jobId": running}])
    await browser.call("terminatejob", {"jobId": stopped, "reason": "enough"})
    await browser.wait_for(stopped, "FAILED")

    row, page = await browser.open("/ui/jobs"), await browser.open(sweep)

    assert re.search(r"fit 2 succeeded, 1 failed, 1 stopped, 1 running, 1 waiting; about \d+ s left 6 ", row.text)
    assert re.search(r"1 running 1 waiting about \d+ s left", page.text)


async def test_the_page_of_a_job_leads_to_its_group(shared_browser, shared_sweep):
    found = (await shared_browser.call("batchq/listjobs", {"groups": [shared_sweep.rpartition("/")[2]]}))["jobs"]

    page = await shared_browser.open(f"/ui/jobs/{found[0]['jobId']}")

    assert shared_sweep in page.page.links
    assert "group fit ended: 2 succeeded, 1 failed, 0 stopped" in page.text


async def test_the_list_of_jobs_has_a_filter_by_group(browser, sweep):
    await browser.run("alone", until="SUCCEEDED", script=FAST)

    page = await browser.open(f"/ui/jobs?group={sweep.rpartition('/')[2]}")

    assert names(page) == ["fit-1", "fit-2", "fit-1"]
    assert "All 3 Running 0 Waiting 0 Failed 1 Stopped 0" in page.text
    assert "group fit ✕" in page.text
    await browser.open("/ui/jobs?group=fit", status=400)


async def test_the_unfinished_jobs_of_a_group_are_stopped_from_its_page(browser, sweep):
    running = await browser.run("fit-3", tags=TAGS)
    waiting = await browser.submit("fit-4", tags=TAGS, dependsOn=[{"jobId": running}], arrayProperties={"size": 20})
    other = await browser.run("other")
    page = await browser.open(sweep)
    assert "Stop the 21 unfinished…" in page.text
    (path,) = [link for link in page.page.links if link.startswith("/ui/stop?")]

    form = await browser.open(path)
    assert "2 jobs with 20 children" in form.text
    assert sweep in form.page.links
    await browser.post("/ui/stop", form_in(form, reason="enough"), status=400)
    await browser.post("/ui/stop", form_in(form, reason="enough", count="22"))

    for job_id in (running, waiting):
        await browser.wait_for(job_id, "FAILED")
    assert (await browser.describe(other))["status"] == "RUNNING"
    assert "/ui/stop" not in (await browser.open(sweep)).body


async def test_a_group_that_does_not_exist_has_no_page(browser):
    await browser.open("/ui/groups/g-00000000000000000000", status=404)
    await browser.open("/ui/groups/g-00000000000000000000/csv", status=404)


def test_a_histogram_has_a_bar_for_each_range_with_values():
    drawn = histogram([1.0, 1.0, 5.0, 20.0], "Run times")

    assert drawn.count("<rect") == 3
    assert "<title>2 from 1.0 s to" in drawn


def test_a_plot_has_a_dot_for_each_job_and_escapes_its_name():
    drawn = scatter_plot([(0.1, 2.0, "<b>"), (0.2, 1.0, "b")], "loss over lr")

    assert drawn.count('class="dots') == 2
    assert "&lt;b&gt;" in drawn


def test_a_bar_of_no_jobs_is_empty():
    assert "<rect" not in status_bar([("SUCCEEDED", 0)], "nothing")


def test_rows_without_a_value_are_last_in_both_orders():
    rows = [
        MemberRow(job=job(number=at), exit_code=code, ran=None, attempts=1, use=None, values={}, metrics={})
        for at, code in enumerate((None, 3, 1))
    ]

    assert [row.exit_code for row in sorted_rows(rows, "exit")] == [1, 3, None]
    assert [row.exit_code for row in sorted_rows(rows, "-exit")] == [3, 1, None]


async def test_the_page_and_the_csv_show_what_was_measured(browser):
    for name, use in {"less": {"cpus": 2, "memory_mib": 20}, "more": {"memory_mib": 30}}.items():
        script = Script(seconds=None, on_term=0, **use)
        await browser.run_measured(f"fit-{name}", script=script, tags=TAGS, parameters={"a": name})
    await browser.run("fit-none", script=FAST, until="SUCCEEDED", tags=TAGS, parameters={"a": "none"})
    path = f"/ui/groups/{await group_id(browser)}"

    page = await browser.open(f"{path}?sort=-memory")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO((await browser.open(f"{path}/csv")).body))}

    assert re.search(r"\d\.\d s of CPU time, of 1 measured job peak memory of a job 30 MiB", page.text)
    cells = [cell.split("<")[0] for cell in page.body.split('data-label="Peak memory">')[1:]]
    assert cells == ["30 MiB", "20 MiB", "not measured"]
    assert page.body.count('data-label="CPU time">not measured<') == 2
    assert float(rows["fit-less"]["cpu seconds"]) > 0
    assert [rows[f"fit-{name}"]["peak memory bytes"] for name in ("less", "more", "none")] == [
        str(20 * 2**20),
        str(30 * 2**20),
        "",
    ]
    assert rows["fit-more"]["cpu seconds"] == ""
