"""The system clock: the only module that reads the machine's time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from batchq.ports.clock import Boot

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 3  # readings of both clocks, of which the one with the shortest interruption is used


class SystemClock:
    """The wall time at creation plus the time elapsed since: setting the machine's clock has no effect on it.

    Time in suspension counts as elapsed. Decision 0035.
    """

    def __init__(self) -> None:
        self._started, self._mark = _both()

    def now(self) -> datetime:
        return self._started + timedelta(seconds=_elapsed() - self._mark)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def boot(self) -> Boot | None:
        """The current boot of the machine; None if the system has no boot id."""
        try:
            boot_id = BOOT_ID.read_text().strip()
        except OSError:
            return None
        return Boot(id=boot_id, at=self._started - timedelta(seconds=self._mark)) if boot_id else None


def wall_time() -> datetime:
    """The machine's wall time, for comparison with timestamps of other machines and for log lines."""
    return datetime.now(UTC)


def _elapsed() -> float:
    """Seconds since the machine's boot, including suspension where the system has CLOCK_BOOTTIME."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


def _both() -> tuple[datetime, float]:
    """The wall time and the elapsed seconds of one moment.

    The process may be interrupted between the two readings, so the closest of several pairs is returned.
    """
    readings = [(_elapsed(), datetime.now(UTC), _elapsed()) for _ in range(_TRIES)]
    before, wall, _ = min(readings, key=lambda it: it[2] - it[0])
    return wall, before
