"""Choices without chance: exactly one fault, at a given point of a run that is otherwise always the same."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault
from tests.simulation.choices import A_MOMENT, Choices, Point, TransactionFault
from tests.simulation.choices import NONE as NEVER

SURVEY_INTERVAL = 10.0  # seconds
LATE = Fault(takes_effect=True, delay=5.0)
CALL_FAULTS = {"is not carried out": NO_EFFECT, "is carried out": LOST_REPLY, "is carried out late": LATE}


class PlannedFault(Struct, frozen=True, kw_only=True):
    """Numbers count points, calls of the engine and transactions from 0. `dies`: a lost reply kills the server.

    `death_delays` are the seconds after which each death is reported, and `looks` whether the report includes an
    inspection; `delays` are the seconds that calls take.
    """

    crash_at: int | None = None
    request_at: int | None = None
    fault_at: int | None = None
    fault: Fault = NO_EFFECT
    dies: bool = False
    transaction_fault_at: int | None = None
    transaction_fault: TransactionFault = TransactionFault.FULL
    bug_at: int | None = None
    death_delays: tuple[float, ...] = (0.0,)
    looks: bool = False
    downtime: float = 0.5
    grace: float = 2.0
    delays: Mapping[str, float] = field(default_factory=dict)


NONE = PlannedFault()


class InjectedError(Exception):
    """An unexpected error."""


class PlannedFaults(Choices):
    """`on_point` is called at each point, `on_request` at the point `request_at`. When `over`, no fault occurs."""

    def __init__(self, planned: PlannedFault = NONE) -> None:
        super().__init__(0)
        self.stop_faults()
        self.clock_set_rate = self.budget_rate = NEVER
        self.has_webhook = False
        self._planned = planned
        self.over = True
        self.points = self.calls = self.commits = -1
        self.on_point: Callable[[Point], None] = lambda _: None
        self.on_request: Callable[[], None] = lambda: None

    def crashes(self, point: Point) -> bool:
        if self.over:
            return False
        self.points += 1
        self.on_point(point)
        if self.points == self._planned.request_at:
            self.on_request()
        if self.points == self._planned.bug_at:
            raise InjectedError
        if self._planned.dies and point.when == "unanswered":
            return True
        return self.points == self._planned.crash_at

    def fault(self, _call: str) -> Fault | None:
        if self.over:
            return None
        self.calls += 1
        return self._planned.fault if self.calls == self._planned.fault_at else None

    def transaction_fault(self) -> TransactionFault | None:
        if self.over:
            return None
        self.commits += 1
        return self._planned.transaction_fault if self.commits == self._planned.transaction_fault_at else None

    def death_delays(self) -> tuple[float, ...]:
        return self._planned.death_delays

    def reports_inspection(self) -> bool:
        return self._planned.looks

    def delay(self, call: str) -> float:
        return self._planned.delays.get(call, A_MOMENT)

    def downtime(self) -> float:
        return self._planned.downtime

    @property
    def recovery_time(self) -> float:
        """Seconds until late calls were carried out and a survey has seen their effects."""
        late = self._planned.fault.delay or self._planned.delays or max(self._planned.death_delays, default=0)
        return 4 * SURVEY_INTERVAL if late else 0.0

    def patience(self) -> None:
        return None

    def grace(self) -> float:
        return self._planned.grace
