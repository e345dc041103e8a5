"""After a clean shutdown the database is used at once and checked in the background; otherwise it is checked first."""

import os
import threading

import pytest

from batchq.errors import StoreLost, StoreRefused
from batchq.store import lock
from batchq.store.database import NAME, open_database
from batchq.store.integrity import CleanShutdownMarker, background_check
from batchq.store.lock import DataLock, locked_data
from batchq.store.sqlite_store import SqliteStore
from tests.support.containers import until
from tests.support.examples import quick_seeds


def ruin(data):
    """Overwrite a page of the database in place."""
    with (data / NAME).open("r+b") as file:
        middle = (data / NAME).stat().st_size // 2 // 4096 * 4096
        os.pwrite(file.fileno(), b"\xff" * 4096, middle)


def mark_again(data):
    """Record a clean shutdown again, as if the disk had changed the file afterwards."""
    with locked_data(data) as held:
        marker = CleanShutdownMarker(held, data / NAME)
        marker.record_open()
        marker.write()


def is_marked(data):
    return len((data / lock.NAME).read_text().splitlines()) == 2


async def is_lost(database):
    try:
        await database.check()
    except StoreLost:
        return True
    return False


async def is_over():
    return all(item.name != "integrity-check" for item in threading.enumerate())


@pytest.mark.fault("DB09")
async def test_damage_after_a_clean_shutdown_is_found_in_the_background_and_stops_the_server(left):
    ruin(left)
    mark_again(left)

    database = await open_database(left, delay=0.0)
    await until(lambda: is_lost(database))
    with pytest.raises(StoreLost, match=r"batchq\.db is damaged: "):
        await database.check()
    await database.close()

    assert not is_marked(left)
    with pytest.raises(StoreRefused, match="is damaged: "):
        await open_database(left)


async def test_a_failed_background_check_is_repeated_at_the_next_start(left, caplog):
    """The check fails, because the file is missing."""
    with locked_data(left) as held:
        marker = CleanShutdownMarker(held, left / NAME)
        whole = marker.remove()
        marker.record_open()
        with background_check(left / "nowhere" / NAME, 0.0, on_failure=marker.withhold) as reading:
            await until(is_over)
        marker.write()

    assert (whole, reading.damage, is_marked(left)) == (True, None, False)
    assert "integrity check failed" in caplog.text


async def test_a_passed_background_check_keeps_the_marker(left):
    database = await open_database(left, delay=0.0)
    await until(is_over)

    await database.check()
    await database.close()

    assert is_marked(left)


@pytest.mark.fault("DB09")
@pytest.mark.parametrize("_time", quick_seeds(5, of=20))
async def test_a_change_right_after_the_shutdown_invalidates_the_marker(left, _time):
    ruin(left)

    with pytest.raises(StoreRefused, match="is damaged: "):
        await open_database(left)


async def test_an_open_or_killed_server_leaves_no_marker(left):
    before = is_marked(left)

    store = await SqliteStore.open(left)
    meanwhile = is_marked(left)
    await store.close()

    assert (before, meanwhile, is_marked(left)) == (True, False, True)


@pytest.mark.fault("DB08")
async def test_a_replaced_file_gets_no_marker(left):
    store = await SqliteStore.open(left)
    (left / "copy").write_bytes((left / NAME).read_bytes())
    (left / "copy").replace(left / NAME)

    await store.close()

    assert not is_marked(left)


async def test_a_write_ahead_log_invalidates_the_marker(left):
    (left / "batchq.db-wal").touch()

    with locked_data(left) as held:
        intact = CleanShutdownMarker(held, left / NAME).remove()

    assert not intact
    assert not is_marked(left)


@pytest.mark.parametrize("note", ["{instance}\n", "{instance}\n12 34", "{instance}\n{marker} 1", "{instance}\n\xff\n"])
async def test_a_truncated_lock_file_has_no_marker_but_the_instance(left, note):
    instance, marker = (left / lock.NAME).read_text().splitlines()
    (left / lock.NAME).write_text(note.format(instance=instance, marker=marker))

    with locked_data(left) as held:
        known = held.instance
        intact = CleanShutdownMarker(held, left / NAME).remove()

    assert known == instance.split()[0]
    assert not intact


async def test_an_unwritable_marker_is_not_an_error(left):
    with locked_data(left) as held:
        CleanShutdownMarker(held, left / NAME).remove()
    descriptor = os.open(left / lock.NAME, os.O_RDONLY)
    marker = CleanShutdownMarker(DataLock(descriptor), left / NAME)
    marker.record_open()

    marker.write()
    os.close(descriptor)

    assert not is_marked(left)
