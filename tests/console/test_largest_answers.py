"""The largest answer of each page that a user can construct: its bytes, and how long it holds the event loop.

The loop's time is CPU time of its thread between two of its iterations, so other load on the machine does not count. A
page holds the loop for a few milliseconds at a time; the bound is far above, and what the bound found was far above it.
"""

import asyncio
import gc
import gzip
import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from functools import partial
from time import thread_time
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from batchq.api.console.pages import UI
from batchq.api.console.routes import TABLES
from batchq.compute.simulated.script import Script
from batchq.domain.ids import JobId, Tag
from batchq.ports.logs import LogLine
from batchq.store.log_files import LogFiles

pytestmark = pytest.mark.fault("SE71")
MAX_BYTES = 8 * 2**20  # of any page, before compression
MAX_HELD = 0.1  # seconds of CPU
ATTEMPTS = 3  # a garbage collection, or a processor that others share, lengthens one request; a page lengthens each
MAX_HELD_BYTES = 3 * MAX_BYTES  # for one page: its text, its lines, and what the client has received

LOGS = {
    "colours": ["\x1b[1;2;3;4;7;38;5;46ma\x1b[mb" * 103] * 600,
    "sequences": ["\x1b[m" * 300_000] * 4,
    "short lines": ["\x1b[31ma"] * 2000,
    "quotes": ['"' * 500] * 2000,
    "controls": ["\x80" * 250] * 2000,
    "long lines": ["\x01" * 250_000] * 4,
    "one line": ["\u2028" * 340_000],
    "cursors": ["\x1b[" * 8000] * 64,
    "overwritten": ["\r" + "x\r" * 250_000] * 2,
    "around": [line for _ in range(90) for line in ("x" * 250_000, "hit")],
    "hits around": ["hit" + "'" * 11_000] * 95,
}


@pytest.fixture(autouse=True)
def collections_of_a_server():
    """Collect garbage as often as a server does: a rare collection of many objects holds the loop for longer."""
    rare = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*rare)


def quick(*kinds):
    """All kinds of logs, of which `make check` runs these: the others take seconds, and the same code shows them."""
    return [kind if kind in kinds else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in LOGS]


@asynccontextmanager
async def meter():
    """Yields a list with the longest time for which the loop was held, at its end."""
    longest, is_over = [0.0], False

    async def measure():
        while not is_over:
            began = thread_time()
            await asyncio.sleep(0)
            longest[0] = max(longest[0], thread_time() - began)

    measuring = asyncio.create_task(measure())
    try:
        yield longest
    finally:
        is_over = True
        await measuring


def load(url, **headers):
    """The body of a page, decompressed, and its size on the wire. Runs in a thread, beside the loop of the server."""
    request = Request(url, headers={"Accept-Encoding": "gzip"} | headers)
    with urlopen(request, timeout=60) as answer:
        body = answer.read()
        is_compressed = answer.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(body) if is_compressed else body


