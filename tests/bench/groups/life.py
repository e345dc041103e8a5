"""Whole lives of jobs on simulated containers, every change durable, against the bare database."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import aiosqlite

from batchq.compute.simulated.script import Script
from tests.bench.engines import running
from tests.bench.figures import Figure, Scale, at_least, interleaved, no_less_than
from tests.support import builders, scripts

QUEUE, AT_ONCE, CLIENTS = "default", 100, 32
ROWS_A_COMMIT, ROW = 100, "x" * 600
SPEC = builders.spec(container=scripts.spec(Script(seconds=0), resources=builders.resources()))


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    numbers = count()
    baseline, measured = interleaved(
        scale.pairs,
        lambda: asyncio.run(rows(folder / f"bare-{next(numbers)}.db", scale.rows)),
        lambda: asyncio.run(lives(created(folder / f"data-{next(numbers)}"), scale.lives)),
    )
    changes = max(each for _, each in measured)
    name = f"jobs/s through their whole life, {AT_ONCE} at once, simulated, durable"
    yield Figure(
        name=name,
        against=f"bare group commit, {ROWS_A_COMMIT} rows a commit, / {changes:.0f} rows that a job writes",
        measured=[rate for rate, _ in measured],
        baseline=[rate / changes for rate in baseline],
        goal=at_least(0.4),
    )
    yield Figure(name=name, measured=[rate for rate, _ in measured], goal=no_less_than(1500))


def created(data: Path) -> Path:
    data.mkdir()
    return data


async def rows(path: Path, number: int) -> float:
    """Rows a second into one table of SQLite, through aiosqlite, each commit durable."""
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = FULL")
        await connection.execute("CREATE TABLE kept (sequence INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        began = time.perf_counter()
        for first in range(0, number, ROWS_A_COMMIT):
            await connection.execute("BEGIN IMMEDIATE")
            some = [(sequence, ROW) for sequence in range(first, first + ROWS_A_COMMIT)]
            await connection.executemany("INSERT INTO kept VALUES (?, ?)", some)
            await connection.execute("COMMIT")
        return number / (time.perf_counter() - began)


async def lives(data: Path, number: int) -> tuple[float, float]:
    """Jobs a second from the first submission to the last end, and the rows that each job wrote."""
    async with running(data, queue=QUEUE, at_once=AT_ONCE, log=data / "log") as at_work:
        before = at_work.changes()
        began = time.perf_counter()
        left = iter(range(number))

        async def submit() -> None:
            for each in left:
                await at_work.submit(each, SPEC)

        over = asyncio.create_task(at_work.wait_for_ends(number))
        await asyncio.gather(over, *(submit() for _ in range(CLIENTS)))
        return number / (time.perf_counter() - began), (at_work.changes() - before) / number
