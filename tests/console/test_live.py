"""The stream of notices for open pages."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from batchq.accounts.files import AccessKeyFile, AccountsFile, KeyState
from batchq.api.console import event_stream
from batchq.api.console.refresh import MAX_JOBS, MAX_SESSION_STREAMS
from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import Directory, User
from batchq.domain.enums import Role
from tests.console.conftest import console_of
from tests.console.test_login import visitor_of

MEMORY = {"type": "MEMORY", "value": "64"}
PEOPLE = Directory(users={name: User(name=name) for name in ("ada", "bob")})


class Stream:
    """The stream of one page, as a browser reads it."""

    def __init__(self, answer):
        self._answer = answer

    async def next(self):
        """The next event: a notice, the name of another event, or None at the end."""
        lines = []
        while line := (await self._answer.content.readline()).decode():
            if line == "\n" and lines:
                event = dict(line.split(": ", 1) for line in lines if ": " in line)
                if "data" in event:
                    return json.loads(event["data"])
                if "event" in event:
                    return event["event"]
                lines = []
            elif line.startswith(":"):
                return "comment"
            else:
                lines.append(line.rstrip("\n").removesuffix(":"))
        return None

    async def of_job(self, job_id):
        """The next notice that names the job."""
        while job_id not in (notice := await self.next())["jobs"]:
            pass
        return notice


@asynccontextmanager
async def stream_of(browser, path="/ui/live", **headers):
    async with aiohttp.ClientSession() as session, session.get(browser.url + path, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        yield Stream(answer)


@pytest.fixture
async def visitor(tmp_path):
    """A visitor of a server with two users who do not see each other's jobs."""
    async with visitor_of(tmp_path / "data", PEOPLE) as visitor:
        yield visitor


async def submit_as(visitor, user):
    container = {"image": "busybox", "resourceRequirements": [{"type": "VCPU", "value": "1"}, MEMORY]}
    definition = {"jobDefinitionName": user, "type": "container", "containerProperties": container}
    await visitor.call("registerjobdefinition", definition, user=user)
    job = {"jobName": "job", "jobQueue": "default", "jobDefinition": user}
    return (await visitor.call("submitjob", job, user=user))["jobId"]


async def number_of(browser):
    return int((await browser.open("/ui/")).body.split('data-number="')[1].split('"')[0])


async def test_a_change_sends_a_hint_with_the_queue_and_the_job_but_no_content(browser):
    async with stream_of(browser) as stream:
        job_id = await browser.submit("secret-name")
        notice = await stream.of_job(job_id)
    assert notice.keys() <= {"n", "queues", "jobs", "fetchInterval"}
    assert notice["queues"] == ["default"]


async def test_a_hint_names_at_most_fifty_jobs(browser):
    async with stream_of(browser) as stream:
        parent = await browser.submit(arrayProperties={"size": 200})
        notices = []
        while not notices or "more" not in notices[-1]:
            notices.append(await stream.next())
    assert len(notices[-1]["jobs"]) == MAX_JOBS
    assert any(job_id.startswith(parent) for job_id in notices[-1]["jobs"])


async def test_a_page_that_is_older_than_the_newest_change_gets_a_hint_that_concerns_all(browser):
    before = await number_of(browser)
    await browser.submit()
    async with stream_of(browser, f"/ui/live?after={before}") as stream:
        notice = await stream.next()
    assert notice["n"] > before
    assert "queues" not in notice


@pytest.mark.fault("SE74")
async def test_a_last_hint_that_is_not_a_number_is_ignored(browser):
    """A browser sends it again with each connection, so a refusal would end its updates."""
    async with stream_of(browser, "/ui/live", **{"Last-Event-ID": "1" * 5000}) as stream:
        job_id = await browser.submit()
        await stream.of_job(job_id)


async def test_a_browser_that_connects_again_names_the_last_hint(browser):
    await browser.run(until="SUCCEEDED", script=Script(seconds=0))
    newest = await number_of(browser)
    async with stream_of(browser, "/ui/live?after=0", **{"Last-Event-ID": str(newest)}) as stream:
        job_id = await browser.submit()
        assert job_id in (await stream.next())["jobs"]


async def test_a_session_has_three_streams(browser):
    streams = [stream_of(browser) for _ in range(MAX_SESSION_STREAMS)]
    for stream in streams:
        await stream.__aenter__()
    await browser.open("/ui/live", status=503)
    for other_stream in streams:
        await other_stream.__aexit__(None, None, None)


async def test_a_stream_whose_client_disconnected_does_not_count(browser):
    for _ in range(MAX_SESSION_STREAMS + 1):
        async with stream_of(browser):
            pass


async def test_an_idle_stream_sends_comments(browser, monkeypatch):
    monkeypatch.setattr(event_stream, "CHECK_INTERVAL", 0.05)
    async with stream_of(browser) as stream:
        assert await stream.next() == "comment"
        assert await stream.next() == "comment"


async def test_a_shutdown_ends_the_streams_at_once(tmp_path):
    async with asyncio.timeout(10):
        async with console_of(tmp_path / "data") as browser:
            opened = stream_of(browser)
            stream = await opened.__aenter__()
        assert [await stream.next(), await stream.next()] == ["bye", None]
        await opened.__aexit__(None, None, None)


async def test_a_stream_without_a_session_is_refused(visitor):
    await visitor.open("/ui/live", status=401, Sec_Fetch_Mode="cors")


async def test_a_user_gets_hints_of_visible_jobs_only(visitor):
    await visitor.log_in("ada")
    async with stream_of(visitor, Cookie=visitor.cookie) as stream:
        hidden = await submit_as(visitor, "bob")
        own = await submit_as(visitor, "ada")
        notices = [await stream.next()]
        while own not in notices[-1]["jobs"]:
            notices.append(await stream.next())
    assert not any(hidden in notice["jobs"] for notice in notices)


async def test_a_stream_ends_after_its_key_was_disabled(visitor, monkeypatch):
    monkeypatch.setattr(event_stream, "CHECK_INTERVAL", 0.05)
    await visitor.log_in("ada")
    async with stream_of(visitor, Cookie=visitor.cookie) as stream:
        assert await stream.next() == "comment"
        AccessKeyFile(visitor.data).set_state(visitor.keys["ada"].id, KeyState.DISABLED)
        while await stream.next() is not None:
            pass


async def test_a_stream_ends_after_its_user_sees_other_jobs(visitor, monkeypatch):
    monkeypatch.setattr(event_stream, "CHECK_INTERVAL", 0.05)
    await visitor.log_in("ada")
    async with stream_of(visitor, Cookie=visitor.cookie) as stream:
        assert await stream.next() == "comment"
        operator = User(name="ada", role=Role.OPERATOR)
        AccountsFile(visitor.data).change(lambda old: Directory(users={**old.users, "ada": operator}))
        while await stream.next() is not None:
            pass


async def test_two_users_never_share_the_live_part_of_a_page(visitor):
    job_id = await submit_as(visitor, "ada")
    await visitor.log_in("ada")
    own = await visitor.open("/ui/jobs", X_Fragment="live")
    visitor.cookie = None
    await visitor.log_in("bob")
    other = await visitor.open("/ui/jobs", X_Fragment="live")
    assert (job_id in own.body, job_id in other.body) == (True, False)
