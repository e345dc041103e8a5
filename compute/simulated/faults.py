"""Fault injection for a simulated engine; without configuration no call fails."""

from collections.abc import Callable

from msgspec import Struct

from batchq.domain.ids import Tag


class Fault(Struct, frozen=True, kw_only=True):
    """A call that gets no reply."""

    #: Whether the call takes effect at once.
    takes_effect: bool
    #: If above 0, the call takes effect after so many seconds instead.
    delay: float = 0.0
    #: The engine is killed in the call, and restarts with its containers. A program that the call started has run to
    #: its end meanwhile, and the engine reports its container as CREATED.
    kills_engine: bool = False


NO_EFFECT, LOST_REPLY = Fault(takes_effect=False), Fault(takes_effect=True)
KILLS_ENGINE = Fault(takes_effect=True, kills_engine=True)


class Faults:
    """The faults of one simulated engine. Tests and simulations set the attributes at any time."""

    def __init__(self) -> None:
        #: The engine is unreachable: every call fails without effect.
        self.unreachable = False
        #: When each death is reported, in seconds after it: () never, (0, 0.5) twice, (3,) late.
        self.death_delays: tuple[float, ...] = (0.0,)
        #: Whether a reported death contains an inspection made at the death; else it is only the tag.
        self.inspects_deaths = True
        #: Decides the fault of each call from its name and its tag; None: no fault. A seeded function simulates an
        #: unreliable engine.
        self.decide: Callable[[str, Tag | None], Fault | None] | None = None
        self._planned: list[tuple[str, Fault]] = []

    def plan(self, call: str, fault: Fault, *, times: int = 1) -> None:
        """Make the next `times` calls of this name fail with `fault`. Planned faults take precedence over `decide`."""
        self._planned += [(call, fault)] * times

    def next_fault(self, call: str, tag: Tag | None) -> Fault | None:
        """The fault of a call that is made now; None: it succeeds. A planned fault is consumed."""
        if self.unreachable:
            return NO_EFFECT
        for planned in self._planned:
            if planned[0] == call:
                self._planned.remove(planned)
                return planned[1]
        return self.decide(call, tag) if self.decide else None
