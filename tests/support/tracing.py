"""Faults at single system calls, by strace: a process is killed at its n-th commit, a disk fails or is slow.

An injection has the syntax of strace: `fdatasync:signal=KILL:when=7`. Calls are counted by thread, and SQLite's writer
is a thread of its own.
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
    """The words before a command that runs it with these faults. strace is its child, not its parent."""
    return (STRACE, "-D", "-f", "-qqq", "-o", os.devnull, *_injected(injections))


def recorded(path: Path, *calls: str) -> tuple[str, ...]:
    """The words before a command that write each of these calls as a line of the file before it returns."""
    return (STRACE, "-D", "-f", "-qqq", "-o", str(path), "-e", f"trace={','.join(calls)}")


@contextmanager
def injected(pid: int, *injections: str) -> Iterator[None]:
    """Inject faults into a running process during the context."""
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
    calls = ",".join(sorted({injection.partition(":")[0] for injection in injections}))
    return ["-e", f"trace={calls}", *(word for injection in injections for word in ("-e", f"inject={injection}"))]
