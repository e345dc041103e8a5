"""The pages of the overview, capacity, accounts, audit, events and the server."""

import json
import re

import pytest
from msgspec.structs import replace

from batchq.accounts.files import AccessKeyFile, AccountsFile, new_key
from batchq.api.console import capacity_pages, record_pages
from batchq.api.console.capacity_pages import MAX_MACHINES
from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import Directory, User
from batchq.domain.container import Resources
from batchq.domain.enums import Role
from batchq.domain.machines import Machine
from batchq.engine.engine import Engine
from batchq.engine.scheduler_state import Health
from batchq.logs.quota import LogQuota
from batchq.settings import Auth
from batchq.system.clock import wall_time
from tests.console.conftest import console_of
from tests.console.test_login import visitor_of
from tests.console.world import HOSTILE
from tests.roles.people import PEOPLE
from tests.service.job_queue import ENDLESS
from tests.support.builders import NOON


async def licences(browser, name="licence-x", total=2):
    await browser.call("createconsumableresource", {"consumableResourceName": name, "totalQuantity": total})


def need(quantity, name="licence-x"):
    needs = [{"consumableResource": name, "quantity": quantity}]
    return {"consumableResourcePropertiesOverride": {"consumableResourceList": needs}}


# ------------------------------------------------------------------------------------------------------------ capacity
async def test_the_overview_shows_queues_capacity_and_what_runs(browser):
    job_id = await browser.run("train-17", command=["sleep", "60"], script=None)
    page = await browser.open("/ui/")
    assert "Jobs start as soon as there is capacity for them." in page.text
    assert {"queue-default", "environment-local", f"job-{job_id}"} <= set(page.page.ids)
    assert f"/ui/jobs/{job_id}" in page.page.links


async def test_an_environment_shows_its_jobs_and_queues(browser):
    job_id = await browser.run("train-1")
    page = await browser.open("/ui/environments")
    assert {"environment-local", f"job-{job_id}"} <= set(page.page.ids)
    assert re.search(r"1 of \d+ requested Queues default", page.text)


async def test_the_machines_of_the_engine_have_their_room_and_links_to_their_jobs(browser):
    job_id = await browser.run("train-1")
    page = await browser.open("/ui/environments")
    assert "machine-local" in page.page.ids
    assert f"/ui/jobs/{job_id}" in page.page.links
    assert re.search(r"local READY 1 of \d+ 64 MiB of \S+ [MG]iB 1: train-1", page.text)


async def test_several_machines_show_what_is_closed_first_and_continue_on_the_next_page(browser, monkeypatch):
    size = Resources(millicpus=4000, memory_mib=2048, gpus=2)
    machines = [Machine(name=f"n{number:02}", resources=size, is_enforced=True) for number in range(MAX_MACHINES)]
    away = replace(machines[0], name="z1", environment="local", is_cordoned=True, away_since=NOON)
    listed = (*machines, away, replace(machines[0], name="z2", is_cordoned=True))
    monkeypatch.setattr(Engine, "machines", lambda _: listed)

    page = await browser.open("/ui/environments")

    rows = [identifier for identifier in page.page.ids if identifier.startswith("machine-")]
    assert (rows[:3], len(rows)) == (["machine-z1", "machine-z2", "machine-n00"], MAX_MACHINES)
    assert re.search(r"z1 only local AWAY for .* 0 of 4 0 MiB of 2 GiB 0 of 2 0 z2 CORDONED", page.text)
    (after,) = [link for link in page.page.links if "after=" in link]
    rest = await browser.open(after)
    assert [identifier for identifier in rest.page.ids if identifier.startswith("machine-")] == [
        "machine-n48",
        "machine-n49",
    ]
    assert "no further machine" in (await browser.open("/ui/environments?after=2%20zz")).text
    await browser.open("/ui/environments?after=zz", status=400)


async def test_a_consumable_resource_shows_who_holds_it_and_who_waits(browser):
    await licences(browser)
    holder = await browser.run("holds-1", **need(2))
    waiter = await browser.run("waits-1", **need(1), script=None, until="RUNNABLE")
    assert "licence-x REPLENISHABLE 2 2 0" in (await browser.open("/ui/resources")).text
    page = await browser.open("/ui/resources/licence-x")
    assert {f"job-{holder}", f"job-{waiter}"} <= set(page.page.ids)
    assert "licence-x" in page.text.partition("RUNNABLE jobs")[2]


