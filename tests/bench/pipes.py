"""A folder with two named pipes: containers write to one when something happens, and exit after a line in the other.

Pipes have no delay of the container engine.
"""

import os
import time
from pathlib import Path
from select import select

PATIENCE = 60.0  # seconds


class Pipes:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("events", "go"):
            os.mkfifo(folder / name)
            (folder / name).chmod(0o666)
        self._events = os.open(folder / "events", os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(folder / "go", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, word: str) -> float:
        """Wait until a container has written `word`. Returns the time at which it was read."""
        data, ends = b"", time.monotonic() + PATIENCE
        while word.encode() not in data:
            ready, _, _ = select([self._events], [], [], ends - time.monotonic())
            if not ready:
                raise TimeoutError(f"no container wrote {word!r}")
            data += os.read(self._events, 4096)
        return time.perf_counter()

    def release(self) -> float:
        """Let a waiting container exit. Returns the time before that."""
        began = time.perf_counter()
        os.write(self._go, b"\n")
        return began

    def close(self) -> None:
        os.close(self._events)
        os.close(self._go)
