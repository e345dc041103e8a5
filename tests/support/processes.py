"""Processes of this machine, found by what they were started with; to be stopped and killed as faults."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def started_with(*words: str) -> list[int]:
    """The pids of those whose command line has all of these words in it."""
    return [pid for pid, line in _commands() if all(word in line for word in words)]


def shims(container_id: str = "", *, engine: str = "") -> list[int]:
    """The shims of a container, or of all containers of the engine with its files in a folder of this name."""
    return started_with("containerd-shim", container_id, engine)


def children(*parents: int) -> list[int]:
    """The child processes of these processes, and their descendants."""
    own = [pid for pid, parent in _parents() if parent in parents]
    return [*own, *children(*own)] if own else []


def send(number: int, *pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def lives(pid: int) -> bool:
    """Whether it runs, and is not only waiting to be buried."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stop the processes by SIGSTOP, and continue them at the end."""
    assert pids, "no process to freeze"
    send(signal.SIGSTOP, *pids)
    try:
        yield
    finally:
        send(signal.SIGCONT, *pids)


def _commands() -> Iterator[tuple[int, str]]:
    for pid in _pids():
        with suppress(OSError):
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def _parents() -> Iterator[tuple[int, int]]:
    for pid in _pids():
        with suppress(OSError):
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
            yield pid, int(after_name.split()[1])


def _pids() -> list[int]:
    return [int(it.name) for it in Path("/proc").iterdir() if it.name.isdigit()]
