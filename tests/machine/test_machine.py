"""Random sequences of requests have the outcome that the model allows. aws-batch.md 5, 7 and 8."""

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.machine.requests import After, AttemptScript, HoldRequest, Order, Restart, Sequence, Submit, Wait, sequences
from tests.machine.run import check
from tests.support.examples import examples

ONE_OF_EACH = Sequence(
    steps=(
        Submit(size=4, sequential=True, own=((2, AttemptScript(seconds=None)),)),
        Submit(scripts=(AttemptScript(seconds=0.5, exit_code=1), AttemptScript()), attempts=3, counterpart=0),
        Submit(after=(After(job=0, child=1),)),
        Wait(seconds=0.5),
        Restart(away=2),
        Order(kind="cancel", of=1),
        Order(kind="terminate", of=0, child=2),
        Order(kind="terminate", of=None),
    )
)


RELEASED_AFTER_A_CANCELLED_CHILD = Sequence(
    steps=(
        Submit(size=3, sequential=True),
        HoldRequest(kind="hold", of=0),
        Order(kind="cancel", of=0, child=2),
        HoldRequest(kind="release", of=0),
    )
)


#: The pause is handled in the unit of work in which its job ends.
PAUSED_AT_ITS_END = Sequence(
    steps=(
        Submit(scripts=(AttemptScript(),)),
        Submit(scripts=(AttemptScript(seconds=2),)),
        Submit(size=2),
        Submit(),
        Order(kind="cancel", of=None),
        Wait(seconds=2),
        Wait(seconds=0),
        HoldRequest(kind="pause", of=1),
    )
)


@pytest.mark.fault("IN26", "TM08")
@example(sequence=ONE_OF_EACH)
@example(sequence=RELEASED_AFTER_A_CANCELLED_CHILD)
@example(sequence=PAUSED_AT_ITS_END)
@given(sequence=sequences)
@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_the_outcome_of_each_job_is_one_that_the_model_allows(sequence):
    check(sequence)
