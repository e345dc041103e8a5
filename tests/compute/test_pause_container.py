"""The program that holds the namespaces of a node."""

import platform
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from batchq.compute.docker.network_objects import HEADERS, IGNORE, PROGRAMS, elf

LOADED, ENTRY = slice(64, 64 + 56), slice(24, 32)
SIGCHLD = 17


@contextmanager
def running(path):
    with subprocess.Popen([path]) as process:
        try:
            yield process
        finally:
            process.kill()


def ignored(process):
    """The signals that the process ignores, as a set of bits."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))


@pytest.mark.parametrize("machine", PROGRAMS)
def test_the_program_is_one_segment_that_begins_with_the_code(machine):
    program = elf(*PROGRAMS[machine])

    kind, flags, offset, address, _, in_file, in_memory, page = struct.unpack("<IIQQQQQQ", program[LOADED])

    assert program.startswith(b"\x7fELF")
    assert (kind, flags, offset) == (1, 5, 0)
    assert in_file == in_memory == len(program)
    assert struct.unpack("<Q", program[ENTRY])[0] == address + HEADERS
    assert address % page == 0


@pytest.mark.parametrize("machine", PROGRAMS)
def test_the_data_of_the_program_is_readable(machine):
    program = elf(*PROGRAMS[machine])

    assert program.endswith(IGNORE)
    assert (len(program) - len(IGNORE)) % 8 == 0


@pytest.mark.process
def test_the_program_waits_and_the_kernel_reaps_its_children(tmp_path):
    path = tmp_path / "pause"
    path.write_bytes(elf(*PROGRAMS[platform.machine()]))
    path.chmod(0o755)

    with running(path) as process:
        end = time.monotonic() + 10
        while not ignored(process) >> (SIGCHLD - 1) & 1:
            assert process.poll() is None
            assert time.monotonic() < end

        assert process.poll() is None