async def measured(browser, *paths, **headers):
    """The bodies of these pages, requested at the same time, and the longest time for which the loop was held."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(paths)) as clients:  # the server uses the threads of the loop
        async with meter() as longest:
            urls = [browser.url + path for path in paths]
            bodies = await asyncio.gather(
                *(loop.run_in_executor(clients, partial(load, url, **headers)) for url in urls)
            )
    return bodies, longest[0]


async def check(browser, *paths, **headers):
    held = []
    while len(held) < ATTEMPTS and min(held, default=MAX_HELD) >= MAX_HELD:
        bodies, longest = await measured(browser, *paths, **headers)
        assert max(map(len, bodies)) < MAX_BYTES
        held.append(longest)
    assert min(held) < MAX_HELD, paths
    return bodies


async def job_with_log(browser, data, lines):
    """The id of a job that has ended, whose stored log has these lines."""
    job_id = await browser.run(until="SUCCEEDED", script=Script(seconds=0))
    with closing(LogFiles(data / "logs")) as files:
        stored = [LogLine(at=10**18 + number, message=line) for number, line in enumerate(lines)]
        await files.append(Tag(job_id=JobId(job_id), attempt=1).log_id, stored)
    return job_id


@pytest.mark.parametrize("kind", quick("cursors"))
async def test_no_output_of_a_job_makes_a_page_large_or_holds_the_loop(browser, tmp_path, kind):
    job_id = await job_with_log(browser, tmp_path / "data", LOGS[kind])
    path = f"/ui/jobs/{job_id}"
    await check(browser, path)
    for query in ("tail=2000", "after=1.0&limit=2000&times=local", "q=hit", "q=a", "at=0&limit=2000"):
        await check(browser, f"{path}/log?{query}")
    await check(browser, f"{path}/log?after=1.0&wait=0", **{"X-Fragment": "lines"})


@pytest.mark.exhaustive  # test_rendering.py proves that one page of a user is rendered at a time
async def test_many_logs_of_one_user_at_once_do_not_hold_the_loop(browser, tmp_path):
    job_id = await job_with_log(browser, tmp_path / "data", LOGS["colours"])
    await check(browser, *[f"/ui/jobs/{job_id}/log?tail=2000"] * 12)


@pytest.mark.parametrize("kind", ["around", pytest.param("hits around", marks=pytest.mark.exhaustive)])
async def test_no_search_holds_many_bytes(browser, tmp_path, kind):
    """Counts the bytes that the server and the client of one page allocate. Lines are cut as they are read."""
    job_id = await job_with_log(browser, tmp_path / "data", LOGS[kind])
    url = f"{browser.url}/ui/jobs/{job_id}/log?q=hit"
    await asyncio.to_thread(load, url)
    tracemalloc.start()
    try:
        await asyncio.to_thread(load, url)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_HELD_BYTES


ARGUMENTS = [f"{number:04}" for number in range(2_900)]  # of a definition just below 24 KiB
SEVERE = "\u202e'\x01"  # characters that pages show escaped
NAME = "n" * 128


async def define(browser, name, **container):
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "4"}]
    properties = {"image": "busybox", "resourceRequirements": needs} | container
    await browser.call(
        "registerjobdefinition", {"jobDefinitionName": name, "type": "container", "containerProperties": properties}
    )


async def submit(browser, definition, **members):
    job = {"jobName": NAME, "jobQueue": "default", "jobDefinition": definition}
    return (await browser.call("submitjob", job | members))["jobId"]


async def largest_definitions(browser):
    """Definitions whose requests are as large as the server accepts; the last ones have two revisions that differ."""
    await define(browser, "text", command=[SEVERE * 1_500])
    await define(browser, "quotes", command=['"' * 12_000])
    await define(browser, "variables", environment=[{"name": f"v{index}", "value": "'"} for index in range(650)])
    await define(browser, "arguments", command=ARGUMENTS)
    await define(browser, "arguments", command=ARGUMENTS[::-1])
    return ["text", "quotes", "variables", "arguments"]


OF_REQUEST = (
    "/definitions",
    "/definitions/{definition}",
    "/definitions/{definition}:1",
    "/definitions/{definition}:1/deregister",
    "/jobs/{job}",
    "/submit?like={job}",
    "/submit?definition={definition}:1",
    "/rerun?job={job}",
)
WORDS = "&".join(f"name={quote(character * 250)}" for character in ("'", '"', "&", "*") * 2)
OF_JOBS = (
    *(
        "/",
        "/jobs",
        "/jobs?grouped=name",
        "/queues",
        "/queues/default",
        "/queues/default/disable",
        "/queues/default/drain",
        "/environments",
        "/resources",
        "/cost",
        "/system",
    ),
    *("/accounts", "/audit", "/events", "/settings", "/keys", "/find?q=nnn", f"/jobs?{WORDS}", f"/stop?{WORDS}"),
    *("/jobs/{job}", "/jobs/{job}/children", "/jobs/{job}/stop", "/jobs/{job}/log", "/jobs/{job}/force-fail"),
    *("/jobs/{job}/hold", "/jobs/{job}/release", "/jobs/{job}/pause", "/jobs/{job}/resume"),
    *("/jobs/{waiting}", "/stop?queue=default", "/groups/{group}", "/groups/{group}/hold", "/groups/{group}/release"),
    *("/webhooks", "/webhooks/new", "/webhooks/{webhook}", "/webhooks/{webhook}/delete"),
)
#: Without an answer that is rendered as a whole, or with that of another page.
OTHERS = {
    "",  # redirects
    "/live",  # a stream
    "/jobs/{job}/log/text",  # a stream
    "/groups/{group}/csv",  # made in a thread
    "/jobs/{job}/children/csv",  # the same
    "/resources/{name}",  # a part of the environments' page: at most 150 jobs
    "/stop/results/{invocation}",  # as the preview
    "/rerun/results/{invocation}",  # at most 100 lines
}


async def test_no_request_makes_a_page_of_its_job_or_definition_large_or_holds_the_loop(browser):
    jobs = {name: await submit(browser, name) for name in await largest_definitions(browser)}
    for name, job_id in jobs.items():
        await browser.wait_for(job_id, "SUCCEEDED")
        for path in OF_REQUEST:
            await check(browser, "/ui" + path.format(definition=name, job=job_id))
    await check(browser, "/ui/definitions/arguments:2?with=1")


async def test_no_number_of_jobs_makes_a_page_large_or_holds_the_loop(browser):
    await define(browser, "any")
    array = await submit(browser, "any", arrayProperties={"size": 10_000})
    values = {f"value{number}": SEVERE * 30 for number in range(40)}
    grouped = {"tags": {"batchq:group": NAME}, "parameters": values}
    waiting = [await submit(browser, "any", dependsOn=[{"jobId": array}], **grouped) for _ in range(120)]
    (group,) = (await browser.call("batchq/listgroups", {}))["groups"]
    await submit(browser, "any", dependsOn=[{"jobId": job_id} for job_id in waiting[:20]])
    names = {member: [SEVERE * 80] * 50 for member in ("groupNames", "jobNames", "users", "accounts")}
    hook = {"webhookName": "hook", "url": "https://hooks.example.com/"}
    made = await browser.call("batchq/createwebhook", hook | names)
    ids = {"group": group["groupId"], "webhook": made["webhook"]["webhookId"]}
    for path in OF_JOBS:
        await check(browser, "/ui" + path.format(job=array, waiting=waiting[0], **ids))


def test_each_page_is_measured():
    routes = {
        re.sub(r":[^{}]*(\{[^{}]*\})?\}", "}", operation.path.removeprefix(UI))
        for table in TABLES
        for operation in table.operations
        if operation.method == "GET"
    }
    pages = {route for route in routes - OTHERS if "{node}" not in route}  # the page of a node is that of a job
    patterns = {page: re.sub(r"\{\w+\}", "[^/]+", page) for page in pages}
    requested = [job.partition("?")[0] for job in (*OF_REQUEST, *OF_JOBS)]
    assert {page for page in pages if not any(re.fullmatch(patterns[page], each) for each in requested)} == set()
