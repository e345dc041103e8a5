"""What was measured, beside what it is measured against and what must be reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

HEAD = (
    "| figure | batchq | against | ratio or difference | must reach | |\n"
    "|---|---|---|---|---|---|"
)  # fmt: skip

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


@dataclass(frozen=True, kw_only=True)
class Goal:
    """`compare` makes one number of a pair, or of one of ours; the median of those is held against `limit`."""

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
    return Goal(text=f"at most {difference:g} more", limit=difference, compare=lambda ours, theirs: ours - theirs)


def within(limit: float) -> Goal:
    """Against nothing: as it is."""
    return Goal(text=f"at most {limit:g}", limit=limit, compare=lambda ours, _: ours)


def no_less_than(limit: float) -> Goal:
    return Goal(text=f"at least {limit:g}", limit=limit, compare=lambda ours, _: ours, least=True)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`theirs` is empty where the goal is against nothing."""

    name: str
    against: str = ""
    ours: Sequence[float]
    theirs: Sequence[float] = ()
    goal: Goal

    def __str__(self) -> str:
        compared = [self.goal.compare(*pair) for pair in zip(self.ours, self.theirs or self.ours, strict=True)]
        verdict = "reached" if self.goal.reached(median(compared)) else "not: see docs/performance.md"
        against = f"{self.against}: {spread(self.theirs)}" if self.theirs else self.against
        told = spread(compared) if self.theirs else ""
        return f"| {self.name} | {spread(self.ours)} | {against} | {told} | {self.goal.text} | {verdict} |"


def in_turns(
    pairs: int, theirs: Callable[[], Theirs], ours: Callable[[], Ours]
) -> tuple[Sequence[Theirs], Sequence[Ours]]:
    """A B A B: what slows the machine down slows both."""
    found = [(theirs(), ours()) for _ in range(pairs)]
    return [it for it, _ in found], [it for _, it in found]


def spread(numbers: Sequence[float]) -> str:
    """The median, and the least and the most."""
    if len(numbers) == 1:
        return short(numbers[0])
    return f"{short(median(numbers))} ({short(min(numbers))} to {short(max(numbers))})"


def short(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.1f}"


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs
