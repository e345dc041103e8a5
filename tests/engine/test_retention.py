"""When finished jobs are deleted, when they are kept, and that a crash leaves no part of one behind."""

import asyncio
import os
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

import pytest

from batchq.domain.access.accounts import Owner
from batchq.domain.cost import Amounts, Spending
from batchq.domain.ids import QueueName, stream_name
from batchq.domain.job import Status
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_orders import StopKind, StopOrder
from batchq.domain.training import CheckpointRules
from batchq.engine.background import BATCH_PAUSE, OLD_SHARES, PRUNE_INTERVAL, Pruner
from batchq.engine.checkpoints import Checkpoints
from batchq.engine.supervisor import Supervisor
from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes
from batchq.ports.logs import LogLine, LogStream
from tests.support import builders
from tests.support.builders import NOON, attempt, job, job_id, moment
from tests.support.clock import VirtualClock
from tests.support.inline import InlineLogFiles, InlineStore, temporary_checkpoints

MONTH = timedelta(days=30)


class Yard:
    """A store with jobs that are over, an archive with their logs, and who sweeps them."""

    def __init__(self, *, retention=MONTH):
        self.store, self.archive, self.clock = InlineStore(), InlineLogFiles(), VirtualClock()
        self.between = asyncio.Lock()
        self.busy = frozenset()
        self.pruner = Pruner(
            store=self.store,
            archive=self.archive,
            clock=self.clock,
            retention=retention,
            unit_lock=self.between,
            jobs_with_containers=lambda: self.busy,
        )

    async def end(self, *numbers):
        for number in numbers:
            done = job(number=number, status=Status.SUCCEEDED, attempts=(attempt(),))
            (tag,) = container_tags(done)
            stream = LogStream(name=_stream(done), tag=tag, created_at=self.clock.now())
            ended = moment(done, at=self.clock.now())
            await self.store.commit(Changes(inserted=(done,), history=(ended,), streams=(stream,)))
            await self.archive.append(tag.log_id, [LogLine(at=1, message="a line")])

    async def left(self):
        found = await self.store.jobs([job_id(number) for number in range(1000)])
        return sorted(it.order for it in found.values())

    def logs(self):
        return len(list(self.archive.directory.glob("*/*.log")))


def _stream(of):
    return stream_name(of.spec.definition.name, container_tags(of)[0])


@pytest.fixture
async def yard():
    """The newest job is one that always stays."""
    yard = Yard()
    await yard.end(999)
    return yard


async def test_a_finished_job_and_its_log_are_deleted_after_the_retention_period(yard):
    await yard.end(1)
    await yard.clock.sleep(86400.0)
    await yard.end(2)
    await yard.clock.sleep(29 * 86400.0 + 1)

    await yard.pruner.prune_once()

    assert await yard.left() == [2, 999]
    assert yard.logs() == 2
    assert len(await yard.store.streams()) == 2


async def test_without_a_retention_period_nothing_is_deleted():
    yard = Yard(retention=None)
    await yard.end(1, 2)
    await yard.clock.sleep(60 * 86400.0)

    await yard.pruner.prune_once()

    assert await yard.left() == [1, 2]


async def test_all_jobs_are_kept_until_the_first_survey(yard):
    await yard.end(1, 2)
    await yard.clock.sleep(31 * 86400.0)
    yard.busy = None

    await yard.pruner.prune_once()

    assert await yard.left() == [1, 2, 999]


async def test_many_jobs_are_deleted_in_small_batches_with_pauses(yard):
    await yard.end(*range(250))
    await yard.clock.sleep(31 * 86400.0)
    before = yard.clock.now()

    await yard.pruner.prune_once()

    assert await yard.left() == [999]
    assert yard.clock.now() - before >= timedelta(seconds=2 * BATCH_PAUSE)


async def test_no_unit_of_work_runs_during_a_deletion(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)

    async with yard.between:
        sweeping = asyncio.ensure_future(yard.pruner.prune_once())
        await yard.clock.sleep(1)
        during_a_turn = await yard.left()
    await sweeping

    assert during_a_turn == [1, 999]
    assert await yard.left() == [999]


async def test_a_deletion_interrupted_between_rows_and_logs_is_completed(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)
    await yard.store.prune(yard.clock.now(), keep=(), limit=100)

    shown, kept = await yard.store.stream(_stream(job(number=1, attempts=(attempt(),)))), yard.logs()
    yard.busy = None
    await yard.pruner.prune_once()

    assert (shown, kept) == (None, 2)
    assert yard.logs() == 1
    assert await yard.store.deleted_log_ids(10) == ()


async def test_a_failed_deletion_is_repeated_in_the_next_round(yard, caplog):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)
    yard.store.failing = True
    sweeping = asyncio.ensure_future(yard.pruner.run())
    await yard.clock.sleep(1)
    yard.store.failing = False
    await yard.clock.sleep(PRUNE_INTERVAL)

    assert await yard.left() == [999]
    assert "finished jobs are not removed now" in caplog.text
    sweeping.cancel()


async def test_fully_decayed_shares_are_deleted(yard):
    keys = [ShareKey(QueueName("default"), str(number)) for number in range(300)]
    uses = tuple((key, ShareUse(as_of=yard.clock.now())) for key in keys)
    await yard.store.commit(Changes(shares=uses))
    await yard.pruner.prune_once()
    before = len(await yard.store.shares())
    await yard.clock.sleep(OLD_SHARES.total_seconds() + 1)

    await yard.pruner.prune_once()

    assert before == 300
    assert await yard.store.shares() == {}


async def test_a_log_that_cannot_be_deleted_is_deleted_later(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)
    yard.archive.discard = _failing

    with pytest.raises(StoreFailed):
        await yard.pruner.prune_once()

    assert len(await yard.store.deleted_log_ids(10)) == 1


async def _failing(log_id):
    raise StoreFailed(f"the log of task {log_id} cannot be removed")


async def test_a_job_whose_container_appears_between_two_pages_is_kept(yard):
    await yard.end(*range(120))
    await yard.clock.sleep(31 * 86400.0)
    sweeping = asyncio.ensure_future(yard.pruner.prune_once())
    await yard.clock.sleep(BATCH_PAUSE / 2)
    first_page = await yard.left()

    yard.busy = frozenset({job_id(110)})
    await sweeping

    assert 110 in first_page
    assert 1 < len(first_page) < 121
    assert await yard.left() == [110, 999]


async def test_spending_is_added_up_by_month_after_400_days_and_not_before(yard):
    today = yard.clock.now().date()
    old, recent = (today - timedelta(days=460)).replace(day=2), (today - timedelta(days=300)).replace(day=2)
    await yard.store.commit(Changes(spending=(_spending(old), _spending(old.replace(day=3)), _spending(recent))))
    before = await yard.store.spending_totals(None)

    await yard.pruner.prune_once()

    assert [await _spent_from(yard, it) for it in (old.replace(day=1), old, recent)] == [3, 1, 1]
    assert await yard.store.spending_totals(None) == before


def _spending(day):
    return Spending(
        day=day,
        owner=Owner(user="ada", account="lab"),
        queue=QueueName("default"),
        definition="train",
        currency="EUR",
        amounts=Amounts(gpu=Decimal(1)),
    )


async def _spent_from(yard, day):
    return sum(amount for _, amount in await yard.store.spending_totals(day))


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
