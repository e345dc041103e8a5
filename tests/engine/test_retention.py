"""When finished jobs are deleted, when they are kept, and that a crash leaves no part of one behind."""

import asyncio
import os
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

import pytest

from batchq.domain.access.accounts import Owner
from batchq.domain.cost import Amounts, Spending
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import QueueName, stream_name
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import CheckpointRules
from batchq.engine.checkpoints import SWEEP_RETRY_INTERVAL, Checkpoints
from batchq.engine.pruner import BATCH_PAUSE, BATCH_SIZE, OLD_SHARES, PRUNE_INTERVAL, Pruner
from batchq.engine.supervisor import Supervisor
from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes
from batchq.ports.logs import LogLine, LogStream
from tests.support import builders
from tests.support.builders import NOON, attempt, job, job_id, moment
from tests.support.clock import VirtualClock
from tests.support.inline import InlineLogFiles, InlineStore, temporary_checkpoints

MONTH = timedelta(days=30)


class PrunerHarness:
    """A store with finished jobs, an archive with their logs, and the pruner."""

    def __init__(self, *, retention=MONTH):
        self.store, self.archive, self.clock = InlineStore(), InlineLogFiles(), VirtualClock()
        self.unit_lock = asyncio.Lock()
        self.jobs_with_containers = frozenset()
        self.pruner = Pruner(
            store=self.store,
            archive=self.archive,
            clock=self.clock,
            retention=retention,
            unit_lock=self.unit_lock,
            jobs_with_containers=lambda: self.jobs_with_containers,
        )

    async def end(self, *numbers):
        for number in numbers:
            done = job(number=number, status=Status.SUCCEEDED, attempts=(attempt(),))
            (tag,) = container_tags(done)
            stream = LogStream(name=_stream(done), tag=tag, created_at=self.clock.now())
            ended = moment(done, at=self.clock.now())
            await self.store.commit(Changes(inserted=(done,), history=(ended,), streams=(stream,)))
            await self.archive.append(tag.log_id, [LogLine(at=1, message="a line")])

    async def remaining(self):
        found = await self.store.jobs([job_id(number) for number in range(1000)])
        return sorted(other_job.sequence for other_job in found.values())

    def logs(self):
        return len(list(self.archive.directory.glob("*/*.log")))


def _stream(of):
    return stream_name(of.spec.definition.name, container_tags(of)[0])


@pytest.fixture
async def harness():
    """The newest job always stays."""
    harness = PrunerHarness()
    await harness.end(999)
    return harness


async def test_a_finished_job_and_its_log_are_deleted_after_the_retention_period(harness):
    await harness.end(1)
    await harness.clock.sleep(86400.0)
    await harness.end(2)
    await harness.clock.sleep(29 * 86400.0 + 1)

    await harness.pruner.prune_once()

    assert await harness.remaining() == [2, 999]
    assert harness.logs() == 2
    assert len(await harness.store.streams()) == 2


async def test_without_a_retention_period_nothing_is_deleted():
    harness = PrunerHarness(retention=None)
    await harness.end(1, 2)
    await harness.clock.sleep(60 * 86400.0)

    await harness.pruner.prune_once()

    assert await harness.remaining() == [1, 2]


async def test_all_jobs_are_kept_until_the_first_survey(harness):
    await harness.end(1, 2)
    await harness.clock.sleep(31 * 86400.0)
    harness.jobs_with_containers = None

    await harness.pruner.prune_once()

    assert await harness.remaining() == [1, 2, 999]


async def test_many_jobs_are_deleted_in_small_batches_with_pauses(harness):
    await harness.end(*range(250))
    await harness.clock.sleep(31 * 86400.0)
    before = harness.clock.now()

    await harness.pruner.prune_once()

    assert await harness.remaining() == [999]
    assert harness.clock.now() - before >= timedelta(seconds=2 * BATCH_PAUSE)


async def test_no_unit_of_work_runs_during_a_deletion(harness):
    await harness.end(1)
    await harness.clock.sleep(31 * 86400.0)

    async with harness.unit_lock:
        pruning = asyncio.ensure_future(harness.pruner.prune_once())
        await harness.clock.sleep(1)
        during_a_unit = await harness.remaining()
    await pruning

    assert during_a_unit == [1, 999]
    assert await harness.remaining() == [999]


