"""`python -m tests.machine --examples 5000` tries that many stories, and tells the shortest that goes wrong."""

import argparse
import sys

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.machine.deeds import stories
from tests.machine.tell import check


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    asked.add_argument("--examples", type=int, default=1000)
    asked.add_argument("--seed", type=int, default=None, help="the same stories again")
    options = asked.parse_args()
    told = 0

    @settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(story=stories)
    def every_story_ends_as_the_model_says(story):
        nonlocal told
        told += 1
        check(story)

    if options.seed is not None:
        every_story_ends_as_the_model_says = seed(options.seed)(every_story_ends_as_the_model_says)
    try:
        every_story_ends_as_the_model_says()
    except AssertionError as wrong:
        print(wrong)
        return 1
    print(f"{told} stories, each as the model says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
