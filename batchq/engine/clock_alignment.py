"""At the start of a server: stored times are moved if the machine's clock was set since the last start. Decision 0035.

A server's clock takes the machine's time once and counts from there, so what it stamps stays comparable for its life.
The next server's clock may differ by hours. Both know when the machine was booted, each by its own clock: the
difference is how far the machine's clock was set, however the last server ended.
"""

import logging
from datetime import timedelta

from msgspec.structs import replace

from batchq.domain.lifecycle.clock_shift import ClockShift
from batchq.ports.clock import BootClock, ClockAnchor, ClockStore

log = logging.getLogger(__name__)

NOTICEABLE = timedelta(seconds=1)  # two readings of two clocks are never exactly of one moment


async def align(store: ClockStore, clock: BootClock) -> None:
    """Before anything is read whose times matter. Raises StoreFailed.

    After a reboot the elapsed wall time is the best that is known, and nothing is moved.
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
        "the machine's clock was set %s by %s since the last server started: stored times are moved by as much",
        "ahead" if by > timedelta() else "back",
        abs(by),
    )
    shift = ClockShift(by=by, since=old.since, until=clock.now() - by)
    await store.anchor_clock(replace(new, since=old.since + by), shift)