async def test_a_deletion_interrupted_between_rows_and_logs_is_completed(harness):
    await harness.end(1)
    await harness.clock.sleep(31 * 86400.0)
    await harness.store.prune(harness.clock.now(), keep=(), limit=100)

    shown, kept = await harness.store.stream(_stream(job(number=1, attempts=(attempt(),)))), harness.logs()
    harness.jobs_with_containers = None
    await harness.pruner.prune_once()

    assert (shown, kept) == (None, 2)
    assert harness.logs() == 1
    assert await harness.store.deleted_log_ids(10) == ()


async def test_a_failed_deletion_is_repeated_in_the_next_round(harness, caplog):
    await harness.end(1)
    await harness.clock.sleep(31 * 86400.0)
    harness.store.failing = True
    pruning = asyncio.ensure_future(harness.pruner.run())
    await harness.clock.sleep(1)
    harness.store.failing = False
    await harness.clock.sleep(PRUNE_INTERVAL)

    assert await harness.remaining() == [999]
    assert "finished jobs are not removed now" in caplog.text
    pruning.cancel()


async def test_fully_decayed_shares_are_deleted(harness):
    keys = [ShareKey(QueueName("default"), str(number)) for number in range(300)]
    uses = tuple((key, ShareUse(as_of=harness.clock.now())) for key in keys)
    await harness.store.commit(Changes(shares=uses))
    await harness.pruner.prune_once()
    before = len(await harness.store.shares())
    await harness.clock.sleep(OLD_SHARES.total_seconds() + 1)

    await harness.pruner.prune_once()

    assert before == 300
    assert await harness.store.shares() == {}


async def test_a_log_that_cannot_be_deleted_delays_no_other_deletion_and_is_deleted_later(harness, monkeypatch, caplog):
    await harness.end(*range(BATCH_SIZE + 2))
    await harness.clock.sleep(31 * 86400.0)
    damaged = set(sorted(path.stem for path in harness.archive.directory.glob("*/*.log"))[:BATCH_SIZE])
    discard = harness.archive.discard

    async def fails(log_id):
        if log_id in damaged:
            raise StoreFailed(f"log {log_id}: input/output error")
        await discard(log_id)

    with monkeypatch.context() as patched:
        patched.setattr(harness.archive, "discard", fails)
        await harness.pruner.prune_once()
    left = set(await harness.store.deleted_log_ids(1000))
    await harness.pruner.prune_once()

    assert await harness.remaining() == [999]
    assert left <= damaged
    assert caplog.text.count("is not deleted now") == len(left) >= BATCH_SIZE - 1
    assert harness.logs() == 1


async def test_a_job_whose_container_appears_between_two_pages_is_kept(harness):
    await harness.end(*range(120))
    await harness.clock.sleep(31 * 86400.0)
    pruning = asyncio.ensure_future(harness.pruner.prune_once())
    await harness.clock.sleep(BATCH_PAUSE / 2)
    first_page = await harness.remaining()

    harness.jobs_with_containers = frozenset({job_id(110)})
    await pruning

    assert 110 in first_page
    assert 1 < len(first_page) < 121
    assert await harness.remaining() == [110, 999]


async def test_spending_is_added_up_by_month_after_400_days_and_not_before(harness):
    today = harness.clock.now().date()
    old, recent = (today - timedelta(days=460)).replace(day=2), (today - timedelta(days=300)).replace(day=2)
    await harness.store.commit(Changes(spending=(_spending(old), _spending(old.replace(day=3)), _spending(recent))))
    before = await harness.store.spending_totals(None)

    await harness.pruner.prune_once()

    assert [await _spent_from(harness, day) for day in (old.replace(day=1), old, recent)] == [3, 1, 1]
    assert await harness.store.spending_totals(None) == before


def _spending(day):
    return Spending(
        day=day,
        owner=Owner(user="ada", account="lab"),
        queue=QueueName("default"),
        definition="train",
        currency="EUR",
        amounts=Amounts(gpu=Decimal(1)),
    )


async def _spent_from(harness, day):
    return sum(amount for _, amount in await harness.store.spending_totals(day))


