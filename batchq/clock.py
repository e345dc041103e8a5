"""The machine's time. The one place that reads it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from batchq.ports.clock import Boot

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 3  # to read two clocks at one moment


class SystemClock:
    """The wall time at the start, plus the time that passed since: setting the machine's clock does not move it.

    The time that passes while the machine is suspended counts. Decision 0035.
    """

    def __init__(self) -> None:
        self._started, self._mark = _both()

    def now(self) -> datetime:
        return self._started + timedelta(seconds=_elapsed() - self._mark)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def boot(self) -> Boot | None:
        try:
            boot_id = BOOT_ID.read_text().strip()
        except OSError:
            return None
        return Boot(id=boot_id, at=self._started - timedelta(seconds=self._mark)) if boot_id else None


def wall_time() -> datetime:
    """What the machine's clock shows now: for what other machines measure by theirs, and for the log's lines."""
    return datetime.now(UTC)


def _elapsed() -> float:
    """Seconds since the machine was booted, suspension included where the system can tell."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


def _both() -> tuple[datetime, float]:
    """The wall time and the elapsed time of one moment: the process may be interrupted between the two readings."""
    readings = [(_elapsed(), datetime.now(UTC), _elapsed()) for _ in range(_TRIES)]
    before, wall, _ = min(readings, key=lambda it: it[2] - it[0])
    return wall, before
