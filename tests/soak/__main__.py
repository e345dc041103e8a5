"""Serve under mixed load for hours, restart the engine every few minutes, and print a row of sizes each minute.

    python -m tests.soak --hours 2
    python -m tests.soak --hours 0.25 --restart-minutes 4

The engine is a second one, with live-restore; the machine's engine is not affected. Finished jobs and their logs are
kept for 15 minutes, the least that batchq permits, so sizes must be flat from then on. The exit status is 1 if a job
was lost or ended otherwise than its kind must, if a line of output is missing, if a container remains, or if memory,
open files, the database or the logs grow. The same holds for jobs during which the engine restarted, except attempts in
their start (load.py).

A size grows if its mean in the last quarter of the run exceeds 1.2 times its mean in the second quarter by more than 20
MiB of memory, 10 files, 2 MiB of database or 200 MiB of logs. These allow for what is removed late: retention works in
steps, and the writers of one minute store 49 MiB. The database and the logs are compared only if the second quarter
begins after the 15 minutes, so in runs of an hour or more.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from msgspec import Struct
from msgspec.structs import astuple

from tests.faults.job_server import JobServer, job_server
from tests.soak.load import KINDS, WRITING, Load
from tests.support.second_engine import SecondEngine, second_engine

TICK = 2.0  # seconds between two submissions
MINUTE = 60.0
WRITER_RUNS = 30.0  # seconds after a full minute, when the writer of that minute runs: then the engine is restarted
MIB = 2**20
LAST_JOBS = 300.0  # seconds for the end of the last jobs
RETENTION_DAYS, RETENTION_MINUTES = "0.0105", 15
GROWTH = 1.2  # the last quarter may have this many times the size of the second one, and `more` of COMPARED
COLUMNS = (
    *("minute", "submitted", "ended", "outstanding", "engine restarts"),
    *("RSS, MiB", "open files", "database, MiB", "logs, MiB", "load"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


class Sample(Struct, frozen=True):
    """A row of the table."""

    minute: int
    submitted: int
    ended: int
    outstanding: int
    restarts: int
    rss: float
    files: int
    database: float
    logs: float
    load: float

    def __str__(self) -> str:
        figures = (f"{figure:.1f}" if isinstance(figure, float) else str(figure) for figure in astuple(self))
        return f"| {' | '.join(figures)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--restart-minutes", type=float, default=5.0, help="between two restarts of the engine")
    options = parser.parse_args()
    began = time.monotonic()
    with (
        second_engine(live_restore=True) as engine,
        tempfile.TemporaryDirectory(prefix="batchq-soak-") as folder,
        job_server(Path(folder), engine.url, "--retention-days", RETENTION_DAYS) as server,
    ):
        load = Load(server)
        print(HEAD, flush=True)
        samples = soak(server, engine, load, seconds=options.hours * 3600, restart_every=options.restart_minutes * 60)
        wrong = [*finish(server, load), *growth(samples)]
        wrong += [f"a container remains: {container['Names']}" for container in containers(server, engine)]
        status = server.service.stop()
    wrong += [f"the server ended with status {status}"] if status else []
    for text in wrong:
        print(f"WRONG {text}")
    print(
        f"{load.submitted} jobs, {load.disturbed} of them during a restart, {load.lost} attempts lost in their start, "
        f"{load.lines} lines of output, {load.disturbed_writers} of their writers during a restart, in "
        f"{time.monotonic() - began:.0f} s: {len(wrong)} findings"
    )
    return int(bool(wrong))


def soak(
    server: JobServer, engine: SecondEngine, load: Load, *, seconds: float, restart_every: float
) -> Sequence[Sample]:
    """Submit a job each TICK and a writer each minute, restart the engine, and sample each minute."""
    began, samples, restarts = time.monotonic(), [], 0
    kinds, ends = itertools.cycle(KINDS), itertools.cycle((engine.stop, engine.kill))
    while (elapsed := time.monotonic() - began) < seconds:
        load.submit(next(kinds))
        load.steer()
        if elapsed >= MINUTE * len(samples):
            load.submit(WRITING)
            samples.append(sample(server, load, minute=len(samples), restarts=restarts))
            print(samples[-1], flush=True)
        if elapsed >= restart_every * (restarts + 1) + WRITER_RUNS:
            next(ends)()
            engine.start()
            load.disturb()
            restarts += 1
        time.sleep(max(0.0, began + elapsed + TICK - time.monotonic()))
    samples.append(sample(server, load, minute=len(samples), restarts=restarts))
    print(samples[-1], flush=True)
    return samples


def finish(server: JobServer, load: Load) -> Sequence[str]:
    """Wait until all jobs have ended. Returns what is wrong with them."""
    end = time.monotonic() + LAST_JOBS
    while (load.outstanding or load.unread) and time.monotonic() < end:
        load.steer()
        time.sleep(0.5)
    late = [f"not ended: {job_id}, {sent}" for job_id, sent in load.outstanding.items()]
    late += [f"output not complete: {job_id}" for job_id in load.unread]
    return [*load.wrong, *late, *(f"the event loop was blocked: {call}" for call in server.service.blocked_by())]


class Size(Struct, frozen=True):
    """A column that must be flat."""

    name: str
    field: str
    #: What the last quarter may have beyond GROWTH, in the unit of the column.
    more: float
    #: Whether finished jobs fill it until the retention removes them.
    is_stored: bool = False


COMPARED = (
    Size("RSS, MiB", "rss", 20),
    Size("open files", "files", 10),
    Size("database, MiB", "database", 2, is_stored=True),
    Size("logs, MiB", "logs", 200, is_stored=True),
)


def growth(samples: Sequence[Sample]) -> Sequence[str]:
    """What grows: the last quarter of the time is compared with the second one, when the caches are full."""
    quarter = len(samples) // 4
    if not quarter:
        return ()
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    compared = [size for size in COMPARED if not size.is_stored or second[0].minute >= RETENTION_MINUTES]
    means = (
        (size, *(mean(getattr(sample, size.field) for sample in part) for part in (second, last))) for size in compared
    )
    return [
        f"{size.name} grew from {before:.0f} to {after:.0f}"
        for size, before, after in means
        if after > GROWTH * before + size.more
    ]


def containers(server: JobServer, engine: SecondEngine) -> Sequence[dict]:
    """The containers of jobs that are not removed in time."""
    end, filters = (
        time.monotonic() + LAST_JOBS,
        {"label": [f"io.batchq.instance={server.service.instance}", "io.batchq.job"]},
    )
    client = engine.client()
    try:
        while (left := client.containers(all=True, filters=filters)) and time.monotonic() < end:
            time.sleep(0.5)
    finally:
        client.close()
    return left


def sample(server: JobServer, load: Load, *, minute: int, restarts: int) -> Sample:
    process = Path("/proc") / str(server.service.process.pid)
    (rss,) = (line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS:"))
    database = sum(path.stat().st_size for path in server.service.data.glob("batchq.db*"))
    return Sample(
        minute=minute,
        submitted=load.submitted,
        ended=load.ended,
        outstanding=len(load.outstanding),
        restarts=restarts,
        rss=int(rss.split()[1]) / 1024,
        files=len(list((process / "fd").iterdir())),
        database=database / MIB,
        logs=server.stored_log_bytes() / MIB,
        load=os.getloadavg()[0],
    )


if __name__ == "__main__":
    sys.exit(main())
