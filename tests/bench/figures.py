"""How much is measured, and figures: what was measured, the baseline, and the goal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

HEAD = (
    "| figure | batchq | against | ratio or difference | must reach | |\n"
    "|---|---|---|---|---|---|"
)  # fmt: skip

Measured = TypeVar("Measured")
Baseline = TypeVar("Baseline")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured."""

    pairs: int = 3
    jobs: int = 200  # through Docker, one run
    submits: int = 4000
    calls: int = 1000  # by boto3, one run
    ones: int = 9  # pairs of what is done once a time
    stopped: int = 50  # at once
    array: int = 10_000
    separate: int = 10_000
    swept: int = 100_000
    lives: int = 5000
    rows: int = 100_000
    repetitions: int = 300
    few: int = 1000
    many: int = 1_000_000
    reads: int = 200
    log_mib: int = 1024
    running: int = 100
    idle_beside: int = 20  # of those
    idle_seconds: float = 30.0
    readers: int = 100  # of events, or of pages
    event_changes: int = 200  # status changes a second
    event_seconds: float = 10.0


#: The smallest numbers, which show only that the bench runs.
TINY = replace(
    Scale(),
    pairs=1,
    jobs=2,
    submits=40,
    calls=8,
    ones=1,
    stopped=2,
    array=20,
    separate=100,
    swept=200,
    lives=20,
    rows=200,
    repetitions=5,
    few=110,
    many=220,
    reads=2,
    log_mib=2,
    running=2,
    idle_beside=1,
    idle_seconds=0.5,
    readers=3,
    event_seconds=1.0,
)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A goal. `compare` makes a number of each pair, or of each measurement; their median is compared with `limit`."""

    text: str
    limit: float
    compare: Callable[[float, float], float]
    least: bool = False

    def reached(self, number: float) -> bool:
        return number >= self.limit if self.least else number <= self.limit


def at_least(ratio: float) -> Goal:
    return Goal(text=f"at least {ratio:g}", limit=ratio, compare=_ratio, least=True)


def at_most(ratio: float) -> Goal:
    return Goal(text=f"at most {ratio:g}", limit=ratio, compare=_ratio)


def at_most_more(difference: float) -> Goal:
    return Goal(
        text=f"at most {difference:g} more", limit=difference, compare=lambda measured, baseline: measured - baseline
    )


def within(limit: float) -> Goal:
    """The measurement itself, without a baseline."""
    return Goal(text=f"at most {limit:g}", limit=limit, compare=lambda measured, _: measured)


def no_less_than(limit: float) -> Goal:
    return Goal(text=f"at least {limit:g}", limit=limit, compare=lambda measured, _: measured, least=True)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the report. `baseline` is empty without a baseline."""

    name: str
    against: str = ""
    measured: Sequence[float]
    baseline: Sequence[float] = ()
    goal: Goal

    def __str__(self) -> str:
        pairs = zip(self.measured, self.baseline or self.measured, strict=True)
        numbers = [self.goal.compare(*pair) for pair in pairs]
        verdict = "reached" if self.goal.reached(median(numbers)) else "not: see docs/performance.md"
        against = f"{self.against}: {spread(self.baseline)}" if self.baseline else self.against
        comparison = spread(numbers) if self.baseline else ""
        return f"| {self.name} | {spread(self.measured)} | {against} | {comparison} | {self.goal.text} | {verdict} |"


def interleaved(
    pairs: int, baseline: Callable[[], Baseline], measured: Callable[[], Measured]
) -> tuple[Sequence[Baseline], Sequence[Measured]]:
    """Measure in the order A B A B, so that a slow machine slows down both. Returns both results of all pairs."""
    found = [(baseline(), measured()) for _ in range(pairs)]
    return [first for first, _ in found], [second for _, second in found]


def compared(
    pairs: int, baseline: Callable[[], float], measured: Callable[[], float], *, name: str, against: str, goal: Goal
) -> Figure:
    """The figure of measurements in the order A B A B."""
    of_baseline, of_measured = interleaved(pairs, baseline, measured)
    return Figure(name=name, against=against, measured=of_measured, baseline=of_baseline, goal=goal)


def spread(numbers: Sequence[float]) -> str:
    """The median, with minimum and maximum."""
    if len(numbers) == 1:
        return short(numbers[0])
    return f"{short(median(numbers))} ({short(min(numbers))} to {short(max(numbers))})"


def short(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.1f}"


def _ratio(measured: float, baseline: float) -> float:
    return measured / baseline
