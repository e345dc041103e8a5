"""`python -m tests.simulation --seed N` tells a run, `--seeds A:B` tries many. 1 at the end: one broke a promise."""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.run import Told, tell


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    asked.add_argument("--seed", type=int, help="tell this run, twice over, and see that it is the same")
    asked.add_argument("--seeds", default="0:1000", help="A:B, from A up to but without B")
    asked.add_argument("--jobs", type=int, default=os.cpu_count())
    options = asked.parse_args()
    if options.seed is not None:
        sys.exit(replay(options.seed))
    first, _, beyond = options.seeds.rpartition(":")
    sys.exit(try_all(range(int(first or 0), int(beyond)), options.jobs))


def replay(seed: int) -> int:
    told, again = tell(seed), tell(seed)
    print("\n".join(told.lines))
    print(f"seed {seed}: {told.broken or 'every promise was kept'}; {told.digest[:16]}")
    if told.digest != again.digest:
        print("but told again it is another story")
        return 1
    return 1 if told.broken else 0


def try_all(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    broken: list[Told] = []
    with ProcessPoolExecutor(jobs) as pool:
        for seed, told in zip(seeds, pool.map(tell, seeds, chunksize=20), strict=True):
            counts += told.counts
            counts["virtual seconds"] += int(told.seconds)
            if told.broken:
                broken.append(told)
                print(f"seed {seed}: {told.broken.splitlines()[0][:300]}", flush=True)
    taken = time.monotonic() - began
    print(f"{len(seeds)} seeds in {taken:.0f} s, {len(seeds) / taken:.0f} a second; {len(broken)} broke a promise")
    print(
        f"{counts.pop('virtual seconds') / 3600:.0f} simulated hours; "
        + ", ".join(f"{n} {it}" for it, n in counts.items())
    )
    return 1 if broken else 0


if __name__ == "__main__":
    main()
