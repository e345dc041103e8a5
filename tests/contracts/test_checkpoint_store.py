"""The contract of every checkpoint store."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from batchq.errors import Invalid
from batchq.ports.checkpoints import CheckpointType, Mark, Moment
from batchq.store.checkpoint_files import CheckpointFiles
from tests.support.builders import job_id
from tests.support.inline import InlineCheckpointFiles

JOB, OTHER = job_id(1), job_id(2)
STOP, FINAL = (Moment(attempt=1, mark=mark) for mark in Mark)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Disk:
    """A checkpoint store whose time is that of the entries, and entries written with a time."""

    def __init__(self, make, root):
        self.now = NOON
        self.store = make(root, now=lambda: self.now, changed_at=lambda value: value.st_mtime_ns)
        self.root = root

    async def folder(self, job=JOB):
        return await self.store.directory(job) or (await self.store.prepare(job, ended=True)).path

    async def write(self, name, *, at=NOON, size=3, job=JOB):
        path = (await self.folder(job)) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        for parent in (path, *path.parents):
            if parent == self.root / job:
                break
            os.utime(parent, (at.timestamp(), at.timestamp()))

    def listed(self):
        return sorted(path.name for path in (self.root / JOB).iterdir())

    async def names(self, *, ended=True, job=JOB):
        return [entry.name for entry in await self.store.entries(job, ended=ended)]


@pytest.fixture(params=[CheckpointFiles, InlineCheckpointFiles])
def disk(request, tmp_path):
    disk = Disk(request.param, tmp_path / "checkpoints")
    yield disk
    disk.store.close()


async def test_a_job_without_a_directory_has_no_checkpoints(disk):
    assert await disk.store.directory(JOB) is None
    assert await disk.names() == []
    assert await disk.store.jobs(after=None, limit=10) == ()


async def test_the_checkpoints_of_a_job_are_listed_oldest_first(disk):
    await disk.write("step-20.pt", at=NOON)
    await disk.write("step-10.pt", at=NOON - timedelta(minutes=1), size=5)
    await disk.write("other.pt", job=OTHER)

    first, second = await disk.store.entries(JOB, ended=True)

    assert (first.name, first.step, first.size_bytes) == ("step-10.pt", 10, 5)
    assert (second.name, second.created_at, second.complete) == ("step-20.pt", NOON, True)
    assert first.id != second.id
    assert first.id.startswith("ckpt_")


async def test_a_directory_is_one_checkpoint_of_the_size_of_its_files(disk):
    await disk.write("epoch_3/model/weights", size=10)
    await disk.write("epoch_3/optimizer", size=7)

    (found,) = await disk.store.entries(JOB, ended=True)

    assert (found.name, found.epoch, found.size_bytes) == ("epoch_3", 3, 17)


@pytest.mark.parametrize("name", [".hidden", "a.tmp", "a.part", "a.partial", "metrics.jsonl"])
async def test_temporary_entries_and_metrics_are_not_checkpoints(disk, name):
    await disk.write(name)

    assert await disk.names() == []


async def test_links_and_special_files_are_not_checkpoints(disk):
    folder = await disk.folder()
    (folder / "latest").symlink_to("/etc")
    os.mkfifo(folder / "pipe")

    assert await disk.names() == []


async def test_a_checkpoint_of_a_running_job_is_complete_two_seconds_after_its_last_change(disk):
    await disk.write("a/part-1", at=NOON - timedelta(seconds=30))
    await disk.write("a/part-2", at=NOON - timedelta(seconds=1))

    before = (await disk.store.entries(JOB, ended=False))[0].complete
    disk.now = NOON + timedelta(seconds=1)

    assert (before, (await disk.store.entries(JOB, ended=False))[0].complete) == (False, True)


async def test_the_next_attempt_resumes_from_the_newest_checkpoint(disk):
    await disk.write("a", at=NOON)
    await disk.write("b", at=NOON - timedelta(minutes=1))
    await disk.write("c.tmp", at=NOON + timedelta(minutes=1))

    assert (await disk.store.prepare(JOB, ended=True)).resume_from == "/opt/ml/checkpoints/a"


async def test_the_first_attempt_resumes_from_nothing(disk):
    assert (await disk.store.prepare(JOB, ended=True)).resume_from is None


async def test_users_of_any_id_can_write_into_the_directory_and_no_other_user_enters_it_on_the_host(disk):
    folder = await disk.folder()

    assert folder.stat().st_mode & 0o777 == 0o777
    assert folder.parent.stat().st_mode & 0o777 == 0o700


async def test_the_first_checkpoint_after_a_request_is_manual(disk):
    for minute in range(4):
        await disk.write(f"step-{minute}", at=NOON + timedelta(minutes=minute))
        if minute in (1, 3):
            await disk.store.record_request(JOB)

    types = [entry.type for entry in await disk.store.entries(JOB, ended=True)]

    assert types == [CheckpointType.AUTOMATIC] * 2 + [CheckpointType.MANUAL, CheckpointType.AUTOMATIC]


async def test_checkpoints_that_were_written_or_changed_after_a_moment_are_selected_whatever_the_clock_shows(disk):
    for name in ("before", "changed"):
        await disk.write(name, at=NOON)
    await disk.store.mark(JOB, STOP)
    await disk.write("changed", at=NOON - timedelta(minutes=1))
    await disk.store.mark(JOB, STOP)
    await disk.write("after", at=NOON - timedelta(hours=1))

    assert [entry.name for entry in await disk.store.entries(JOB, ended=True, since=STOP)] == ["after", "changed"]
    assert await disk.store.entries(JOB, ended=True, since=FINAL) == ()


async def test_checkpoints_from_after_a_moment_are_newer_than_those_from_before_although_the_clock_was_set_back(disk):
    await disk.write("a", at=NOON)
    await disk.store.mark(JOB, STOP)
    await disk.write("b", at=NOON - timedelta(hours=1))
    await disk.store.mark(JOB, FINAL)
    await disk.write("c", at=NOON - timedelta(hours=2))
    await disk.store.mark(JOB, None)
    await disk.write("d", at=NOON - timedelta(hours=3))
    await disk.store.mark(JOB, None)
    await disk.write("e", at=NOON - timedelta(hours=4))

    assert await disk.names() == ["a", "b", "c", "d", "e"]


async def test_each_attempt_continues_from_what_the_last_one_wrote_although_the_clock_was_set_back(disk):
    for hours, name in enumerate(("a", "b")):
        await disk.store.prepare(JOB, ended=True)
        await disk.write(name, at=NOON - timedelta(hours=hours))

    assert (await disk.store.prepare(JOB, ended=True)).resume_from == "/opt/ml/checkpoints/b"


async def test_an_attempt_continues_from_the_final_checkpoint_of_the_pause_unless_a_newer_one_was_written(disk):
    await disk.write("a", at=NOON)
    await disk.store.mark(JOB, STOP)
    await disk.write("automatic", at=NOON)
    await disk.write("final", at=NOON - timedelta(hours=1))
    await disk.store.mark(JOB, FINAL)

    final = (await disk.store.prepare(JOB, ended=False, final=(FINAL, "final"))).resume_from
    await disk.write("later", at=NOON - timedelta(hours=2))
    later = (await disk.store.prepare(JOB, ended=True, final=(FINAL, "final"))).resume_from

    assert [final, later] == ["/opt/ml/checkpoints/final", "/opt/ml/checkpoints/later"]
    assert (await disk.store.prepare(JOB, ended=True, final=(FINAL, "gone"))).resume_from == later


async def test_an_attempt_continues_from_a_checkpoint_that_was_not_complete_when_the_final_one_was_found(disk):
    await disk.write("a", at=NOON)
    await disk.store.mark(JOB, STOP)
    await disk.write("final", at=NOON + timedelta(seconds=10))
    await disk.write("last", at=NOON + timedelta(seconds=14))
    disk.now = NOON + timedelta(seconds=15)
    await disk.store.mark(JOB, FINAL, ended=False)

    assert [entry.name for entry in await disk.store.entries(JOB, ended=True, since=FINAL)] == ["last"]
    for _ in ("the first container of the attempt", "the second one, before the first one runs"):
        prepared = await disk.store.prepare(JOB, ended=True, final=(FINAL, "final"))
        assert prepared.resume_from == "/opt/ml/checkpoints/last"


async def test_a_checkpoint_from_before_an_earlier_moment_never_counts_as_written_after_a_later_one(disk):
    await disk.write("a", at=NOON)
    await disk.store.mark(JOB, STOP)
    disk.now = NOON + timedelta(seconds=1)
    await disk.store.mark(JOB, FINAL, ended=False)

    assert await disk.store.entries(JOB, ended=True, since=FINAL) == ()


async def test_the_moments_of_an_attempt_end_with_the_first_container_of_the_next_one(disk):
    await disk.write("a")
    await disk.store.mark(JOB, STOP)
    await disk.store.prepare(JOB, ended=False)
    await disk.write("b", at=NOON + timedelta(minutes=1))
    assert [entry.name for entry in await disk.store.entries(JOB, ended=True, since=STOP)] == ["b"]

    await disk.store.prepare(JOB, ended=True)

    assert await disk.store.entries(JOB, ended=True, since=STOP) == ()


async def test_a_damaged_file_of_marks_counts_as_no_marks(disk):
    await disk.write("a")
    await disk.store.mark(JOB, STOP)
    (disk.root / f"{JOB}.marks").write_bytes(b"{\xff")

    assert await disk.store.entries(JOB, ended=True, since=STOP) == ()
    await disk.store.mark(JOB, STOP)
    assert await disk.names() == ["a"]


async def test_a_mark_of_a_job_without_a_directory_has_no_effect(disk):
    await disk.store.mark(JOB, STOP)
    await disk.store.record_request(JOB)

    assert not disk.root.exists()


async def test_a_checkpoint_from_before_the_clock_was_set_back_is_complete(disk):
    await disk.write("a", at=NOON)
    disk.now = NOON - timedelta(hours=1)

    assert [entry.complete for entry in await disk.store.entries(JOB, ended=False)] == [True]


async def test_named_checkpoints_are_deleted(disk):
    for name in ("a/inside", "b", "c.tmp"):
        await disk.write(name)

    await disk.store.discard(JOB, ["a", "c.tmp", "missing"])
    await disk.store.discard(JOB, ["a"])

    assert disk.listed() == ["b", "c.tmp"]


async def test_everything_but_the_named_entries_is_deleted(disk):
    for name in ("a/inside", "b", "c.tmp", "metrics.jsonl"):
        await disk.write(name)
    (await disk.folder() / "latest").symlink_to("b")

    await disk.store.discard_except(JOB, ["b", "metrics.jsonl"])

    assert disk.listed() == ["b", "metrics.jsonl"]


async def test_an_empty_directory_is_deleted_with_its_last_entry(disk):
    await disk.write("a/inside")
    await disk.store.record_request(JOB)

    await disk.store.discard_except(JOB, [])
    await disk.store.discard_except(JOB, [])

    assert await disk.store.directory(JOB) is None
    assert [path for path in disk.root.iterdir() if not path.name.startswith(".")] == []


async def test_temporary_entries_are_deleted_alone(disk):
    for name in (".x/inside", "a.tmp", "b"):
        await disk.write(name)

    await disk.store.discard_temporary(JOB)

    assert disk.listed() == ["b"]


async def test_jobs_with_a_directory_are_read_in_pages(disk):
    for number in range(1, 4):
        await disk.folder(job_id(number))
    await disk.store.record_request(JOB)

    first = await disk.store.jobs(after=None, limit=2)

    assert first == (job_id(1), job_id(2))
    assert await disk.store.jobs(after=first[-1], limit=2) == (job_id(3),)


@pytest.mark.parametrize("bad", ["", "..", "../etc", "a/b", ".deleted", "a\n", "a\0", "x" * 200])
async def test_an_id_that_is_not_one_component_of_a_path_is_refused(disk, bad):
    with pytest.raises(Invalid):
        await disk.store.directory(bad)
    for call in (
        disk.store.prepare(bad, ended=True),
        disk.store.discard(bad, ["x"]),
        disk.store.entries(bad, ended=True),
    ):
        with pytest.raises(Invalid):
            await call


async def test_the_time_of_a_change_is_that_of_the_disk_and_not_of_the_container(tmp_path):
    store = CheckpointFiles(tmp_path / "checkpoints")
    folder = (await store.prepare(JOB, ended=True)).path
    (folder / "a").write_text("x")
    os.utime(folder / "a", (0, 0))

    (found,) = await store.entries(JOB, ended=False)

    assert abs(found.created_at.timestamp() - time.time()) < 60
    assert not found.complete
    store.close()


async def test_only_the_end_of_a_large_file_of_metrics_is_read(disk):
    (await disk.folder() / "metrics.jsonl").write_bytes(b"a" * 2**20 + b"b" * 2**20)

    assert await disk.store.metrics(JOB) == b"b" * 2**20


@pytest.mark.fault("BU05")
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda value: value.symlink_to("/etc/passwd"), lambda value: None]
)
async def test_metrics_that_are_not_a_file_are_empty(disk, make):
    make(await disk.folder() / "metrics.jsonl")

    assert await disk.store.metrics(JOB) == b""
    assert await disk.store.metrics(OTHER) == b""
