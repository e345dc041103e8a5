"""`python -m tests.schedule` schedules 100,000 jobs, and prints how well. 1 at the end: somebody starved."""

import argparse
import sys
import time

from tests.schedule.day import live
from tests.schedule.witness import Sums
from tests.support.clock import TimerLoop


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.schedule", description=__doc__)
    asked.add_argument("--jobs", type=int, default=100_000)
    asked.add_argument("--vcpus", type=int, default=512)
    asked.add_argument("--seed", type=int, default=1)
    options = asked.parse_args()
    began = time.monotonic()
    loop = TimerLoop()
    sums = loop.run_until_complete(live(options.jobs, vcpus=options.vcpus, seed=options.seed))
    loop.close()
    print(told(sums, time.monotonic() - began))
    sys.exit(1 if sums.unfinished else 0)


def told(sums: Sums, took: float) -> str:
    waits = "\n".join(
        f"waited in {queue}: {mean:.0f} s on average, 95 % at most {most_of:.0f} s, the longest {most:.0f} s"
        for queue, (mean, most_of, most) in sums.waited.items()
    )
    given = ", ".join(f"{share} {part:.1%}" for share, part in sums.given.items())
    return (
        f"{sums.jobs} jobs in {sums.lasted / 3600:.1f} simulated hours ({took:.0f} s); {sums.unfinished} starved\n"
        f"utilisation {sums.utilisation:.1%}\n{waits}\n"
        f"in fifo, with no older one that waits: {sums.delayed:.0f} s at most\n"
        f"while all shares waited: {given}; share error {sums.share_error:.1%}"
    )


if __name__ == "__main__":
    main()
