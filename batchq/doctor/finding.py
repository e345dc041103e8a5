"""A finding: a line of the doctor's."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """A problem keeps jobs from running or puts data at risk; a warning may come to that."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True, kw_only=True):
    """`do` is what to do about it, as sentences."""

    level: Level
    about: str
    says: str
    do: str = ""


Findings = Iterator[Finding]


def ok(about: str, says: str) -> Finding:
    return Finding(level=Level.OK, about=about, says=says)


def warning(about: str, says: str, do: str) -> Finding:
    return Finding(level=Level.WARNING, about=about, says=says, do=do)


def problem(about: str, says: str, do: str) -> Finding:
    return Finding(level=Level.PROBLEM, about=about, says=says, do=do)
