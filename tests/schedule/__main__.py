"""`python -m tests.schedule` schedules 100,000 jobs and prints metrics. It exits 1 if a job starved."""

import argparse
import sys
import time

from tests.schedule.run import Metrics, run_workload
from tests.support.clock import TimerLoop


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedule", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--vcpus", type=int, default=512)
    parser.add_argument("--machines", type=int, default=1, help="equal machines that share the vCPUs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    loop = TimerLoop()
    workload = run_workload(options.jobs, vcpus=options.vcpus, seed=options.seed, machines=options.machines)
    metrics = loop.run_until_complete(workload)
    loop.close()
    print(report(metrics, time.monotonic() - began))
    sys.exit(1 if metrics.unfinished else 0)


def report(metrics: Metrics, took: float) -> str:
    waits = "\n".join(
        f"waited in {queue}: {mean:.0f} s on average, 95 % at most {p95:.0f} s, the longest {most:.0f} s"
        for queue, (mean, p95, most) in metrics.waits.items()
    )
    used_by_share = ", ".join(f"{share} {part:.1%}" for share, part in metrics.used_by_share.items())
    return (
        f"{metrics.jobs} jobs in {metrics.duration / 3600:.1f} simulated hours ({took:.0f} s), "
        f"{metrics.unfinished} starved\n"
        f"utilisation {metrics.utilisation:.1%}\n{waits}\n"
        f"in fifo, with no older one that waits: {metrics.longest_delay:.0f} s at most\n"
        f"while all shares waited: {used_by_share}; share error {metrics.share_error:.1%}"
    )


if __name__ == "__main__":
    main()
