"""Print the files and the functions that one SubmitJob passes until its container runs: `python -m tests.house.walk`.

A server with simulated containers runs in this process. A profiler counts each return of a function of batchq, in all
threads; a coroutine that waits returns once more. The loops in the background return meanwhile too, so the smallest
count of several jobs is printed. The first jobs fill the caches.
"""

import asyncio
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from yarl import URL

from batchq.compute.simulated.script import Script, script_variable
from batchq.server.bootstrap import serving
from batchq.settings import Runtime, Settings
from batchq.store.database import NAME
from tests.bench.wire import END_OF_HEAD, request
from tests.house.rooms import PACKAGES, ROOT
from tests.service.waiting import container
from tests.support.answers import parsed

JOBS, WARM = 12, 4  # jobs in all, and those of them that are not counted
PATIENCE = 10.0  # seconds until a job runs
INTERVAL = 0.01  # seconds between two reads of the database
BESIDE = ROOT / "batchq/engine/loop_watchdog.py"  # returns four times a second, whatever jobs do
FOLDERS = tuple(f"{ROOT / package}/" for package in PACKAGES)


class Walk:
    """Counts the returns of the functions of batchq, by file and function, while it is `open`."""

    def __init__(self) -> None:
        self.returns: Counter[tuple[str, str]] = Counter()
        self.is_open = False

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return" and self.is_open:
            code = frame.f_code
            path = code.co_filename.replace("/batchq/api/", "/api/").replace("/batchq/compute/", "/compute/")
            if path.startswith(FOLDERS) and path != str(BESIDE):
                self.returns[path.removeprefix(f"{ROOT}/"), code.co_qualname] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count in this thread and in threads that begin meanwhile."""
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


async def walks(folder: Path) -> list[Counter[tuple[str, str]]]:
    """The walk of each counted job."""
    walk, found = Walk(), []
    settings = Settings(data=folder / "data", port=0, runtime=Runtime.SIMULATED, log_level="error")
    with walk.counting():
        async with serving(settings) as server:
            url = URL(server.urls[0])
            name, value = script_variable(Script(seconds=None, on_term=0))
            small = container("sleep", "60", vcpus=0.01, memory=4, environment=[{"name": name, "value": value}])
            definition = {"jobDefinitionName": "walk", "type": "container", "containerProperties": small}
            await ask(url, "registerjobdefinition", **definition)
            with closing(sqlite3.connect(f"file:{folder / 'data' / NAME}?mode=ro", uri=True)) as database:
                for number in range(JOBS):
                    walk.returns, walk.is_open = Counter(), True
                    job = await ask(url, "submitjob", jobName="walk", jobQueue="default", jobDefinition="walk")
                    await runs(database, job["jobId"])
                    walk.is_open = False
                    if number >= WARM:
                        found.append(walk.returns)
    return found


async def runs(database: sqlite3.Connection, job_id: str) -> None:
    """Wait until the job is stored as RUNNING. The database is read, so that no function of batchq is called."""
    async with asyncio.timeout(PATIENCE):
        while database.execute("SELECT status FROM jobs WHERE id = ?", [job_id]).fetchone() != ("RUNNING",):  # noqa: ASYNC110
            await asyncio.sleep(INTERVAL)


async def ask(url: URL, operation: str, **members: object) -> dict[str, Any]:
    """An operation of AWS Batch, on a connection of its own."""
    reader, writer = await asyncio.open_connection(url.host, url.port)
    with closing(writer):
        writer.write(request(operation, **members))
        head = await reader.readuntil(END_OF_HEAD)
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        answer: dict[str, Any] = parsed(await reader.readexactly(length), "application/json")
    return answer


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(walks(Path(folder)))
    smallest = min(found, key=lambda returns: returns.total())
    by_file: Counter[str] = Counter()
    for (path, _), count in smallest.items():
        by_file[path] += count
    for path, count in by_file.most_common():
        names = sorted(name for where, name in smallest if where == path)
        print(f"{count:5}  {path}: {', '.join(names)}")
    print(f"{len(by_file)} files, {len(smallest)} functions, {smallest.total()} returns")


if __name__ == "__main__":
    main()
