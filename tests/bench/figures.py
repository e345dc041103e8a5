"""Figures: what was measured, the baseline, and the goal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

HEAD = (
    "| figure | batchq | against | ratio or difference | must reach | |\n"
    "|---|---|---|---|---|---|"
)  # fmt: skip

Measured = TypeVar("Measured")
Baseline = TypeVar("Baseline")


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
        compared = [
            self.goal.compare(*pair) for pair in zip(self.measured, self.baseline or self.measured, strict=True)
        ]
        verdict = "reached" if self.goal.reached(median(compared)) else "not: see docs/performance.md"
        against = f"{self.against}: {spread(self.baseline)}" if self.baseline else self.against
        comparison = spread(compared) if self.baseline else ""
        return f"| {self.name} | {spread(self.measured)} | {against} | {comparison} | {self.goal.text} | {verdict} |"


def interleaved(
    pairs: int, baseline: Callable[[], Baseline], measured: Callable[[], Measured]
) -> tuple[Sequence[Baseline], Sequence[Measured]]:
    """Measure in the order A B A B, so that a slow machine slows down both. Returns both results of all pairs."""
    found = [(baseline(), measured()) for _ in range(pairs)]
    return [it for it, _ in found], [it for _, it in found]


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
