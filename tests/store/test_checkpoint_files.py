"""The checkpoint store with directories that a hostile container has made."""

import asyncio
import os
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from batchq.domain.training import MOUNT_POINT
from batchq.errors import StoreFailed
from batchq.ports.checkpoints import Mark, Moment
from batchq.store import checkpoint_files, checkpoint_removal
from batchq.store.checkpoint_files import CheckpointFiles
from batchq.system import host
from batchq.system.turns import working_for
from tests.support.builders import job_id

JOB = job_id(1)


@pytest.fixture
def outside(tmp_path):
    """A directory outside with a file, which must survive everything."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    yield folder
    assert (folder / "kept").read_text() == "kept"


@pytest.fixture
def store(tmp_path):
    store = CheckpointFiles(tmp_path / "checkpoints")
    yield store
    store.close()


@pytest.fixture
async def folder(store):
    return (await store.prepare(JOB, ended=True)).path


def listed(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.fault("CK04")
async def test_links_that_lead_out_are_neither_measured_nor_followed(store, folder, outside):
    (outside / "kept").write_text("kept")
    (folder / "link").symlink_to(outside)
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(outside)
    (folder / "a" / "file").symlink_to(outside / "kept")

    (found,) = await store.entries(JOB, ended=True)
    await store.discard_except(JOB, [])

    assert (found.name, found.size_bytes) == ("a", 0)
    assert await store.directory(JOB) is None


@pytest.mark.fault("CK04")
async def test_a_job_directory_that_is_a_link_is_not_used(store, folder, outside):
    folder.rmdir()
    folder.symlink_to(outside)

    assert await store.entries(JOB, ended=True) == ()
    await store.discard_except(JOB, [])
    with pytest.raises(StoreFailed):
        await store.prepare(JOB, ended=True)


@pytest.mark.exhaustive
@pytest.mark.fault("CK05")
async def test_a_directory_replaced_by_a_link_during_the_deletion_leads_nowhere(store, folder, outside):
    """A container process moves the directories and puts links in their place, as fast as it can."""
    done = threading.Event()

    def replace():
        while not done.is_set():
            for name in ("a", "b"):
                with suppress(OSError):
                    entry, moved = folder / name, folder / f"{name}.moved"
                    (entry / "inner").mkdir(parents=True, exist_ok=True)
                    entry.rename(moved)
                    entry.symlink_to(outside)
                    entry.unlink()
                    (moved / "inner" / "link").symlink_to(outside)

    container = threading.Thread(target=replace)
    container.start()
    try:
        for _ in range(200):
            await store.discard(JOB, ["a", "b", "a.moved", "b.moved"])
            await store.entries(JOB, ended=True)
    finally:
        done.set()
        container.join()


@pytest.mark.fault("CK06")
async def test_a_tree_deeper_than_any_path_is_deleted(store, folder):
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(1200):  # a path has at most 4,096 bytes, and Python 1,000 nested calls
        os.mkdir("down", dir_fd=deep)
        below = os.open("down", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)

    (found,) = await store.entries(JOB, ended=True)
    await store.discard(JOB, ["down"])

    assert found.name == "down"
    assert listed(folder) == listed(folder.parent / ".deleted") == []


@pytest.mark.fault("CK06")
async def test_of_very_many_entries_some_are_listed_and_all_are_deleted(store, folder, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "MAX_NAMES", 50)
    monkeypatch.setattr(checkpoint_files, "MAX_CHECKPOINTS", 20)
    monkeypatch.setattr(checkpoint_removal, "BATCH", 10)
    for number in range(200):
        (folder / f"{number}").mkdir()
        (folder / f"{number}" / "file").write_text("x")

    assert len(await store.entries(JOB, ended=True)) == 20
    await store.discard_except(JOB, [])
    assert await store.directory(JOB) is None


@pytest.mark.fault("CK06")
async def test_the_files_that_are_measured_are_bounded(store, folder, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "MAX_FILES", 10)
    (folder / "a").mkdir()
    for number in range(50):
        (folder / "a" / f"{number}").write_text("x")

    (found,) = await store.entries(JOB, ended=True)

    assert found.size_bytes == 10


@pytest.mark.fault("CK06")
async def test_a_deletion_that_reached_its_bound_is_continued_by_the_next(store, folder, monkeypatch):
    monkeypatch.setattr(checkpoint_removal, "MAX_REMOVALS", 5)
    monkeypatch.setattr(checkpoint_removal, "BATCH", 2)
    (folder / "a").mkdir()
    for number in range(20):
        (folder / "a" / f"{number}").write_text("x")

    await store.discard_except(JOB, [])
    left = len(list((folder.parent / ".deleted").rglob("*")))
    for _ in range(5):
        await store.prepare(JOB, ended=True)
        await store.discard_except(JOB, [])

    assert left > 0
    assert listed(folder.parent / ".deleted") == []


@pytest.mark.fault("CK07")
@pytest.mark.parametrize("name", [b"\xff\xfe.pt", b"new\nline", b"back\\slash", b"-rf", b" spaces ", b"\x1b[31m"])
async def test_odd_names_are_shown_escaped_and_deleted_by_that(store, folder, name):
    (folder / os.fsdecode(name)).touch()

    (found,) = await store.entries(JOB, ended=True)
    found.name.encode()
    assert found.name.isprintable()
    resumed = (await store.prepare(JOB, ended=True)).resume_from
    assert resumed in (None, f"{MOUNT_POINT}/{os.fsdecode(name)}")
    await store.discard(JOB, [found.name])

    assert listed(folder) == []


async def test_a_directory_without_permissions_is_deleted(store, folder):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)

    await store.entries(JOB, ended=True)
    await store.discard_except(JOB, [])

    assert await store.directory(JOB) is None


@pytest.mark.fault("CK03")
async def test_what_cannot_be_deleted_is_reported_and_does_not_prevent_the_rest(store, folder, monkeypatch):
    (folder / "a").write_text("x")
    (folder / "b").write_text("x")
    unlink = os.unlink

    def refuse(name, **more):
        if name == "a":
            raise PermissionError(1, "Operation not permitted", name)
        unlink(name, **more)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StoreFailed, match="Operation not permitted"):
        await store.discard_except(JOB, [])

    assert listed(folder) == ["a"]


async def test_a_disk_that_hangs_delays_one_check_and_the_next_ones_fail(store, monkeypatch):
    answer, calls = threading.Event(), []
    monkeypatch.setattr(checkpoint_files, "free_disk", lambda _: 2**40 if calls.append(1) or answer.wait(60) else 0)
    guard = store.disk_guard(min_free=1)

    for longest in (host.MAX_DISK_WAIT, 3600):
        monkeypatch.setattr(host, "MAX_DISK_WAIT", longest)
        with pytest.raises(StoreFailed, match="does not respond"):
            await guard.check()

    assert len(calls) == 1
    answer.set()
    guard._measurement.result()
    await guard.check()


async def test_the_free_space_of_a_checkpoint_disk_that_cannot_be_read_is_an_error(store, monkeypatch):
    def fail(_):
        raise StoreFailed("the free space is unknown")

    monkeypatch.setattr(checkpoint_files, "free_disk", fail)
    guard = store.disk_guard(min_free=1)

    for _ in range(2):
        with pytest.raises(StoreFailed, match="is unknown"):
            await guard.check()


@pytest.mark.fault("CK13")
async def test_a_disk_that_hangs_ends_each_read_and_each_mark_with_an_error(store, folder, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(checkpoint_files, "READ_TIMEOUT", 0.05)
    monkeypatch.setattr(checkpoint_files, "_names", lambda *_: iter(()) if answer.wait(60) else None)
    monkeypatch.setattr(Path, "is_dir", lambda _: answer.wait(60))
    moment = Moment(attempt=1, mark=Mark.STOP)
    calls = (
        store.directory(JOB),
        store.entries(JOB, ended=True),
        store.mark(JOB, moment),
        store.prepare(JOB, ended=True),
    )
    try:
        for call in calls:
            with pytest.raises(StoreFailed, match="does not answer within"):
                await call
    finally:
        answer.set()


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("call", ["of a reader", "of a disk guard"])
async def test_a_cancellation_that_comes_with_the_result_ends_the_caller(store, call, steps):
    """The thread has returned; the cancellation comes `steps` steps of the event loop later."""
    guard = host.NetworkDiskGuard(free=lambda: 1, min_free=1, directory="x", rejected="x")
    caller = asyncio.create_task(repeat(lambda: store.jobs(after=None, limit=1) if "reader" in call else guard.check()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the thread returns while the event loop is held

    for _ in range(steps):
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller], timeout=5)

    assert caller.cancelled()


async def repeat(call):
    """One call, and then a wait, as a loop of the server."""
    await call()
    await asyncio.Event().wait()


@pytest.mark.fault("SE25")
async def test_many_reads_of_one_user_delay_another_user_by_two_and_the_server_by_none(store):
    opened, done = threading.Event(), []

    def read(user):
        assert opened.wait(10)
        done.append(user)

    def begin(user):
        with working_for(user):
            return asyncio.ensure_future(store._in_thread(store._readers, partial(read, user), "a test"))

    reads = [begin("eve") for _ in range(5)] + [begin("ann")]
    assert await store.directory(JOB) is None
    opened.set()
    await asyncio.gather(*reads)

    assert done[:3] == ["eve", "eve", "ann"]


async def test_a_user_waits_neither_for_what_another_user_deletes_nor_for_the_server(store, monkeypatch):
    monkeypatch.setattr(checkpoint_removal, "STEP", 5, raising=False)
    monkeypatch.setattr(checkpoint_removal, "BATCH", 5)
    users, done = {job_id(1): "", job_id(2): "eve", job_id(3): "ann"}, []
    for job, user in users.items():
        checkpoint = (await store.prepare(job, ended=True)).path / "a"
        checkpoint.mkdir()
        for number in range(5 if user == "ann" else 50):
            (checkpoint / f"{number}").write_text("x")

    async def delete(job):
        with working_for(users[job]):
            await (store.discard(job, ["a"]) if users[job] else store.discard_except(job, []))
        done.append(users[job])

    held = threading.Event()
    store._remover.submit(held.wait)  # the thread of the server's deletions has work
    try:
        of_server = asyncio.create_task(delete(job_id(1)))
        await asyncio.gather(delete(job_id(2)), delete(job_id(3)))
    finally:
        held.set()
    await of_server

    assert done == ["ann", "eve", ""]
    assert [listed(store._path(job_id(number))) for number in (2, 3)] == [[], []]
    assert listed(store._root / ".deleted") == []
