"""`python -m tests.fuzz --examples 1000`: that many schemathesis requests for each operation."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.fuzz import fuzz, fuzzed_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="batchq-fuzz-") as place,
        fuzzed_server(Path(place) / "data") as (service, valid_values),
    ):
        found = fuzz(service, valid_values, examples=options.examples, seed=options.seed)
        print(found.stdout)
        return found.returncode


if __name__ == "__main__":
    sys.exit(main())
