"""The sweep of checkpoint directories: deletions that were missed, and the retention period."""

import asyncio
import os
from contextlib import suppress
from datetime import timedelta

import pytest

from batchq.domain.checkpoints import CheckpointRules
from batchq.domain.job import Status
from batchq.domain.stop_orders import StopKind, StopOrder
from batchq.engine.checkpoints import Checkpoints
from batchq.engine.supervisor import Supervisor
from batchq.ports.jobs import Changes
from tests.support import builders
from tests.support.builders import NOON
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore, temporary_checkpoints

CLEAN = StopOrder(kind=StopKind.TERMINATE, reason="x", ordered_at=NOON, keep_checkpoints=False)
DAY = timedelta(days=1)


class Swept:
    """Jobs with checkpoint directories, and the sweep over them."""

    def __init__(self):
        self.clock, self.store, self.posted, self.suspended = VirtualClock(), InlineStore(), [], False
        self.files = temporary_checkpoints(self.clock.now)

    async def job(self, *names, known=True, at=NOON, **changes):
        job = builders.job(spec=builders.spec(checkpoints=CheckpointRules()), **changes)
        if known:
            await self.store.commit(Changes(inserted=(job,)))
        folder = (await self.files.prepare(job.id, ended=True)).path
        for name in names:
            (folder / name).write_text("x")
            os.utime(folder / name, (at.timestamp(), at.timestamp()))
        return job.id

    async def sweep(self, retention=None):
        checkpoints = Checkpoints(
            store=self.store,
            files=self.files,
            retention=retention,
            clock=self.clock,
            tasks=Supervisor(self.clock),
            post=self.posted.append,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await checkpoints.sweep(suspended=lambda: self.suspended)

    def names(self, job_id):
        folder = self.files.directory(job_id)
        return None if folder is None else sorted(it.name for it in folder.iterdir())


@pytest.fixture
def swept():
    return Swept()


async def test_deletions_that_a_crash_prevented_are_made(swept):
    final = {"final_checkpoint_requested": True, "final_checkpoint": "b"}
    clean = await swept.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    with_final = StopOrder(kind=StopKind.TERMINATE, reason="x", ordered_at=NOON, keep_checkpoints=False, **final)
    kept = await swept.job("a", "b", "metrics.jsonl", status=Status.FAILED, stopped_at=NOON, stop_orders=(with_final,))
    done = await swept.job("a", "b.tmp", status=Status.SUCCEEDED, stopped_at=NOON)
    running = await swept.job("a", "b.tmp", status=Status.RUNNING, stop_orders=(CLEAN,))

    await swept.sweep()

    assert swept.names(clean) is None
    assert swept.names(kept) == ["b", "metrics.jsonl"]
    assert swept.names(done) == ["a"]
    assert swept.names(running) == ["a", "b.tmp"]


async def test_nothing_is_deleted_in_safe_mode(swept):
    job = await swept.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    swept.suspended = True

    await swept.sweep(retention=DAY)

    assert swept.names(job) == ["a"]


async def test_without_a_retention_period_checkpoints_outlive_their_jobs(swept):
    forgotten = await swept.job("a", known=False, at=NOON - 1000 * DAY)

    await swept.sweep()

    assert swept.names(forgotten) == ["a"]


async def test_checkpoints_are_deleted_after_the_retention_period(swept):
    old, new = NOON - 3 * DAY, NOON - DAY
    ended = await swept.job("a", status=Status.SUCCEEDED, stopped_at=old)
    recent = await swept.job("a", status=Status.SUCCEEDED, stopped_at=new, at=old)
    running = await swept.job("a", status=Status.RUNNING, at=old)
    held = await swept.job("a", status=Status.RUNNABLE, at=old)
    forgotten = await swept.job("a", "metrics.jsonl", known=False, at=old)
    forgotten_later = await swept.job("a", known=False, at=new)

    await swept.sweep(retention=2 * DAY)

    assert (swept.names(ended), swept.names(forgotten)) == (None, None)
    assert swept.names(recent) == swept.names(running) == swept.names(held) == swept.names(forgotten_later) == ["a"]


async def test_a_directory_whose_name_is_not_an_id_of_a_job_is_left_alone(swept):
    await swept.job("a")
    other = swept.files._root / "backup of monday"
    other.mkdir()

    await swept.sweep(retention=timedelta())

    assert other.exists()
