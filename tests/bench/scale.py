"""How much is measured."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Scale:
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
    turns: int = 300
    few: int = 1000
    many: int = 1_000_000
    looks: int = 200
    log_mib: int = 1024
    running: int = 100
    idle_beside: int = 20  # of those
    idle_seconds: float = 30.0
    readers: int = 100  # of events, or of pages
    event_changes: int = 200  # status changes a second
    event_seconds: float = 10.0


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
    swept=300,
    lives=20,
    rows=200,
    turns=5,
    few=110,
    many=220,
    looks=2,
    log_mib=2,
    running=2,
    idle_beside=1,
    idle_seconds=0.5,
    readers=3,
    event_seconds=1.0,
)
"""The smallest numbers, which show only that the bench runs."""
