"""Measures in pairs, A B A B, and prints the medians, their spread, and the median of the ratios."""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.bench import arrays, stopping, submitting, throughput
from tests.bench.bare import Bare
from tests.support.service import Service, serving

AT_ONCE = 4


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=3)
    options.add_argument("--jobs", type=int, default=100)
    options.add_argument("--submits", type=int, default=4000)
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="batchq-bench-") as directory,
        serving(Path(directory) / "data", "--stop-grace", "5") as service,
    ):
        measure(service, given)
    service.sweep()
    return 0


def measure(service: Service, given: argparse.Namespace) -> None:
    batch, bare = service.client(), Bare()
    throughput.stage(batch, AT_ONCE)
    submitting.stage(service)
    print(f"{'figure':44} {'batchq':>16} {'against':>16} {'ratio':>7}")
    table(
        f"containers/s, {given.jobs} x true, {AT_ONCE} at once (bare SDK)",
        given.pairs,
        lambda: throughput.through_batchq(service, given.jobs),
        lambda: bare.run(given.jobs, AT_ONCE),
    )
    table(
        "SubmitJob/s, durable (DescribeJobs/s)",
        given.pairs,
        lambda: submitting.rate(service, "submitjob", submitting.SUBMIT, given.submits),
        lambda: submitting.rate(service, "describejobs", submitting.DESCRIBE, given.submits),
    )
    table(
        "ms from TerminateJob to death (SDK's kill)",
        given.pairs * 3,
        lambda: stopping.through_batchq(service),
        lambda: stopping.directly(bare),
    )
    table(
        "ms to accept an array of 10,000 (one job)",
        given.pairs * 3,
        lambda: arrays.accepted(service, arrayProperties={"size": arrays.SIZE}),
        lambda: arrays.accepted(service),
    )
    table(
        "ms to cancel an array of 10,000 (100 jobs)",
        given.pairs,
        lambda: arrays.array_cancelled(service),
        lambda: arrays.singles_cancelled(service),
    )
    bare.close()


def table(name: str, pairs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> None:
    """One line: medians with the least and the most, and the median of the pairs' ratios."""
    found = [(theirs(), ours()) for _ in range(pairs)]
    told = [f"{median(side):.1f} ({min(side):.0f}-{max(side):.0f})" for side in zip(*found, strict=True)]
    ratio = median(our / their for their, our in found)
    print(f"{name:44} {told[1]:>16} {told[0]:>16} {ratio:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
