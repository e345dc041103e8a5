"""The system clock: the only module that reads the machine's time.

A server reads the machine's clock once and then counts elapsed time, so its timestamps stay comparable while it runs.
The clock of the next server may differ by hours. Each server records the time of the machine's boot by its own clock;
the difference shows by how much the machine's clock was set, however the last server ended. Decision 0035.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from batchq.domain.lifecycle.deadlines import ClockShift
from batchq.ports.clock import Boot, BootClock, ClockAnchor, ClockStore

log = logging.getLogger(__name__)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 3  # readings of both clocks, of which the one with the shortest interruption is used
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
NOTICEABLE = timedelta(seconds=1)  # the clocks are read one after another, so small differences are measurement errors


class SystemClock:
    """The wall time at creation plus the time elapsed since: setting the machine's clock has no effect on it.

    Time in suspension counts as elapsed. Decision 0035.
    """

    def __init__(self) -> None:
        #: The wall time of the machine's boot, in seconds since the epoch.
        self._booted_at = _boot_time()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._booted_at + _elapsed(), UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def boot(self) -> Boot | None:
        """The current boot of the machine; None if the system has no boot id."""
        try:
            boot_id = BOOT_ID.read_text().strip()
        except OSError:
            return None
        return Boot(id=boot_id, at=datetime.fromtimestamp(self._booted_at, UTC)) if boot_id else None


def wall_time() -> datetime:
    """The machine's wall time, for comparison with timestamps of other machines and for log lines."""
    return datetime.now(UTC)


async def align(store: ClockStore, clock: BootClock) -> None:
    """Shift the stored times if necessary. Call it before reading stored times. Raises StoreFailed.

    After a reboot the shift cannot be determined, and stored times stay unchanged.
    """
    boot = clock.boot()
    if boot is None:
        return
    new = ClockAnchor(boot=boot.id, booted_at=boot.at, since=clock.now())
    old = await store.clock_anchor()
    if old is None or old.boot != boot.id:
        await store.anchor_clock(new, None)
        return
    by = boot.at - old.booted_at
    if abs(by) < NOTICEABLE:
        await store.anchor_clock(replace(new, since=old.since), None)
        return
    log.warning(
        "the machine's clock was set %s by %s since the last server started: stored times are shifted as well",
        "ahead" if by > timedelta() else "back",
        abs(by),
    )
    shift = ClockShift(by=by, since=old.since, until=clock.now() - by)
    await store.anchor_clock(replace(new, since=old.since + by), shift)


def _elapsed() -> float:
    """Seconds since the machine's boot, including suspension where the system has CLOCK_BOOTTIME."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


def _boot_time() -> float:
    """The wall time of the machine's boot, in seconds since the epoch.

    The process may be interrupted between the readings of two clocks, so the closest of several pairs decides.
    """
    readings = [(_elapsed(), datetime.now(UTC).timestamp(), _elapsed()) for _ in range(_TRIES)]
    before, wall, _ = min(readings, key=lambda reading: reading[2] - reading[0])
    return wall - before
