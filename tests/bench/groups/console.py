"""The duration of the console's pages with a million finished jobs, and what people cost who watch them."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiohttp import ClientSession

from tests.bench.figures import Figure, Scale
from tests.bench.groups.events import busy_server
from tests.bench.groups.pages import Page, durations, large_server
from tests.bench.readers import costs
from tests.bench.services import QUEUE
from tests.bench.wire import Caller
from tests.service.waiting import container
from tests.store.many import GROUP, GROUP_NAME, id_of
from tests.support.service import PATIENCE

#: The pages that are watched, each with the least seconds between two refreshes, as the pages state them.
VIEWS = (
    ("/ui/", 5),
    ("/ui/jobs", 2),
    (f"/ui/jobs?queue={QUEUE}", 2),
    ("/ui/jobs?state=RUNNING", 2),
    ("/ui/jobs?state=RUNNABLE", 2),
    ("/ui/jobs?state=FAILED", 2),
    ("/ui/jobs?name=job-1*", 2),
    ("/ui/queues", 5),
    (f"/ui/queues/{QUEUE}", 5),
    ("/ui/environments", 5),
)
FRAGMENT = {"X-Fragment": "live"}


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with large_server(scale, folder / "many") as (call, middle):
        array = _array(call, scale.array)
        yield from durations(scale, pages(call, scale, middle=middle, array=array))
    with busy_server(folder / "data") as service:
        yield from costs(service, scale, _watch, f"watchers of {len(VIEWS)} pages")


def pages(call: Caller, scale: Scale, *, middle: int, array: str) -> Mapping[str, tuple[Page, float]]:
    """The pages by name, each with its goal in milliseconds. `middle`: a position in the log of the first job."""
    log = f"/ui/jobs/{id_of(0)}/log"
    return {
        "the page overview": (lambda _: call.get("/ui/"), 10),
        "the page of all jobs": (lambda _: call.get("/ui/jobs"), 20),
        "the page of a status": (lambda _: call.get("/ui/jobs?state=SUCCEEDED"), 20),
        "the page of a job": (lambda number: call.get(f"/ui/jobs/{id_of(number * 7919 % scale.many)}"), 20),
        "the page of a name that no job has": (lambda _: call.get("/ui/jobs?name=*rare*"), 50),
        f"the grid of {scale.array:,} children": (lambda _: call.get(f"/ui/jobs/{array}/children"), 50),
        f"the row of a group of {scale.swept:,} jobs": (lambda _: call("batchq/listgroups", groupName=GROUP_NAME), 5),
        f"the page of a group of {scale.swept:,} jobs": (lambda _: call.get(f"/ui/groups/{GROUP}"), 50),
        f"the page of a log of {scale.log_mib:,} MiB": (lambda _: call.get(log), 50),
        f"the page in the middle of a log of {scale.log_mib:,} MiB": (
            lambda _: call.get(f"{log}?attempt=1&at={middle}"),
            50,
        ),
    }


def _array(call: Caller, size: int) -> str:
    """The id of an array whose children wait."""
    call("registerjobdefinition", jobDefinitionName="true", type="container", containerProperties=container("true"))
    job = call("submitjob", jobName="array", jobQueue="empty", jobDefinition="true", arrayProperties={"size": size})
    end = time.monotonic() + PATIENCE
    while sum(call("describejobs", jobs=[job["jobId"]])["jobs"][0]["arrayProperties"]["statusSummary"].values()) < size:
        assert time.monotonic() < end, "children are not created"
        time.sleep(0.1)
    return job["jobId"]


async def _watch(session: ClientSession, number: int) -> None:
    """Behave as a page with its script: a stream of hints, and a refresh after a hint, not more often than allowed."""
    path, interval = VIEWS[number % len(VIEWS)]
    due, tag = 0.0, ""
    while True:
        async with session.get("/ui/live") as stream:
            if stream.status == 503:  # no more streams: the page polls
                await asyncio.sleep(5)
                tag = await _refresh(session, path, tag)
                continue
            async for line in stream.content:
                if not line.startswith(b"data:"):
                    continue
                hint = json.loads(line.removeprefix(b"data:"))
                await asyncio.sleep(due - time.monotonic())
                tag = await _refresh(session, path, tag)
                due = time.monotonic() + max(interval, hint.get("calm", 0))


async def _refresh(session: ClientSession, path: str, tag: str) -> str:
    """Load the live part of a page if it has changed since it had this ETag. Returns its ETag."""
    async with session.get(path, headers=FRAGMENT | ({"If-None-Match": tag} if tag else {})) as answer:
        body = await answer.read()
    assert answer.status in (200, 304), body
    return answer.headers["ETag"]