CLEAN = StopOrder(kind=StopKind.TERMINATE, reason="x", ordered_at=NOON, keep_checkpoints=False)
DAY = timedelta(days=1)


class SweepHarness:
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

    async def sweep(self, retention=None, seconds=1):
        checkpoints = Checkpoints(
            store=self.store,
            files=self.files,
            retention=retention,
            clock=self.clock,
            tasks=Supervisor(self.clock),
            post=self.posted.append,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await checkpoints.sweep(suspended=lambda: self.suspended)

    def names(self, job_id):
        folder = self.files._root / job_id
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else None


@pytest.fixture
def sweeper():
    return SweepHarness()


async def test_deletions_that_a_crash_prevented_are_made(sweeper):
    final = {"final_checkpoint_requested": True, "final_checkpoint": "b"}
    clean = await sweeper.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    with_final = StopOrder(kind=StopKind.TERMINATE, reason="x", ordered_at=NOON, keep_checkpoints=False, **final)
    kept = await sweeper.job(
        "a", "b", "metrics.jsonl", status=Status.FAILED, stopped_at=NOON, stop_orders=(with_final,)
    )
    done = await sweeper.job("a", "b.tmp", status=Status.SUCCEEDED, stopped_at=NOON)
    running = await sweeper.job("a", "b.tmp", status=Status.RUNNING, stop_orders=(CLEAN,))

    await sweeper.sweep()

    assert sweeper.names(clean) is None
    assert sweeper.names(kept) == ["b", "metrics.jsonl"]
    assert sweeper.names(done) == ["a"]
    assert sweeper.names(running) == ["a", "b.tmp"]


async def test_nothing_is_deleted_in_safe_mode(sweeper):
    job = await sweeper.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    sweeper.suspended = True

    await sweeper.sweep(retention=DAY)

    assert sweeper.names(job) == ["a"]


async def test_a_sweep_begins_soon_after_safe_mode_ends(sweeper):
    job = await sweeper.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    sweeper.suspended = True
    asyncio.get_running_loop().call_later(5, lambda: setattr(sweeper, "suspended", False))

    await sweeper.sweep(seconds=SWEEP_RETRY_INTERVAL + 1)

    assert sweeper.names(job) is None


async def test_a_sweep_that_failed_is_repeated_soon(sweeper):
    job = await sweeper.job("a", status=Status.FAILED, stopped_at=NOON, stop_orders=(CLEAN,))
    sweeper.files.failing = True
    asyncio.get_running_loop().call_later(5, lambda: setattr(sweeper.files, "failing", False))

    await sweeper.sweep(seconds=SWEEP_RETRY_INTERVAL + 1)

    assert sweeper.names(job) is None


async def test_without_a_retention_period_checkpoints_outlive_their_jobs(sweeper):
    forgotten = await sweeper.job("a", known=False, at=NOON - 1000 * DAY)

    await sweeper.sweep()

    assert sweeper.names(forgotten) == ["a"]


async def test_checkpoints_are_deleted_after_the_retention_period(sweeper):
    old, new = NOON - 3 * DAY, NOON - DAY
    ended = await sweeper.job("a", status=Status.SUCCEEDED, stopped_at=old)
    recent = await sweeper.job("a", status=Status.SUCCEEDED, stopped_at=new, at=old)
    running = await sweeper.job("a", status=Status.RUNNING, at=old)
    held = await sweeper.job("a", status=Status.RUNNABLE, at=old)
    forgotten = await sweeper.job("a", "metrics.jsonl", known=False, at=old)
    forgotten_later = await sweeper.job("a", known=False, at=new)

    await sweeper.sweep(retention=2 * DAY)

    assert (sweeper.names(ended), sweeper.names(forgotten)) == (None, None)
    assert (
        sweeper.names(recent)
        == sweeper.names(running)
        == sweeper.names(held)
        == sweeper.names(forgotten_later)
        == ["a"]
    )


async def test_a_directory_whose_name_is_not_an_id_of_a_job_is_left_alone(sweeper):
    await sweeper.job("a")
    other = sweeper.files._root / "backup of monday"
    other.mkdir()

    await sweeper.sweep(retention=timedelta())

    assert other.exists()
