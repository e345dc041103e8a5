"""Makes docs/console.png, a picture of the console's overview: `python -m tests.docs.picture`.

The page is real: a server with simulated containers, whose clock is set ahead between two groups of submissions.
"""

import asyncio
import tempfile
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import boto3
from playwright.sync_api import sync_playwright

from batchq.compute.simulated.script import Script
from batchq.server import bootstrap
from batchq.settings import Runtime, Settings
from batchq.system.clock import SystemClock
from tests.console.browser.visitor import chromium_path
from tests.console.world import Submitter
from tests.docs.pages import ROOT

PICTURE = ROOT / "docs" / "console.png"
SIZE = {"width": 1100, "height": 700}
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
    """Jobs of some hours."""
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
    AdvancedClock.ahead += timedelta(minutes=8)


def run(work, name, *scripts, status="RUNNING", **request):
    work.submit(name, *scripts, **request)
    work.reach(name, status)


def main():
    with (
        tempfile.TemporaryDirectory(prefix="batchq-picture-") as folder,
        patch.object(bootstrap, "SystemClock", AdvancedClock),
        served(Path(folder) / "data") as url,
        sync_playwright() as playwright,
    ):
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        fill(Submitter(boto3.client("batch", endpoint_url=url, region_name="us-east-1", **keys)))
        browser = playwright.chromium.launch(executable_path=chromium_path())
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{url}/ui/")
        page.screenshot(path=PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
