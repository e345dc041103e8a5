"""What an order to cancel or terminate would do to a job, as pages state it before the order."""

from datetime import timedelta
from itertools import product

import pytest

from batchq.domain import stop_messages
from batchq.domain.enums import FINISHED, Outcome, Status, StopKind
from batchq.domain.job import ArrayState
from batchq.domain.lifecycle.transitions import step
from batchq.domain.stop_forecast import forecast_stop
from batchq.domain.stop_request import StopRequest
from batchq.domain.training import CheckpointRules
from tests.support.builders import NOON, gang, job

CANCEL = StopRequest(kind=StopKind.CANCEL, reason="enough")
TERMINATE = StopRequest(kind=StopKind.TERMINATE, reason="enough")
CHECKPOINT = StopRequest(kind=StopKind.TERMINATE, reason="enough", checkpoint=True)
FORCE = StopRequest(kind=StopKind.TERMINATE, reason="enough", force=True)
ORDERS = (CANCEL, TERMINATE, CHECKPOINT, FORCE)
GRACE = timedelta(seconds=10)
AT_ONCE = "FAILED at once, no container is created."
STOPPED = "SIGKILL after 10 s, FAILED whatever the exit code, never retried."


def stored(status=Status.RUNNING, **changes):
    return job(**{"status": status, "stop_grace": GRACE} | changes)


def after(order, before):
    return step(before, order.event(node=None), NOON)[0]


@pytest.mark.parametrize(
    ("status", "order", "text"),
    [
        *(
            (status, order, AT_ONCE)
            for status in (Status.SUBMITTED, Status.PENDING, Status.RUNNABLE)
            for order in ORDERS
        ),
        (Status.RUNNING, CANCEL, "The attempt continues and is the last one; if it succeeds, the job is SUCCEEDED."),
        (Status.RUNNING, TERMINATE, f"SIGTERM, {STOPPED}"),
        (Status.RUNNING, FORCE, "SIGKILL, FAILED whatever the exit code, never retried."),
        (
            Status.STARTING,
            TERMINATE,
            (
                "The start is abandoned if the container engine has not received it. "
                f"Otherwise, as soon as it runs: SIGTERM, {STOPPED}"
            ),
        ),
        (Status.SUCCEEDED, TERMINATE, "Already SUCCEEDED."),
        (Status.FAILED, CANCEL, "Already FAILED."),
    ],
)
def test_the_text_is_that_of_the_matrix_of_cancel_and_terminate(status, order, text):
    assert forecast_stop(order, stored(status)).text == text


def test_an_order_has_an_effect_exactly_if_it_changes_the_job():
    for status, first, order in product(Status, [None, *ORDERS], ORDERS):
        before = stored(status)
        before = before if first is None else after(first, before)

        assert forecast_stop(order, before).has_effect == (after(order, before) != before), (status, first, order)


def test_a_job_fails_if_it_was_forecast():
    for status, order in product(Status, ORDERS):
        before = stored(status)
        found = forecast_stop(order, before)
        ordered = after(order, before)

        if status in FINISHED:
            assert ordered is before
        elif found.outcome in {Outcome.CANCELLED, Outcome.TERMINATED}:
            assert ordered.status is Status.FAILED, (status, order)
        else:
            assert found.fails == (ordered.stop is not None), (status, order)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (CheckpointRules(signal="USR1"), f"SIGUSR1 and up to 2 min for a final checkpoint, SIGTERM, {STOPPED}"),
        (CheckpointRules(), f"Final checkpoint, SIGTERM, {STOPPED.replace('10', '120')}"),
        (None, f"SIGTERM, {STOPPED} Without a final checkpoint: the job has no checkpoint directory."),
    ],
)
def test_a_final_checkpoint_is_described_with_its_signal_and_its_time(rules, text):
    assert forecast_stop(CHECKPOINT, stored(checkpoints=rules)).text == text


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (TERMINATE, f"3,950 children are FAILED at once. 40 children run: SIGTERM, {STOPPED}"),
        (
            CANCEL,
            (
                "3,950 children are FAILED at once. "
                "Children that run continue and are not retried, FAILED when none is left (40 run now)."
            ),
        ),
    ],
)
def test_the_children_of_an_array_are_counted(order, text):
    counts = ((Status.RUNNING, 38), (Status.STARTING, 2), (Status.SUCCEEDED, 10))
    array = stored(Status.PENDING, array_size=4000, array_state=ArrayState(spawned=4000, counts=counts))

    assert forecast_stop(order, array).text == text


def test_a_node_says_what_happens_to_the_whole_job():
    whole = stored(nodes=gang(3))

    assert forecast_stop(TERMINATE, whole).text.endswith(" All 3 nodes are stopped.")
    assert forecast_stop(TERMINATE, whole, 0).text.endswith(" It is the main node, so the whole job ends.")
    alone = "the job and its other containers continue. The next attempt has all nodes again."
    assert forecast_stop(TERMINATE, whole, 1).text.endswith(alone)
    assert "A node cannot be cancelled alone, so this is the whole job." in forecast_stop(CANCEL, whole, 1).text


def test_the_shared_texts_are_of_outcomes():
    texts = (stop_messages.DONE, stop_messages.WOULD_BE_DONE, stop_messages.CONSEQUENCES)

    assert {element for each in texts for element in each} <= set(Outcome)
