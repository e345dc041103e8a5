"""The largest answer of each page that a user can construct: its bytes, and how long it holds the event loop.

The loop's time is CPU time of its thread between two of its iterations, so other load on the machine does not count. A
page holds the loop for a few milliseconds at a time; the bound is far above, and what the bound found was far above it.
"""

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from functools import partial
from time import thread_time
from urllib.request import Request, urlopen

import pytest

from batchq.compute.simulated.script import Script
from batchq.domain.ids import JobId, Tag
from batchq.ports.logs import LogLine
from batchq.store.log_files import LogFiles

MAX_BYTES = 8 * 2**20  # of any page, before compression
MAX_HELD = 0.1  # seconds of CPU

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
            urls = [browser.url + it for it in paths]
            bodies = await asyncio.gather(*(loop.run_in_executor(clients, partial(load, it, **headers)) for it in urls))
    return bodies, longest[0]


async def check(browser, *paths, **headers):
    bodies, held = await measured(browser, *paths, **headers)
    assert max(map(len, bodies)) < MAX_BYTES
    assert held < MAX_HELD
    return bodies


async def job_with_log(browser, data, lines):
    """The id of a job that has ended, whose stored log has these lines."""
    job_id = await browser.run(until="SUCCEEDED", script=Script(seconds=0))
    with closing(LogFiles(data / "logs")) as files:
        stored = [LogLine(at=10**18 + number, message=it) for number, it in enumerate(lines)]
        await files.append(Tag(job_id=JobId(job_id), attempt=1).log_id, stored)
    return job_id


@pytest.mark.parametrize("kind", LOGS)
async def test_no_output_of_a_job_makes_a_page_large_or_holds_the_loop(browser, tmp_path, kind):
    job_id = await job_with_log(browser, tmp_path / "data", LOGS[kind])
    path = f"/ui/jobs/{job_id}"
    await check(browser, path)
    for query in ("tail=2000", "after=1.0&limit=2000&times=local", "q=hit", "q=a", "at=0&limit=2000"):
        await check(browser, f"{path}/log?{query}")
    await check(browser, f"{path}/log?after=1.0&wait=0", **{"X-Fragment": "lines"})


async def test_many_logs_of_one_user_at_once_do_not_hold_the_loop(browser, tmp_path):
    job_id = await job_with_log(browser, tmp_path / "data", LOGS["colours"])
    await check(browser, *[f"/ui/jobs/{job_id}/log?tail=2000"] * 12)
