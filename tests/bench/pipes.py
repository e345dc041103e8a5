"""A folder with two named pipes: containers write the moment something happens, and end when they are told.

A pipe is of the machine and not of the container's engine, so what it says has no delay of Docker's in it.
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
        for name in ("heard", "go"):
            os.mkfifo(folder / name)
            (folder / name).chmod(0o666)
        self._heard = os.open(folder / "heard", os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(folder / "go", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, word: str) -> float:
        """The moment at which it was written."""
        said, ends = b"", time.monotonic() + PATIENCE
        while word.encode() not in said:
            ready, _, _ = select([self._heard], [], [], ends - time.monotonic())
            if not ready:
                raise TimeoutError(f"nobody wrote {word!r}")
            said += os.read(self._heard, 4096)
        return time.perf_counter()

    def let_go(self) -> float:
        """The moment at which the container is told to end; it is a read and an exit away from its end."""
        began = time.perf_counter()
        os.write(self._go, b"\n")
        return began

    def close(self) -> None:
        os.close(self._heard)
        os.close(self._go)
