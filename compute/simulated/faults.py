"""What goes wrong in a simulated engine: nothing, until somebody says so."""

from collections.abc import Callable

from msgspec import Struct

from batchq.domain.ids import Tag


class Fault(Struct, frozen=True, kw_only=True):
    """A call gets no answer. It was carried out or not; `late`, it will be carried out so many seconds from now.

    `engine_ends`: the engine is killed in the call, and comes back with its containers. A program that the call
    started has run to its end meanwhile, and the engine says CREATED of its container.
    """

    carried_out: bool
    late: float = 0.0
    engine_ends: bool = False


NOT_CARRIED_OUT, CARRIED_OUT = Fault(carried_out=False), Fault(carried_out=True)
ENGINE_ENDS = Fault(carried_out=True, engine_ends=True)


class Faults:
    """`judge` is asked of each call, by its name at the port; a seeded one makes an unreliable engine.

    `away` is an engine that is not there: no call reaches it. Each death is told after each of the seconds in
    `tell_after`: () never, (0, 0.5) twice, (3,) late. It was looked at when it died, if anybody `looks`.
    """

    def __init__(self) -> None:
        self.away = False
        self.tell_after: tuple[float, ...] = (0.0,)
        self.looks = True
        self.judge: Callable[[str, Tag | None], Fault | None] | None = None
        self._planned: list[tuple[str, Fault]] = []

    def plan(self, call: str, fault: Fault, *, times: int = 1) -> None:
        """The next calls of this name fail so."""
        self._planned += [(call, fault)] * times

    def of(self, call: str, tag: Tag | None) -> Fault | None:
        """What befalls a call. What was planned is used up by it."""
        if self.away:
            return NOT_CARRIED_OUT
        for planned in self._planned:
            if planned[0] == call:
                self._planned.remove(planned)
                return planned[1]
        return self.judge(call, tag) if self.judge else None
