"""The finding: one line of the doctor's report."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: May become a problem.
    WARNING = "warning"
    #: Keeps jobs from running, or puts data at risk.
    PROBLEM = "problem"


class Finding(Struct, frozen=True, kw_only=True):
    """One result of the diagnosis."""

    level: Level
    #: The component, such as `engine` or `store`.
    about: str
    #: What was found.
    says: str
    #: What to do about it, in whole sentences; empty if there is nothing to do.
    do: str = ""


Findings = Iterator[Finding]


def ok(about: str, says: str) -> Finding:
    return Finding(level=Level.OK, about=about, says=says)


def warning(about: str, says: str, do: str) -> Finding:
    return Finding(level=Level.WARNING, about=about, says=says, do=do)


def problem(about: str, says: str, do: str) -> Finding:
    return Finding(level=Level.PROBLEM, about=about, says=says, do=do)
