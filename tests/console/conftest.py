"""A whole server in the process of the test, with simulated containers, and a browser without a screen or a script."""

import re
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from batchq.compute.simulated.script import script_variable
from batchq.engine import history_feed, mailbox
from batchq.server import bootstrap
from batchq.settings import Runtime, Settings
from tests.service.job_queue import ENDLESS
from tests.support.inline import TMPFS

VOID = {"link", "meta", "input", "rect", "path", "br", "hr", "img", "circle", "line"}


class Text(HTMLParser):
    """The text of a page as a reader sees it, with its ids, links and unclosed elements."""

    def __init__(self, body):
        super().__init__()
        self.words, self.ids, self.links, self.open = [], [], [], []
        self.feed(body)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if tag == "a" else []
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.words += data.split() if self.open[-1:] not in (["style"], ["script"], ["title"]) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSeen:
    status: int
    headers: object
    body: str
    page: Text = field(repr=False)

    @property
    def text(self):
        return " ".join(self.page.words)


def form_in(page, **fields):
    """The hidden fields of a page as pairs, with these fields."""
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.body)
    return [*((name, unescape(value)) for name, value in hidden), *fields.items()]


class Browser:
    """Loads pages and submits forms as a browser does, and checks that each page is well-formed with unique ids."""

    def __init__(self, session, url, data):
        self._session = session
        self.url = url
        #: The folder of the server's data.
        self.data = data
        #: The image of the newest revision of the definition `simple`.
        self._image = None

    async def open(self, path, *, status=200, **headers):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.get(URL(self.url + path, encoded=True), headers=sent, allow_redirects=False) as answer:
            return await self._seen(answer, status)

    async def post(self, path, form, *, status=303, **headers):
        """Submit a form. `form`: a mapping, or pairs."""
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self.url + path, encoded=True)
        async with self._session.post(url, data=form, headers=sent, allow_redirects=False) as answer:
            return await self._seen(answer, status)

    async def call(self, operation, content):
        """Send a request of AWS's API or of batchq's own, and return the answer."""
        async with self._session.post(f"{self.url}/v1/{operation}", json=content) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def submit(self, name="a-job", *, image="busybox", command=("true",), script=None, **members):
        """Submit a job of the definition `simple`; returns its id. Another image makes another revision.

        `script`: of its simulated containers.
        """
        if self._image != image:
            await self._define(image)
        job = {"jobName": name, "jobQueue": "default", "jobDefinition": "simple"}
        variables = [] if script is None else [script_variable(script)]
        environment = [{"name": key, "value": value} for key, value in variables]
        override = {"containerOverrides": {"command": list(command), "environment": environment}}
        return (await self.call("submitjob", job | override | members))["jobId"]

    async def _define(self, image):
        needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
        properties = {"image": image, "resourceRequirements": needs}
        definition = {"jobDefinitionName": "simple", "type": "container", "containerProperties": properties}
        await self.call("registerjobdefinition", definition)
        self._image = image

    async def run(self, name="a-job", *, until="RUNNING", script=ENDLESS, **members):
        """Submit a job, and wait until it has entered the status; returns its id."""
        job_id = await self.submit(name, script=script, **members)
        await self.wait_for(job_id, until)
        return job_id

    async def run_measured(self, name="a-job", *, script, **members):
        """Run a job, which `script` does not end, until its use was measured; returns its id."""
        job_id = await self.run(name, script=script, **members)
        await self.end_measured(job_id)
        return job_id

    async def end_measured(self, job_id):
        """Wait until the use of a running job was measured, and terminate the job."""
        while 'data-label="Used">not measured<' in (await self.open(f"/ui/jobs/{job_id}")).body:
            pass
        await self.call("terminatejob", {"jobId": job_id, "reason": "measured"})
        await self.wait_for(job_id, "FAILED")

    async def submit_waiting(self, name="waits", **members):
        """Submit a job that waits for another one, which runs; returns its id."""
        return await self.submit(name, dependsOn=[{"jobId": await self.run("first")}], **members)

    async def kill_all(self):
        """Kill the containers of all jobs, and end the jobs that wait."""
        order = {"jobQueues": ["default"], "reason": "the end of a test", "force": True}
        async with self._session.post(f"{self.url}/v1/batchq/terminatejobs", json=order) as answer:
            assert answer.ok, await answer.text()
            await answer.read()

    async def describe(self, path):
        """The job of an id, or of the path of its page, as DescribeJobs returns it."""
        return (await self.call("describejobs", {"jobs": [path.rpartition("/")[2]]}))["jobs"][0]

    async def form(self, path, **fields):
        return form_in(await self.open(path), **fields)

    async def wait_for(self, job_id, status):
        """Wait until the job has entered the status. The events of an array are also those of its children."""
        after, entered = 0, set()
        while job_id not in entered:
            query = {"jobs": job_id, "jobStatuses": status, "after": after, "wait": "20"}
            async with self._session.get(f"{self.url}/v1/batchq/events", params=query) as answer:
                page = await answer.json()
            assert page["events"], f"{job_id} has not become {status}"
            after, entered = page["next"], {event["jobId"] for event in page["events"]}

    async def next_event(self, job_id, after):
        """Wait for an event of the job with a number above `after`; returns its number."""
        query = {"jobs": job_id, "after": after, "wait": "20", "limit": 1}
        async with self._session.get(f"{self.url}/v1/batchq/events", params=query) as answer:
            page = await answer.json()
        assert page["events"], f"{job_id} has not changed"
        return page["next"]

    async def _seen(self, answer, status):
        body = await answer.text()
        assert answer.status == status, re.sub(r"\s+", " ", body)[-2000:]
        page = Text(body if answer.content_type == "text/html" else "")
        assert page.open == [], "elements that are not closed"
        assert len(set(page.ids)) == len(page.ids), "an id occurs twice"
        return PageSeen(status=answer.status, headers=answer.headers, body=body, page=page)