async def test_resources_are_listed_in_pages(browser, monkeypatch):
    monkeypatch.setattr(capacity_pages, "MAX_RESOURCES", 3)
    for number in range(4):
        await licences(browser, f"r{number:03}")
    page = await browser.open("/ui/resources")
    assert "/ui/resources?after=r002" in page.page.links
    assert "resource-r003" in (await browser.open("/ui/resources?after=r002")).page.ids
    assert "There are no further consumable resources." in (await browser.open("/ui/resources?after=z")).text


# ------------------------------------------------------------------------------------------------------------ accounts
@pytest.fixture
async def staffed(tmp_path):
    """A server with the users of the tests of roles, and the caller as its admin."""
    (tmp_path / "data").mkdir(mode=0o700)
    AccountsFile(tmp_path / "data").change(lambda _: PEOPLE)
    async with console_of(tmp_path / "data") as browser:
        yield browser


async def test_accounts_are_shown_as_a_tree_with_their_users(staffed):
    page = await staffed.open("/ui/accounts")
    assert "root / lab / team none 0 0 0 those of its parent" in page.text
    assert "cora lab USER lab" in page.text
    assert "There are no access keys." in page.text


async def test_a_user_sees_only_the_own_user_and_keys(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    AccountsFile(data).change(lambda _: PEOPLE)
    keys = {name: new_key(name, wall_time()) for name in ("ada", "bob")}
    for key in keys.values():
        AccessKeyFile(data).add(key)
    async with console_of(data, auth=Auth.SIGV4) as browser:
        login = await browser.post("/ui/login", {"key_id": keys["ada"].id, "secret": keys["ada"].secret})
        page = await browser.open("/ui/accounts", Cookie=login.headers["Set-Cookie"].partition(";")[0])
    assert [identifier for identifier in page.page.ids if identifier.startswith(("user-", "account-", "key-"))] == [
        "user-ada",
        f"key-{keys['ada'].id}",
    ]
    assert keys["ada"].secret not in page.body


# --------------------------------------------------------------------------------------------------------------- audit
async def test_the_audit_log_is_filtered_by_job_and_operation(browser):
    job_id = await browser.submit("train-1", script=ENDLESS)
    await browser.call("terminatejob", {"jobId": job_id, "reason": "a test"})
    page = await browser.open(f"/ui/audit?job={job_id}")
    operations = [word for word in page.page.words if word.endswith(("tJob", "eJob", "Definition"))]
    assert operations == ["TerminateJob", "SubmitJob"]
    page = await browser.open("/ui/audit?operation=SubmitJob&since=1h")
    assert page.text.partition("Outcome")[2].count("SubmitJob") == 1


async def test_the_audit_log_is_read_in_pages(browser, monkeypatch):
    monkeypatch.setattr(record_pages, "PER_PAGE", 3)
    for number in range(4):
        await licences(browser, f"r{number:03}")
    page = await browser.open("/ui/audit?operation=CreateConsumableResource")
    (older,) = [link for link in page.page.links if "page=" in link]
    rest = await browser.open(older)
    assert (page.text.count("-resource/"), rest.text.count("-resource/")) == (3, 1)


# -------------------------------------------------------------------------------------------------------------- events
async def test_events_are_shown_newest_first_and_filtered(browser):
    job_id = await browser.run("train-1")
    await browser.call("terminatejob", {"jobId": job_id, "reason": HOSTILE[:500]})
    await browser.wait_for(job_id, "FAILED")
    page = await browser.open(f"/ui/events?job={job_id}")
    numbers = [
        int(identifier.removeprefix("event-")) for identifier in page.page.ids if identifier.startswith("event-")
    ]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) >= 4
    assert "<script>window" not in page.body
    failed = await browser.open("/ui/events?state=FAILED&queue=default")
    assert [identifier for identifier in failed.page.ids if identifier.startswith("event-")] == [f"event-{numbers[0]}"]


async def test_older_events_are_on_the_next_page(browser, monkeypatch):
    monkeypatch.setattr(record_pages, "PER_PAGE", 10)
    jobs = [await browser.submit(f"short-{number}", script=Script(seconds=0)) for number in range(3)]
    await browser.wait_for(jobs[-1], "SUCCEEDED")
    page = await browser.open("/ui/events")
    (older,) = [link for link in page.page.links if "before=" in link]
    rest = await browser.open(older)
    shown = [identifier for seen in (page, rest) for identifier in seen.page.ids if identifier.startswith("event-")]
    assert len([identifier for identifier in page.page.ids if identifier.startswith("event-")]) == 10
    assert shown[-1] == "event-1"
    assert len(set(shown)) == len(shown)
    assert "There are no older events." in (await browser.open("/ui/events?before=1")).text


