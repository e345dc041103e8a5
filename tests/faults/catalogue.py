"""The catalogue of faults and bad inputs: the outcome that each must have, and the tests that inject it.

A test names the rows that it proves by `@pytest.mark.fault("ST01", ...)`. `make faults` runs them and prints the table.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
#: A mark and its arguments. To parse all tests as Python takes seven times as long.
_MARK = re.compile(r"\bmark\.fault\(([^()]*)\)")
_TEXT = re.compile(r'"(\w+)"')
SECTIONS = {
    "ST": "The start path: the server is killed (-9)",
    "SP": "The stop path and its races",
    "EN": "The engine",
    "DB": "The store",
    "LC": "The process and its loops",
    "TM": "Time and resources",
    "IN": "HTTP and input",
    "SE": "Security",
    "CK": "Checkpoints",
    "BU": "Costs, metrics and budgets",
    "CO": "Correctness across restarts, engines and queues",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault, its moment, and the required outcome."""

    id: str
    fault: str
    when: str
    outcome: str

    @property
    def in_short(self) -> str:
        return self.fault if self.when in {"", "—", "-", "any", "each op"} else f"{self.fault}: {self.when}"


def rows() -> tuple[Row, ...]:
    lines = (HERE / "catalogue.tsv").read_text().splitlines()
    return tuple(
        Row(id=number, fault=fault, when=when, outcome=outcome)
        for number, fault, when, outcome in (line.split("\t") for line in lines)
    )


@cache
def claims() -> Mapping[str, tuple[str, ...]]:
    """The files whose tests claim a row, by its id."""
    found: dict[str, set[str]] = defaultdict(set)
    tests = HERE.parent
    for source in tests.rglob("test_*.py"):
        for row in _marked(source):
            found[row].add(str(source.relative_to(tests.parent)))
    return {row: tuple(sorted(files)) for row, files in found.items()}


def _marked(source: Path) -> Iterator[str]:
    for arguments in _MARK.findall(source.read_text()):
        yield from _TEXT.findall(arguments)
