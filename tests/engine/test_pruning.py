"""When finished jobs are forgotten, and when they are not yet; and that a crash leaves nothing that is half there."""

import asyncio
from datetime import timedelta

import pytest

from batchq.domain.ids import QueueName, stream_name
from batchq.domain.job import Status, tags
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.engine.retention import BATCH_PAUSE, OLD_SHARES, PRUNE_INTERVAL, Pruner
from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes
from batchq.ports.logs import LogLine, LogStream
from tests.support.builders import attempt, job, job_id, moment
from tests.support.clock import VirtualClock
from tests.support.inline import InlineLogFiles, InlineStore

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
            (tag,) = tags(done)
            stream = LogStream(name=_stream(done), tag=tag, created_at=self.clock.now())
            ended = moment(done, at=self.clock.now())
            await self.store.commit(Changes(inserted=(done,), history=(ended,), streams=(stream,)))
            await self.archive.append(tag.log_id, [LogLine(at=1, message="said")])

    async def left(self):
        found = await self.store.jobs([job_id(number) for number in range(1000)])
        return sorted(it.order for it in found.values())

    def logs(self):
        return len(list(self.archive.directory.glob("*/*.log")))


def _stream(of):
    return stream_name(of.spec.definition.name, tags(of)[0])


@pytest.fixture
async def yard():
    """The newest job is one that always stays."""
    yard = Yard()
    await yard.end(999)
    return yard


async def test_a_job_goes_with_its_log_when_it_has_been_over_for_so_long(yard):
    await yard.end(1)
    await yard.clock.sleep(86400.0)
    await yard.end(2)
    await yard.clock.sleep(29 * 86400.0 + 1)

    await yard.pruner.prune_once()

    assert await yard.left() == [2, 999]
    assert yard.logs() == 2
    assert len(await yard.store.streams()) == 2


async def test_for_ever_is_for_ever():
    yard = Yard(retention=None)
    await yard.end(1, 2)
    await yard.clock.sleep(60 * 86400.0)

    await yard.pruner.prune_once()

    assert await yard.left() == [1, 2]


async def test_a_job_whose_container_is_there_stays(yard):
    await yard.end(1, 2)
    await yard.clock.sleep(31 * 86400.0)
    yard.busy = frozenset({job_id(1)})

    await yard.pruner.prune_once()

    assert await yard.left() == [1, 999]


async def test_while_nobody_knows_what_containers_there_are_all_stay(yard):
    await yard.end(1, 2)
    await yard.clock.sleep(31 * 86400.0)
    yard.busy = None

    await yard.pruner.prune_once()

    assert await yard.left() == [1, 2, 999]


async def test_however_many_there_are_they_go_a_few_at_a_time_with_time_for_others_between(yard):
    await yard.end(*range(250))
    await yard.clock.sleep(31 * 86400.0)
    before = yard.clock.now()

    await yard.pruner.prune_once()

    assert await yard.left() == [999]
    assert yard.clock.now() - before >= timedelta(seconds=2 * BATCH_PAUSE)


async def test_no_unit_of_work_runs_meanwhile(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)

    async with yard.between:
        sweeping = asyncio.ensure_future(yard.pruner.prune_once())
        await yard.clock.sleep(1)
        during_a_turn = await yard.left()
    await sweeping

    assert during_a_turn == [1, 999]
    assert await yard.left() == [999]


async def test_killed_between_the_rows_and_the_logs_the_next_round_finishes_it(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)
    await yard.store.prune(yard.clock.now(), keep=(), limit=100)

    shown, kept = await yard.store.stream(_stream(job(number=1, attempts=(attempt(),)))), yard.logs()
    yard.busy = None
    await yard.pruner.prune_once()

    assert (shown, kept) == (None, 2)
    assert yard.logs() == 1
    assert await yard.store.deleted_log_ids(10) == ()


async def test_a_store_that_fails_is_tried_again_at_the_next_round(yard, caplog):
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


async def test_shares_that_nobody_uses_go_when_nothing_of_their_use_is_left(yard):
    keys = [ShareKey(QueueName("default"), str(number)) for number in range(300)]
    uses = tuple((key, ShareUse(as_of=yard.clock.now())) for key in keys)
    await yard.store.commit(Changes(shares=uses))
    await yard.pruner.prune_once()
    before = len(await yard.store.shares())
    await yard.clock.sleep(OLD_SHARES.total_seconds() + 1)

    await yard.pruner.prune_once()

    assert before == 300
    assert await yard.store.shares() == {}


async def test_a_failure_to_discard_a_log_loses_nothing(yard):
    await yard.end(1)
    await yard.clock.sleep(31 * 86400.0)
    yard.archive.discard = _failing

    with pytest.raises(StoreFailed):
        await yard.pruner.prune_once()

    assert len(await yard.store.deleted_log_ids(10)) == 1


async def _failing(log_id):
    raise StoreFailed(f"the log of task {log_id} cannot be removed")


async def test_a_container_that_comes_between_two_pages_keeps_its_job(yard):
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
