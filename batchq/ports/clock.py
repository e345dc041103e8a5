"""The ports of the clock and of the store for its anchor, and their values."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.lifecycle.deadlines import ClockShift


class ClockAnchor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored reference point of the last server's clock, with which the next server compares its own clock."""

    #: The id of the machine's boot, as `Boot.id`.
    boot: str
    #: The time of that boot by this clock.
    booted_at: datetime
    #: The earliest timestamp that a server of this boot can have stored, by this clock.
    since: datetime


class Clock(Protocol):
    """The time of one process."""

    def now(self) -> datetime:
        """The time, aware UTC. It never goes back, and steps of the system clock do not change it."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""


class Boot(Struct, frozen=True, kw_only=True):
    """One boot of the machine."""

    #: The same for all processes until the next boot.
    id: str
    #: The time of the boot by the clock that returned this value; a clock that was set since then returns another.
    at: datetime


class BootClock(Clock, Protocol):
    """A Clock that knows the machine's boot, so that two clocks of the same boot can be compared."""

    def boot(self) -> Boot | None:
        """The present boot; None if the operating system has no boot id."""


class ClockStore(Protocol):
    """Storage of the last server's clock anchor. Both methods may raise StoreFailed."""

    async def clock_anchor(self) -> ClockAnchor | None:
        """The anchor of the last server; None before the first start."""

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        """Store the anchor, and apply `shift` to all stored times that decisions depend on, in one transaction.

        None: no stored time changes. Decision 0035.
        """
