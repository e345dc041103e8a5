"""Output is stored up to a quota, and the log reports where it ended."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import ROTATED_LOG
from batchq.domain.access.accounts import Account, AccountLimits, AccountName, Directory, Owner, UserName
from batchq.domain.enums import Status
from batchq.domain.scheduling.quotas import NO_QUOTAS, Quotas
from batchq.logs.capture import ENGINE_LOG_BYTES, LogCapture
from batchq.logs.quota import AccountLogs, LogQuota
from batchq.ports.jobs import Changes
from batchq.system.host import MIB, DiskGuard
from tests.logs.conftest import TAG
from tests.logs.fakes import SECOND
from tests.support.builders import job, log_stream

LINE = "x" * (MIB // 8)
LABA, LABB = AccountName("laba"), AccountName("labb")


class Disk:
    """A disk of which `free` bytes are left, 64 MiB of them for what is under way."""

    def __init__(self):
        self.free = 2**40
        self.disk_guard = DiskGuard(free=lambda: self.free, min_free=64 * MIB)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def usage(store, archive):
    return AccountLogs(store=store, archive=archive)


@pytest.fixture
def capture_with(engine, archive, clock, disk, usage):
    def make(*, container_mib=None, quotas=NO_QUOTAS):
        quota = LogQuota(
            container_mib=container_mib, disk_guard=disk.disk_guard, quotas=lambda: quotas, usage=usage, clock=clock
        )
        return LogCapture(archive=archive, runtime=engine, clock=clock, quota=quota)

    return make


async def stored(archive, tag=TAG):
    return [line.message for line in (await archive.read(tag.log_id, position=0, limit=100, max_bytes=2**40)).lines]


@pytest.mark.fault("SE27")
async def test_a_log_at_its_quota_ends_with_one_annotation(capture_with, engine, archive):
    capture = capture_with(container_mib=2)
    engine.write(TAG, *[LINE] * 80)

    await capture.capture(TAG)
    await capture.capture(TAG)

    *lines, last = await stored(archive)
    assert lines == [LINE] * 16
    assert "log capture stopped: --log-mib 2" in last
    assert "2.0 MiB of this log are stored. Later output is lost" in last


async def test_refused_output_is_not_read_again(capture_with, engine, clock):
    capture = capture_with(container_mib=1)
    engine.write(TAG, *[LINE] * 16)
    for _ in range(3):
        clock.pass_seconds(1)
        await capture.copy_new(TAG, max_age=timedelta(0))

    assert len(engine.reads) == 1


@pytest.mark.fault("SE27")
async def test_below_the_minimum_free_space_nothing_is_stored(capture_with, engine, archive, disk):
    capture = capture_with()
    engine.write(TAG, "a", at=10 * SECOND)
    await capture.capture(TAG)
    disk.free = 63 * MIB
    engine.write(TAG, "b", at=20 * SECOND)
    await capture.capture(TAG)
    await capture.capture(TAG)
    disk.free = 64 * MIB
    await capture.capture(TAG)

    first, stop, second = await stored(archive)
    assert (first, second) == ("a", "b")
    assert "the disk of batchq's data is nearly full" in stop


async def test_on_a_full_disk_no_annotation_is_stored(capture_with, engine, archive, disk):
    capture, disk.free = capture_with(), 31 * MIB
    engine.write(TAG, "a")

    await capture.copy_new(TAG, max_age=timedelta(0))
    reads = len(engine.reads)
    await capture.capture(TAG)

    assert reads == 0
    assert await stored(archive) == []


async def job_of(store, account, number):
    """The container of a job of an account."""
    of = job(number=number, status=Status.RUNNING, owner=Owner(user=UserName("ann"), account=account))
    stream = replace(log_stream(of), owner=of.spec.owner)
    await store.commit(Changes(inserted=(of,), streams=(stream,)))
    return stream.tag


@pytest.mark.fault("SE27")
async def test_the_quota_of_an_account_includes_its_descendants(capture_with, engine, archive, store, usage):
    below = Account(name=LABB, parent=LABA)
    quotas = Quotas(Directory(accounts={LABA: Account(name=LABA, limits=AccountLimits(log_mib=2)), LABB: below}))
    capture = capture_with(quotas=quotas)
    first, second, third = [await job_of(store, account, n) for n, account in enumerate((LABA, LABB, LABA))]
    for tag in (first, second, third):
        engine.write(tag, *[LINE] * 8)
        await capture.capture(tag)

    assert [len(await stored(archive, log)) for log in (first, second, third)] == [8, 8, 1]
    assert "limit of account laba for all its stored logs" in (await stored(archive, third))[0]

    await usage.discard(first.log_id)
    await capture.capture(third)
    assert (await stored(archive, third))[1:] == [LINE] * 8


async def test_the_size_of_all_logs_follows_appends_and_deletions(capture_with, engine, archive, store, usage):
    capture = capture_with()
    first, second = [await job_of(store, LABA, number) for number in range(2)]
    engine.write(first, LINE)
    engine.write(second, LINE, LINE)
    await capture.capture(first)

    assert await usage.total.read() == await archive.total([first.log_id])
    await capture.capture(second)
    assert await usage.total.read() == await archive.total([first.log_id, second.log_id])
    await usage.discard(first.log_id)
    assert await usage.total.read() == await archive.total([second.log_id]) == await archive.stored_bytes()
    await usage.total.close()


def test_the_engine_stores_as_much_as_batchq_configures():
    size, files = ROTATED_LOG["Config"]["max-size"], int(ROTATED_LOG["Config"]["max-file"])
    assert int(size.removesuffix("m")) * 10**6 * (files - 1) == ENGINE_LOG_BYTES
