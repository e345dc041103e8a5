"""`python -m tests.simulation --seed N` prints one run, `--seeds A:B` many. Exits 1 if an invariant is violated."""

import argparse
import gc
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.run import RunResult, run_seed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="print this run, and run it again, which must be the same")
    parser.add_argument("--seeds", default="0:1000", help="A:B, from A up to B, exclusive")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        sys.exit(replay(options.seed))
    first, _, beyond = options.seeds.rpartition(":")
    sys.exit(run_all(range(int(first or 0), int(beyond)), options.jobs))


def replay(seed: int) -> int:
    result, again = run_seed(seed), run_seed(seed)
    print("\n".join(result.lines))
    print(f"seed {seed}: {result.failure or 'every invariant held'}; {result.digest[:16]}")
    if result.digest != again.digest:
        print("but the second run differs")
        return 1
    return 1 if result.failure else 0


def run_all(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[RunResult] = []
    # Each run collects garbage: `freeze` exempts the modules, as tests/conftest.py does.
    with ProcessPoolExecutor(jobs, initializer=gc.freeze) as pool:
        for seed, result in zip(seeds, pool.map(run_seed, seeds, chunksize=20), strict=True):
            counts += result.counts
            counts["virtual seconds"] += int(result.seconds)
            if result.failure:
                failed.append(result)
                print(f"seed {seed}: {result.failure.splitlines()[0][:300]}", flush=True)
    taken = time.monotonic() - began
    print(
        f"{len(seeds)} seeds in {taken:.0f} s, {len(seeds) / taken:.0f} a second; {len(failed)} violated an invariant"
    )
    print(
        f"{counts.pop('virtual seconds') / 3600:.0f} simulated hours; "
        + ", ".join(f"{n} {count}" for count, n in counts.items())
    )
    return 1 if failed else 0


if __name__ == "__main__":
    main()
