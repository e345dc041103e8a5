"""The disk guard: rejects requests that store data while free space is low, so that running jobs can be saved."""

from collections.abc import Callable

from batchq.errors import DiskFull, StoreFailed

MIB = 2**20


class DiskGuard:
    """Compares the free space of the data's disk with a minimum."""

    def __init__(self, *, free: Callable[[], int], least: int) -> None:
        """`free` returns the free bytes of the disk, or raises StoreFailed. `least` is the minimum in bytes."""
        self._free = free
        self._least = least

    def free(self) -> int:
        """The free bytes of the disk. Raises StoreFailed if they cannot be read."""
        return self._free()

    def check(self) -> None:
        """Raises DiskFull if less than the minimum is free; StoreFailed if the free space cannot be read."""
        free = self._free()
        if free < self._least:
            raise DiskFull(
                f"The disk of batchq's data directory has {free // MIB} MiB of free space. "
                f"Below {self._least // MIB} MiB jobs and job definitions are rejected, "
                f"and output of containers is not stored."
            )

    @property
    def critical(self) -> bool:
        """Whether less than half of the minimum is free: then not even a line is added to a stored log."""
        return self._free() < self._least // 2

    @property
    def trouble(self) -> str | None:
        """Why `check` would raise an error; None if it would not."""
        try:
            self.check()
        except (DiskFull, StoreFailed) as why:
            return str(why)
        return None
