"""At the start of a server: shifts stored times if the machine's clock was set since the last start. Decision 0035.

A server reads the machine's clock once and then counts elapsed time, so its timestamps stay comparable while it runs.
The clock of the next server may differ by hours. Each server records the time of the machine's boot by its own clock;
the difference shows by how much the machine's clock was set, however the last server ended.
"""

import logging
from datetime import timedelta

from msgspec.structs import replace

from batchq.domain.lifecycle.clock_shift import ClockShift
from batchq.ports.clock import BootClock, ClockAnchor, ClockStore

log = logging.getLogger(__name__)

NOTICEABLE = timedelta(seconds=1)  # the clocks are read one after another, so small differences are measurement errors


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
