"""Makes the pictures of the console in `docs`, `console*.png`: `python -m tests.docs.picture`.

The pages are real: a server with simulated containers, whose clock is set ahead between two groups of submissions. Its
activity of the last 24 hours is written before it starts.
"""

import asyncio
import itertools
import math
import tempfile
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import boto3
from playwright.sync_api import sync_playwright

from batchq.compute.simulated.script import Script
from batchq.domain.activity import FINE, ActivityKey, ActivityLoad, ActivitySample, EndedAs
from batchq.domain.container import Resources
from batchq.engine import activity
from batchq.ports.activity import ActivityEvents
from batchq.server import bootstrap
from batchq.settings import Runtime, Settings
from batchq.store.sqlite_store import SqliteStore
from batchq.system.clock import SystemClock, wall_time
from tests.console.browser.visitor import chromium_path
from tests.console.world import Submitter
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
SIZE = {"width": 1100, "height": 900}
DAY, AHEAD = timedelta(days=1), timedelta(hours=9)
DOWN = 14.0, 15.0  # hours of the day in which the server did not run
SUCCEEDS = Script(seconds=0)
FAILS, LACKS_MEMORY = Script(seconds=0, exit_code=1), Script(seconds=0, exit_code=137, out_of_memory=True)


class AdvancedClock(SystemClock):
    #: How far it is ahead of the machine's clock.
    ahead = timedelta()

    def now(self):
        return super().now() + AdvancedClock.ahead


@contextmanager
def served(data):
    """The URL of a server in a thread."""
    urls, begun, end = [], threading.Event(), threading.Event()

    async def serve():
        async with bootstrap.serving(Settings(data=data, port=0, runtime=Runtime.SIMULATED)) as running:
            urls.extend(running.urls)
            begun.set()
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    begun.wait()
    try:
        yield urls[0]
    finally:
        end.set()
        thread.join()


def fill(work):
    """Jobs of some hours. Returns the paths of the pages by the name of their picture."""
    for queue, vcpus in (("cpu", 16), ("gpu", 4)):
        work.add_queue(queue, vcpus=vcpus)
    run(work, "fold-7", queue="gpu", vcpus=4)
    AdvancedClock.ahead += timedelta(hours=7, minutes=12)
    run(work, "sim-31", queue="cpu", vcpus=8)
    for number in range(12):
        run(work, f"blast-{number}", FAILS, status="FAILED", queue="cpu")
    for number in range(4):
        run(work, f"train-{number}", LACKS_MEMORY, status="FAILED", queue="cpu")
    AdvancedClock.ahead += timedelta(hours=1, minutes=40)
    run(work, "sweep-2", queue="cpu", vcpus=1, arrayProperties={"size": 2000}, status="PENDING")
    work.submit("fold-8", queue="gpu")
    for number, (lr, seed) in enumerate(itertools.product(("0.1", "0.03", "0.01", "0.003"), range(1, 9)), 1):
        tags, values = {"batchq:group": "fit", "batchq:group-size": "32"}, {"lr": lr, "seed": str(seed)}
        fails = lr == "0.1" and seed % 3 == 0
        name, script, status = ("fit-high", FAILS, "FAILED") if fails else ("fit", SUCCEEDS, "SUCCEEDED")
        run(work, f"{name}-{number}", script, status=status, queue="default", tags=tags, parameters=values)
    AdvancedClock.ahead += timedelta(minutes=8)
    return {
        "console": "",
        "console-jobs": "jobs",
        "console-job": f"jobs/{work.jobs['fold-7']}",
        "console-array": f"jobs/{work.jobs['sweep-2']}/children",
        "console-queue": "queues/cpu",
    }


async def record_past(data):
    """A day with a busy afternoon, a downtime of an hour, and some failures."""
    store, end = await SqliteStore.open(data), wall_time() + AHEAD
    key, machines = ActivityKey("cpu", "root", ""), Resources(millicpus=16_000, memory_mib=24_000)
    for number in range(DAY // FINE):
        at, hour = end - (DAY // FINE - number) * FINE, number / 12
        if DOWN[0] <= hour < DOWN[1]:
            continue
        running = max(0, round(7 + 6 * math.sin(hour / 3.4) + number % 3))
        waiting = max(0, round(22 * math.sin((hour - 5) / 4))) + number % 4
        load = ActivityLoad(running=running, waiting=waiting, millicpus=1000 * running, memory_mib=512 * running)
        counts = {EndedAs.SUCCEEDED: running // 3, EndedAs.FAILED: int(number % 29 == 0), EndedAs.STOPPED: 0}
        events = [
            ActivityEvents(key=key, at=at, outcome=outcome, wait=None, count=count) for outcome, count in counts.items()
        ]
        events.append(
            ActivityEvents(key=key, at=at, outcome=None, wait=min(8, 1 + waiting // 3), count=1 + running // 3)
        )
        sample = ActivitySample(
            at=at, loads={key: load}, environments={"cpu": 16_000}, environment_loads={}, machines=machines
        )
        await store.record_activity(sample, events, 0)
    await store.close()


def run(work, name, *scripts, status="RUNNING", **request):
    work.submit(name, *scripts, **request)
    work.reach(name, status)


def data(folder):
    """A data directory with the activity of a day."""
    path = Path(folder) / "data"
    asyncio.run(record_past(path))
    return path


def main():
    with (
        tempfile.TemporaryDirectory(prefix="batchq-picture-") as folder,
        patch.object(bootstrap, "SystemClock", AdvancedClock),
        patch.object(activity, "FIRST_SAMPLE", 3600.0),
        served(data(folder)) as url,
        sync_playwright() as playwright,
    ):
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        pages = fill(Submitter(boto3.client("batch", endpoint_url=url, region_name="us-east-1", **keys)))
        browser = playwright.chromium.launch(executable_path=chromium_path())
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{url}/ui/jobs")
        pages["console-group"] = (
            page.get_by_role("link", name="fit", exact=True).get_attribute("href").removeprefix("/ui/")
        )
        for name, path in pages.items():
            page.goto(f"{url}/ui/{path}")
            page.screenshot(path=DOCS / f"{name}.png")
            print(f"docs/{name}.png: {(DOCS / f'{name}.png').stat().st_size} bytes")


if __name__ == "__main__":
    main()
