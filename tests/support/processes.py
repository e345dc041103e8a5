"""Processes of this machine: found by their command lines, stopped and killed as faults, and measured."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def started_with(*words: str) -> list[int]:
    """The pids of the processes with all of these words in their command line."""
    return [pid for pid, line in _commands() if all(word in line for word in words)]


def shims(container_id: str = "", *, engine: str = "") -> list[int]:
    """The pids of a container's shim, or of all shims of the engine that keeps its files in this folder."""
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
    """Whether the process runs: not a zombie."""
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


def cpu_of(pid: int) -> float:
    """Seconds of CPU, user and system, of all threads."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS


def memory_of(pid: int | str) -> float:
    """Resident MiB. The pid may be `self`."""
    return _status(pid, "VmRSS")


def peak_memory_of(pid: int | str) -> float:
    """The most resident MiB so far. The pid may be `self`."""
    return _status(pid, "VmHWM")


def restore_interrupts() -> None:
    """Handle SIGINT, which a shell without job control ignores for a process in the background, and nohup's SIGHUP.

    A program that this process starts inherits an ignored signal, and then no test can interrupt the program. SIGHUP
    gets a handler that does nothing, so that this process still survives its terminal.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def _status(pid: int | str, measure: str) -> float:
    """A measure of /proc/PID/status in MiB."""
    return int(re.search(rf"{measure}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


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
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
