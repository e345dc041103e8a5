"""On a full disk, writes use the space that the reserve releases."""

import sqlite3
from contextlib import closing

import pytest

from batchq.ports.jobs import Changes
from batchq.store import reserve as reserving
from batchq.store.reserve import NAME, PIECE_BYTES, Reserve
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import job


class FullDisk:
    """A disk that has no more room than what was given up of the reserve."""

    def __init__(self, folder, *, wanted):
        self._file = folder / NAME
        self._wanted = wanted
        self.calls = 0

    def __call__(self, connection):
        self.calls += 1
        given_up = 4 * PIECE_BYTES - self._file.stat().st_size
        if given_up < self._wanted:
            connection.execute("PRAGMA max_page_count = 1")
            connection.execute("CREATE TABLE t (x)")
        return "saved"


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as opened:
        yield opened


@pytest.fixture
def reserve(tmp_path):
    made = Reserve(tmp_path, size=4 * PIECE_BYTES, min_free=0)
    made.allocate()
    return made


@pytest.mark.fault("SE27")
def test_a_write_on_a_full_disk_releases_as_many_pieces_as_it_needs(reserve, connection, tmp_path):
    write = FullDisk(tmp_path, wanted=2 * PIECE_BYTES)

    assert reserve.trouble is None
    assert reserve.retry_when_full(write, connection) == "saved"
    assert (write.calls, reserve.trouble) == (3, "2 of 4 MiB are left of the disk space reserved for job ends")


def test_a_write_fails_once_the_reserve_is_used_up(reserve, connection, tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="full"):
        reserve.retry_when_full(FullDisk(tmp_path, wanted=5 * PIECE_BYTES), connection)


def test_the_reserve_allocates_blocks_and_is_restored_when_there_is_space(reserve, connection, tmp_path, monkeypatch):
    reserve.retry_when_full(FullDisk(tmp_path, wanted=PIECE_BYTES), connection)
    monkeypatch.setattr(reserving, "free_disk", lambda _: PIECE_BYTES - 1)
    reserve.allocate()
    assert reserve.trouble is not None
    monkeypatch.setattr(reserving, "free_disk", lambda _: PIECE_BYTES)
    reserve.allocate()

    assert reserve.trouble is None
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 4 * PIECE_BYTES


def test_the_target_of_a_symbolic_link_is_not_truncated(reserve, connection, tmp_path):
    (tmp_path / "another").write_bytes(b"x" * 10)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).symlink_to(tmp_path / "another")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        reserve.retry_when_full(FullDisk(tmp_path, wanted=5 * PIECE_BYTES), connection)

    assert (tmp_path / "another").stat().st_size == 10


async def test_a_check_of_the_store_restores_the_reserve(tmp_path):
    store = await SqliteStore.open(tmp_path, reserve=4 * PIECE_BYTES, min_free=0)
    (tmp_path / NAME).unlink()
    await store.commit(Changes(inserted=(job(),)))
    await store.check()
    trouble = store.reserve_trouble
    await store.close()

    assert trouble is None