@asynccontextmanager
async def console_of(data, **settings):
    """A server on `data`, and a browser that is at its pages.

    The server does not collect changes before it saves and publishes them: a single browser would wait each time.
    It reserves no disk space: the data are in memory.
    """
    given = Settings(data=data, port=0, runtime=Runtime.SIMULATED, **settings)
    async with AsyncExitStack() as stack:
        for module, name in ((mailbox, "LOW_PRIORITY_DELAY"), (history_feed, "PAUSE"), (bootstrap, "RESERVE")):
            stack.enter_context(patch.object(module, name, 0))
        ready = await stack.enter_async_context(bootstrap.serving(given))
        yield Browser(await stack.enter_async_context(aiohttp.ClientSession()), ready.urls[0], data)


@pytest.fixture
def tmp_path():
    """A folder in memory, where there is a tmpfs: no commit of a server's database waits for the disk."""
    with TemporaryDirectory(prefix="batchq-", dir=TMPFS) as folder:
        yield Path(folder)


@pytest.fixture
async def own_browser(tmp_path):
    """A browser at a server that no other test uses."""
    async with console_of(tmp_path / "data") as browser:
        yield browser


@pytest.fixture
def browser(own_browser):
    """A module whose tests are about their own jobs overrides it by `shared_browser`."""
    return own_browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server():
    """A server takes 35 ms of CPU, as much as a test of several pages."""
    with TemporaryDirectory(prefix="batchq-", dir=TMPFS) as folder:
        async with console_of(Path(folder) / "data") as browser:
            yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def shared_browser(shared_server):
    """A browser at a server that other tests of the module use too. No job outlives its test: jobs need vCPUs."""
    yield shared_server
    await shared_server.kill_all()


def pytest_collection_modifyitems(items):
    """A test runs in the event loop of the server that it shares."""
    for item in items:
        if any(name.startswith("shared_") for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
