"""Dice that leave nothing to chance: all goes well but for one thing, at one point of what is always the same."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from batchq.compute.simulated.faults import LOST_REPLY, NO_EFFECT, Fault
from tests.simulation.dice import A_MOMENT, Dice, Point, Spoilt
from tests.simulation.dice import NONE as NEVER

SURVEY_EVERY = 10.0  # seconds
LATE = Fault(takes_effect=True, delay=5.0)
UNANSWERED = {"is not carried out": NO_EFFECT, "is carried out": LOST_REPLY, "is carried out late": LATE}


class Mishap(Struct, frozen=True, kw_only=True):
    """The numbers count points, calls of the engine, and transactions, from 0. `dies`: when no answer comes.

    `tells` are the seconds after which each death is told, and `looks` whether with what was found of it; `delays` are
    those that calls take.
    """

    crash_at: int | None = None
    asks_at: int | None = None
    fault_at: int | None = None
    fault: Fault = NO_EFFECT
    dies: bool = False
    spoils_at: int | None = None
    spoilt: Spoilt = Spoilt.FULL
    bug_at: int | None = None
    tells: tuple[float, ...] = (0.0,)
    looks: bool = False
    downtime: float = 0.5
    grace: float = 2.0
    delays: Mapping[str, float] = field(default_factory=dict)


NONE = Mishap()


class Bug(Exception):
    """What nobody has foreseen."""


class Fate(Dice):
    """`sees` is told of each point, `asks` does what is to be done at one. Once it is `over` nothing goes wrong."""

    def __init__(self, mishap: Mishap = NONE) -> None:
        super().__init__(0)
        self.calm()
        self.clock_setting = NEVER
        self._mishap = mishap
        self.over = True
        self.points = self.calls = self.commits = -1
        self.sees: Callable[[Point], None] = lambda _: None
        self.asks: Callable[[], None] = lambda: None

    def crashes(self, point: Point) -> bool:
        if self.over:
            return False
        self.points += 1
        self.sees(point)
        if self.points == self._mishap.asks_at:
            self.asks()
        if self.points == self._mishap.bug_at:
            raise Bug
        if self._mishap.dies and point.when == "unanswered":
            return True
        return self.points == self._mishap.crash_at

    def fault(self, _call: str) -> Fault | None:
        if self.over:
            return None
        self.calls += 1
        return self._mishap.fault if self.calls == self._mishap.fault_at else None

    def spoils(self) -> Spoilt | None:
        if self.over:
            return None
        self.commits += 1
        return self._mishap.spoilt if self.commits == self._mishap.spoils_at else None

    def tells(self) -> tuple[float, ...]:
        return self._mishap.tells

    def looked_at(self) -> bool:
        return self._mishap.looks

    def delay(self, call: str) -> float:
        return self._mishap.delays.get(call, A_MOMENT)

    def downtime(self) -> float:
        return self._mishap.downtime

    @property
    def settles_in(self) -> float:
        """Seconds until what is late has come, and what it left was seen."""
        late = self._mishap.fault.delay or self._mishap.delays or max(self._mishap.tells, default=0)
        return 4 * SURVEY_EVERY if late else 0.0

    def patience(self) -> None:
        return None

    def grace(self) -> float:
        return self._mishap.grace
