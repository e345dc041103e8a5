"""A database that was left whole is used at once, and read through beside that; any other is read through before."""

import os
import threading

import pytest

from batchq.errors import StoreLost, StoreRefused
from batchq.store import lock
from batchq.store.database import NAME, open_database
from batchq.store.integrity import CleanShutdownMarker, background_check
from batchq.store.lock import DataLock, locked
from batchq.store.sqlite_store import SqliteStore
from tests.support.containers import until


def ruin(data):
    """A page of it, in place."""
    with (data / NAME).open("r+b") as file:
        middle = (data / NAME).stat().st_size // 2 // 4096 * 4096
        os.pwrite(file.fileno(), b"\xff" * 4096, middle)


def seal_again(data):
    """As if what was done to the file had been done beneath it, by its disk."""
    with locked(data) as held:
        seal = CleanShutdownMarker(held, data / NAME)
        seal.record_open()
        seal.write()


def is_sealed(data):
    return len((data / lock.NAME).read_text().splitlines()) == 2


async def is_lost(database):
    try:
        await database.check()
    except StoreLost:
        return True
    return False


async def is_over():
    return all(it.name != "integrity-check" for it in threading.enumerate())


@pytest.mark.fault("DB09")
async def test_what_its_disk_did_to_a_sealed_database_is_found_while_it_is_used_and_that_is_its_end(left):
    ruin(left)
    seal_again(left)

    database = await open_database(left, delay=0.0)
    await until(lambda: is_lost(database))
    with pytest.raises(StoreLost, match=r"batchq\.db is damaged: "):
        await database.check()
    await database.close()

    assert not is_sealed(left)
    with pytest.raises(StoreRefused, match="is damaged: "):
        await open_database(left)


async def test_one_of_which_a_part_cannot_be_read_is_used_and_read_first_at_the_next_start(left, caplog):
    """As its disk may refuse it; here the whole file is not where it is looked for."""
    with locked(left) as held:
        seal = CleanShutdownMarker(held, left / NAME)
        whole = seal.remove()
        seal.record_open()
        with background_check(left / "nowhere" / NAME, 0.0, on_failure=seal.withhold) as reading:
            await until(is_over)
        seal.write()

    assert (whole, reading.damage, is_sealed(left)) == (True, None, False)
    assert "integrity check failed" in caplog.text


async def test_one_that_is_whole_goes_on_when_it_was_read_through(left):
    database = await open_database(left, delay=0.0)
    await until(is_over)

    await database.check()
    await database.close()

    assert is_sealed(left)


@pytest.mark.fault("DB09")
@pytest.mark.parametrize("_time", range(20))
async def test_a_change_right_after_the_end_breaks_the_seal(left, _time):
    ruin(left)

    with pytest.raises(StoreRefused, match="is damaged: "):
        await open_database(left)


async def test_there_is_no_seal_while_it_is_open_nor_after_an_end_without_ceremony(left):
    sealed = is_sealed(left)

    store = await SqliteStore.open(left)
    meanwhile = is_sealed(left)
    await store.close()

    assert (sealed, meanwhile, is_sealed(left)) == (True, False, True)


@pytest.mark.fault("DB08")
async def test_another_file_in_its_place_is_not_sealed(left):
    store = await SqliteStore.open(left)
    (left / "copy").write_bytes((left / NAME).read_bytes())
    (left / "copy").replace(left / NAME)

    await store.close()

    assert not is_sealed(left)


async def test_what_stands_in_a_log_beside_it_is_under_no_seal(left):
    (left / "batchq.db-wal").touch()

    with locked(left) as held:
        intact = CleanShutdownMarker(held, left / NAME).remove()

    assert not intact
    assert not is_sealed(left)


@pytest.mark.parametrize("note", ["{instance}\n", "{instance}\n12 34", "{instance}\n{seal} 1", "{instance}\n\xff\n"])
async def test_a_note_of_before_or_one_that_was_cut_short_is_no_seal_and_says_whose_data_it_is(left, note):
    instance, seal = (left / lock.NAME).read_text().splitlines()
    (left / lock.NAME).write_text(note.format(instance=instance, seal=seal))

    with locked(left) as held:
        known = held.instance
        intact = CleanShutdownMarker(held, left / NAME).remove()

    assert known == instance.split()[0]
    assert not intact


async def test_a_sealed_database_that_was_replaced_by_a_copy_is_read_through_first(left):
    ruined = left / "copy"
    ruined.write_bytes((left / NAME).read_bytes())
    ruined.replace(left / NAME)
    ruin(left)

    with pytest.raises(StoreRefused, match="is damaged: "):
        await open_database(left)


async def test_a_seal_that_cannot_be_written_is_none_and_no_failure(left):
    with locked(left) as held:
        CleanShutdownMarker(held, left / NAME).remove()
    descriptor = os.open(left / lock.NAME, os.O_RDONLY)
    seal = CleanShutdownMarker(DataLock(descriptor), left / NAME)
    seal.record_open()

    seal.write()
    os.close(descriptor)

    assert not is_sealed(left)
