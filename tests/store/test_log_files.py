"""Properties of log files alone: torn and damaged records, permissions, failed writes."""

import asyncio
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from batchq.errors import Invalid, StoreFailed
from batchq.ports.logs import LogLine
from batchq.store.log_files import BLOCK_BYTES, LogFiles
from tests.house.rooms import ROOT

TASK = "0123456789abcdef" * 2
ALL = 10**9


@pytest.fixture
def files(tmp_path):
    with closing(LogFiles(tmp_path / "logs")) as files:
        yield files


@pytest.fixture
def file(tmp_path):
    return tmp_path / "logs" / TASK[:2] / f"{TASK}.log"


def line(message, at=1):
    return LogLine(at=at, message=message)


async def messages(files, position=0):
    page = await files.read(TASK, position=position, limit=ALL, max_bytes=ALL)
    return [other_line.message for other_line in page.lines]


async def messages_back(files):
    page = await files.read_back(TASK, position=None, limit=ALL, max_bytes=ALL)
    return [other_line.message for other_line in page.lines]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.fault("SE14")
async def test_log_files_are_readable_only_by_their_owner(files, file):
    await files.append(TASK, [line("secret")])

    assert [mode(path) for path in (file.parent.parent, file.parent, file)] == [0o700, 0o700, 0o600]


async def test_a_read_creates_no_file(files, file):
    await messages(files)

    assert not file.parent.parent.exists()


async def test_a_record_is_a_readable_line_of_text(files, file):
    await files.append(TASK, [line('é "b"\n', at=7), line("late", at=5)])

    assert file.read_text() == '7 0 "é \\"b\\"\\n"\n7 2 "late"\n'


async def test_stored_logs_survive_a_restart(files, file):
    await files.append(TASK, [line("a", at=7)])

    with closing(LogFiles(file.parent.parent)) as again:
        assert await messages(again) == ["a"]
        assert await again.last(TASK) == 7


# ---------------------------------------------------------------------------------------------------------------- torn


@pytest.mark.parametrize(
    "rest", [b"1", b"9 0", b'9 0 "tor', b'9 0 "torn"', b"\0" * 10, b"\0" * 3 * BLOCK_BYTES, b'9 0 "\xc3']
)
async def test_a_torn_record_is_not_read(files, file, rest):
    await files.append(TASK, [line("whole", at=5)])
    with file.open("ab") as torn:
        torn.write(rest)

    assert await messages(files) == await messages_back(files) == ["whole"]
    assert await files.last(TASK) == 5
    assert await files.seek(TASK, 6) == await files.size(TASK) == file.stat().st_size - len(rest)


async def test_the_next_append_removes_a_torn_record(files, file):
    await files.append(TASK, [line("whole")])
    with file.open("ab") as torn:
        torn.write(b'9 0 "torn and longer than what follows')

    await files.append(TASK, [line("b")])

    assert file.read_text() == '1 0 "whole"\n1 0 "b"\n'


async def test_a_log_that_is_one_torn_record_is_empty(files, file):
    await files.append(TASK, [line("a")])
    file.write_bytes(b"17")

    assert await messages(files) == await messages_back(files) == []
    assert await files.last(TASK) == 0


async def test_a_damaged_record_is_shown_and_hides_no_others(files, file):
    await files.append(TASK, [line("a", at=5)])
    with file.open("ab") as damaged:
        damaged.write(b"\0\xff\0 junk\n")
    assert await files.last(TASK) == 5
    await files.append(TASK, [line("b", at=6)])

    assert await messages(files) == await messages_back(files) == ["a", "\0\ufffd\0 junk", "b"]


# ----------------------------------------------------------------------------------------------------------- positions


async def test_a_position_inside_a_record_is_refused(files, file):
    await files.append(TASK, [line("abc\n1 0 "), line("d")])
    boundaries = {0, file.read_bytes().index(b"\n") + 1, file.stat().st_size}

    refused = [index for index in range(file.stat().st_size + 2) if await is_refused(files, index)]

    assert refused == [index for index in range(file.stat().st_size + 2) if index not in boundaries]


async def is_refused(files, position):
    try:
        await files.read(TASK, position=position, limit=1, max_bytes=ALL)
    except Invalid:
        return True
    return False


@pytest.mark.parametrize(
    "length", [BLOCK_BYTES - 8, BLOCK_BYTES - 7, BLOCK_BYTES - 6, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES]
)
async def test_records_that_end_at_a_block_are_read_whole(files, length):
    texts = ["a" * length, "b" * length, "c"]
    await files.append(TASK, [line(text, at=number) for number, text in enumerate(texts, start=1)])

    assert await messages_back(files) == texts
    assert await messages(files, await files.seek(TASK, 2)) == texts[1:]


# ---------------------------------------------------------------------------------------------------------------- disk


async def test_a_failed_write_is_reported(files, file):
    file.parent.parent.mkdir()
    file.parent.write_text("a file where a folder should be")

    with pytest.raises(StoreFailed, match=TASK):
        await files.append(TASK, [line("a")])


@pytest.mark.process
def test_an_append_is_acknowledged_only_when_it_is_durable(files, file):
    """Every fsync fails with an input/output error: an append that calls none would succeed."""
    asyncio.run(files.append(TASK, [line("a")]))

    program = [sys.executable, "-c", APPEND, file.parent.parent, TASK]
    process = subprocess.run(program, check=False, cwd=ROOT, capture_output=True, text=True)

    assert (process.stdout, process.returncode) == ("StoreFailed\n", 0), process.stderr


APPEND = """
import asyncio, sys
from pathlib import Path
from batchq.errors import StoreFailed
from batchq.store.log_files import LogFiles
from batchq.ports.logs import LogLine
from tests.store.failing_fsync import fail_fsync
files = LogFiles(Path(sys.argv[1]))
fail_fsync()
try:
    asyncio.run(files.append(sys.argv[2], [LogLine(at=1, message="b")]))
except StoreFailed as why:
    print(type(why).__name__)
files.close()
"""


async def test_a_symbolic_link_in_place_of_a_log_is_not_followed(files, file, tmp_path):
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreFailed):
        await files.append(TASK, [line("a")])

    assert not (tmp_path / "elsewhere").exists()


async def test_concurrent_appends_write_whole_records(files):
    await asyncio.gather(*(files.append(TASK, [line(f"{number}" * 5000)]) for number in range(20)))

    assert sorted(await messages(files)) == sorted(f"{number}" * 5000 for number in range(20))


async def test_a_page_of_a_long_log_reads_no_more_than_it_needs(files):
    for _ in range(10):
        await files.append(TASK, [line("x" * 100) for _ in range(10_000)])
    end = await files.size(TASK)

    before = await bytes_read()
    await files.read(TASK, position=0, limit=10, max_bytes=ALL)
    await files.read_back(TASK, position=None, limit=10, max_bytes=ALL)
    await files.last(TASK)
    await files.seek(TASK, 1)

    assert end > 10_000_000
    assert await bytes_read() - before < 40 * BLOCK_BYTES


async def bytes_read():
    """The bytes that this process has read, from all files."""
    with open("/proc/self/io") as io:  # noqa: ASYNC230, PTH123 - no disk
        return int(io.readline().split()[1])
