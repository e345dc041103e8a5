"""Whatever is asked, in whatever order: what becomes of it is what the model says. aws-batch.md 5, 7 and 8."""

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from tests.machine.deeds import Act, After, Order, Pass, Restart, Story, Submit, stories
from tests.machine.tell import check
from tests.support.examples import examples

ONE_OF_EACH = Story(
    deeds=(
        Submit(size=4, sequential=True, own=((2, Act(seconds=None)),)),
        Submit(acts=(Act(seconds=0.5, exit_code=1), Act()), attempts=3, counterpart=0),
        Submit(after=(After(job=0, child=1),)),
        Pass(seconds=0.5),
        Restart(away=2),
        Order(kind="cancel", of=1),
        Order(kind="terminate", of=0, child=2),
        Order(kind="terminate", of=None),
    )
)


@pytest.mark.fault("IN26", "TM08")
@example(story=ONE_OF_EACH)
@given(story=stories)
@settings(
    max_examples=examples(200),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # `check` shortens by itself, in seconds
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_what_becomes_of_jobs_is_what_the_model_says(story):
    check(story)
