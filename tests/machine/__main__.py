"""`python -m tests.machine` runs `--examples` sequences and prints the shortest that differs from the model."""

import argparse
import sys

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.machine.requests import sequences
from tests.machine.run import check


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="run the same sequences again")
    options = parser.parse_args()
    lines = 0

    @settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(sequence=sequences)
    def every_sequence_ends_as_in_the_model(sequence):
        nonlocal lines
        lines += 1
        check(sequence)

    if options.seed is not None:
        every_sequence_ends_as_in_the_model = seed(options.seed)(every_sequence_ends_as_in_the_model)
    try:
        every_sequence_ends_as_in_the_model()
    except AssertionError as wrong:
        print(wrong)
        return 1
    print(f"{lines} sequences, each as the model allows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
