"""Does a test notice? `python -m tests.domain.mutants` writes each bug of `mutations` into a copy and runs the tests.

It prints which test killed which mutant, and ends with 1 if one survived. Words after it choose files: `store/`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.domain.mutations import MUTATIONS
from tests.house.rooms import ROOT

COPIED = ["batchq", "compute", "api", "tests", "pyproject.toml"]
QUICK = ["tests/domain", "tests/engine", "--ignore-glob=*laws.py"]
LAWS = ["tests/domain/test_laws.py", "tests/domain/test_room_laws.py", "tests/domain/test_part_laws.py"]
SLOWER = [*LAWS, "tests/scenarios"]
OF_THE_STORE = ["tests/contracts/test_store.py", "tests/store", "-k", "not migrations"]
PATIENCE = 300  # seconds


@dataclass(frozen=True, kw_only=True)
class Mutant:
    file: str
    breaks: str
    old: str
    new: str


MUTANTS = [
    Mutant(file=file, breaks=breaks, old=old, new=new)
    for file, mutations in MUTATIONS.items()
    for breaks, old, new in mutations
]


def main():
    if killer := killed_by(None):
        sys.exit(f"no mutant can be told from the code as it is: {killer} fails")
    chosen = [it for it in MUTANTS if len(sys.argv) == 1 or any(word in it.file for word in sys.argv[1:])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        killers = list(pool.map(told, chosen))
    survivors = killers.count(None)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants killed")
    sys.exit(1 if survivors else 0)


def told(mutant):
    killer = killed_by(mutant)
    fate = f"killed by {killer}" if killer else "SURVIVED"
    print(f"{Path(mutant.file).stem:12} {mutant.breaks:60} {fate}", flush=True)
    return killer


def killed_by(mutant):
    """The first test that fails with it, None if none does."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy_to(Path(directory))
        if mutant is not None:
            write(mutant, Path(directory))
        quick = OF_THE_STORE if mutant is not None and "store" in mutant.file else QUICK
        return first_failure(quick, directory) or first_failure(SLOWER, directory)


def copy_to(directory):
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)


def write(mutant, directory):
    file = directory / mutant.file
    file.write_text(file.read_text().replace(mutant.old, mutant.new))


def first_failure(tests, directory):
    command = [sys.executable, "-m", "pytest", "-qx", "-m", "not docker", "-p", "no:cacheprovider", "--tb=no", *tests]
    try:
        run = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "the clock"
    if run.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+\.py\S*)", run.stdout, re.MULTILINE)
    return found[1] if found else f"pytest, {run.returncode}: {run.stdout[-300:]}"


if __name__ == "__main__":
    main()
