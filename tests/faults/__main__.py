"""`python -m tests.faults` runs the catalogue and prints it, one row a line; `--missing` prints rows without a test.

`--read FILE` prints it from the outcomes that other runs have written. Exits 1 if a row failed or has no test.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.faults.catalogue import SECTIONS, claims, rows

PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "tests.faults.outcomes"]
SHARED_OUT = ["--dist", "worksteal"]
RUNS = (
    ["-m", "fault and not docker and not kubernetes and not million", "-n", "auto", "--maxprocesses", "4", *SHARED_OUT],
    ["-m", "fault and docker and not clients", "-n", "2", *SHARED_OUT],
)
WIDTH = 72


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    if options.missing:
        sys.exit(missing())
    outcomes = options.read or run()
    sys.exit(show(outcomes))


def missing() -> int:
    claimed = claims()
    open_rows = [row for row in rows() if row.id not in claimed]
    for row in open_rows:
        print(f"{row.id}  {row.in_short}: {row.outcome}")
    return 1 if open_rows else 0


def run() -> Path:
    outcomes = Path(tempfile.mkstemp(prefix="batchq-faults-", suffix=".jsonl")[1])
    for chosen in RUNS:
        subprocess.run([*PYTEST, *chosen], env=os.environ | {"FAULT_OUTCOMES": str(outcomes)}, check=False)
    return outcomes


def show(outcomes: Path) -> int:
    tests, failed = read_outcomes(outcomes)
    open_rows = 0
    for row in rows():
        if row.id[2:] == "01":
            print(f"\n{SECTIONS[row.id[:2]]}")
        passed = len(tests[row.id] - failed)
        verdict = f"{passed} passed" if tests[row.id] and passed == len(tests[row.id]) else "FAILED"
        if not tests[row.id]:
            verdict = "NO TEST"
        open_rows += verdict in {"FAILED", "NO TEST"}
        print(f"  {row.id}  {row.in_short[:WIDTH]:{WIDTH}}  {verdict}  {_where(tests[row.id])}")
    proved = sum(1 for row in rows() if tests[row.id])
    print(f"\n{len(rows())} rows, {proved} with tests that ran, {open_rows} open")
    return 1 if open_rows else 0


def read_outcomes(outcomes: Path) -> tuple[dict[str, set[str]], set[str]]:
    """The tests of each row, and those that failed."""
    tests: dict[str, set[str]] = defaultdict(set)
    failed = set()
    for line in outcomes.read_text().splitlines():
        outcome = json.loads(line)
        for row in outcome["rows"]:
            tests[row].add(outcome["test"])
        if outcome["outcome"] != "passed":
            failed.add(outcome["test"])
    return tests, failed


def _where(tests: set[str]) -> str:
    return ", ".join(sorted({test.partition("::")[0].removeprefix("tests/") for test in tests}))


if __name__ == "__main__":
    main()
