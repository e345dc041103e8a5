"""The clock: its port, and what is stored of it."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.lifecycle.clock_shift import ClockShift


class ClockAnchor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The clock of the server that was started last, as far as the next server can compare it with its own."""

    #: The boot of the machine, as in `Boot`.
    boot: str
    #: When that boot was, by this clock.
    booted_at: datetime
    #: The first moment that a server of this boot can have stamped, by this clock.
    since: datetime


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, aware UTC. It never goes back, and a jump of the machine's clock does not move it."""

    async def sleep(self, seconds: float) -> None: ...


class Boot(Struct, frozen=True, kw_only=True):
    """One running of the machine, from its boot to its end."""

    #: The same for all programs until the machine is booted again.
    id: str
    #: When that was, by the clock that is asked; by a clock that was set meanwhile it is another moment.
    at: datetime


class BootClock(Clock, Protocol):
    """A Clock of which two can be compared that were started in one boot."""

    def boot(self) -> Boot | None:
        """None where the system does not tell boots apart."""


class ClockStore(Protocol):
    """What the clock of the last server was. Both methods raise StoreFailed."""

    async def clock_anchor(self) -> ClockAnchor | None:
        """None before the first server."""

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        """Save it, and move by `shift` all stored times on which decisions depend, in one transaction."""
