"""The free space below which nothing is taken that makes the data grow, so that what runs can still be saved."""

from collections.abc import Callable

from batchq.errors import DiskFull, StoreFailed

MIB = 2**20


class DiskGuard:
    """`free` tells the bytes that the data's disk has left, or raises StoreFailed; `least` how many stay free."""

    def __init__(self, *, free: Callable[[], int], least: int) -> None:
        self._free = free
        self._least = least

    def check(self) -> None:
        """Raises DiskFull; StoreFailed."""
        free = self._free()
        if free < self._least:
            raise DiskFull(
                f"The disk of batchq's data has {free // MIB} MiB left. "
                f"With less than {self._least // MIB} MiB no job and no job definition is taken, "
                f"and no output of containers is stored."
            )

    @property
    def critical(self) -> bool:
        """Whether less than half of what must stay free is left: then even a line in a log is too much."""
        return self._free() < self._least // 2

    @property
    def trouble(self) -> str | None:
        """Why nothing is taken, None where it is."""
        try:
            self.check()
        except (DiskFull, StoreFailed) as why:
            return str(why)
        return None
