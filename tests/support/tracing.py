"""Faults at the very system call, by strace: a process that is killed at its n-th commit, a disk that fails or is slow.

An injection is written as strace has it: `fdatasync:signal=KILL:when=7`. Calls are counted a thread, and SQLite's
writer has one of its own.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STRACE = shutil.which("strace") or "strace"


def under(*injections: str) -> tuple[str, ...]:
    """Before a command: it runs as a child of its own starter, and the faults are there from its beginning."""
    return (STRACE, "-D", "-f", "-qqq", "-o", os.devnull, *_injected(injections))


def recorded(path: Path, *calls: str) -> tuple[str, ...]:
    """Before a command: each of these calls becomes a line of the file before the process goes on."""
    return (STRACE, "-D", "-f", "-qqq", "-o", str(path), "-e", f"trace={','.join(calls)}")


@contextmanager
def injected(pid: int, *injections: str) -> Iterator[None]:
    """For as long as this lasts, a process that runs already has these faults."""
    command = [STRACE, "-f", "-o", os.devnull, "-p", str(pid), *_injected(injections)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=60)


def _injected(injections: tuple[str, ...]) -> list[str]:
    """System calls that are not traced get no injected faults."""
    calls = ",".join(sorted({it.partition(":")[0] for it in injections}))
    return ["-e", f"trace={calls}", *(word for it in injections for word in ("-e", f"inject={it}"))]