async def test_equal_rows_of_children_and_of_submissions_become_one(browser):
    array = await browser.submit("sweep", script=ENDLESS, arrayProperties={"size": 40})
    await browser.wait_for(f"{array}:1", "RUNNING")
    job = {"jobQueue": "default", "jobDefinition": "simple"}
    others = [(await browser.call("submitjob", job | {"jobName": f"short-{index}"}))["jobId"] for index in range(3)]
    await browser.call("terminatejob", {"jobId": others[0], "reason": "enough of it"})

    events = await browser.open(f"/ui/events?job={array}&state=RUNNABLE")
    environments = await browser.open("/ui/environments")
    audit = await browser.open("/ui/audit")

    assert "sweep : 40 children, 0 to 39" in events.text
    assert re.search(r"sweep : \d+ children ▶ RUNNING", environments.text)
    assert f"/ui/jobs/{array}/children?state=RUNNING" in environments.page.links
    assert "SubmitJob 4 jobs short-2" in re.sub(r" [0-9a-f]{8} ", " ", audit.text)
    assert {f"/ui/jobs/{job_id}" for job_id in others} <= set(audit.page.links)
    assert re.search(r"TerminateJob short-0 \w+ \w+ enough of it", audit.text)


# -------------------------------------------------------------------------------------------------------------- system
async def test_the_system_page_shows_health_and_settings_without_files_of_secrets(browser):
    page = await browser.open("/ui/system")
    assert "is ok. Jobs start as soon as there is capacity for them." in page.text
    assert "Container engine ok" in page.text
    assert "Retention days 30" in page.text
    assert not {"False", "--survey-every", "30.0"} & set(page.page.words)
    assert re.search(
        r"Running for \d+ s, since .* Containers simulated Jobs 0 running, 0 waiting Disk .* free", page.text
    )
    assert re.search(r"Schema version \d+ Instance \w+ Health Database ok", page.text)
    assert re.search(r"(\d+) of \1 background loops ok", page.text)
    assert "secrets" not in page.text
    assert "What to do" not in page.text


async def test_the_system_page_says_what_to_do_about_a_failure(browser, monkeypatch):
    monkeypatch.setattr(LogQuota, "trouble", "the log of a job is full")
    page = await browser.open("/ui/system")
    assert "Capture of logs the log of a job is full" in page.text
    assert "What to do warning : the log of a job is full. Raise serve --log-mib" in page.text


# -------------------------------------------------------------------------------------------------------------- errors
SECRET = "pull of registry.labb.example/secret failed: /run/docker.sock"
STAFF = Directory(users={"eve": User(name="eve"), "oda": User(name="oda", role=Role.OPERATOR)})
HIDDEN = {
    "engine": (Health(store=None, engine=SECRET, safe_mode=None, loops={}), "The container engine is not available"),
    "store": (Health(store=SECRET, engine=None, safe_mode=None, loops={}), "A part of the server fails"),
    "loop": (Health(store=None, engine=None, safe_mode=None, loops={"pulls": SECRET}), "A part of the server fails"),
}


@pytest.mark.fault("SE76")
@pytest.mark.parametrize("part", HIDDEN)
async def test_only_operators_read_the_errors_of_the_server(tmp_path, monkeypatch, part):
    health, sentence = HIDDEN[part]
    async with visitor_of(tmp_path / "data", STAFF) as visitor:
        monkeypatch.setattr(Engine, "health", lambda _: health)
        for user in ("eve", "oda"):
            visitor.cookie = None
            await visitor.log_in(user)
            shown = [(await visitor.open(f"/ui/{path}")).text for path in ("", "jobs", "system")]
            shown.append(json.dumps(await visitor.call("batchq/overview", {}, user=user)))
            assert [SECRET in text for text in shown] == [user == "oda"] * 4
            assert [sentence in text for text in shown] == [user == "eve"] * 4


@pytest.mark.fault("SE76")
async def test_a_signed_health_report_describes_failures_to_operators_only(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Engine, "health", lambda _: Health(store=None, engine=SECRET, safe_mode=None, loops={"a": SECRET})
    )
    async with visitor_of(tmp_path / "data", STAFF) as visitor:
        shown = {user: await visitor.get("/healthz", user=user) for user in STAFF.users}
    assert (shown["eve"]["engine"], shown["eve"]["loops"]) == ("failing", {"a": "failing"})
    assert (shown["oda"]["engine"], shown["oda"]["loops"]) == (SECRET, {"a": SECRET})


async def test_the_system_page_says_whether_jobs_are_measured(browser):
    assert "CPU time and memory of jobs" not in (await browser.open("/ui/system")).text

    await browser.run()
    while "CPU time and memory of jobs" not in (shown := (await browser.open("/ui/system")).text):
        pass
    assert "CPU time and memory of jobs not measured here" in shown
