"""`python -m tests.fuzz --examples 1000`: so many requests of each operation, made up by schemathesis."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.fuzz import fuzz, grounded


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--examples", type=int, default=200)
    asked.add_argument("--seed", type=int, default=1)
    options = asked.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="batchq-fuzz-") as place,
        grounded(Path(place) / "data") as (service, there),
    ):
        found = fuzz(service, there, examples=options.examples, seed=options.seed)
        print(found.stdout)
        return found.returncode


if __name__ == "__main__":
    sys.exit(main())
