"""Bulk stops: the predicted outcome of a job is its outcome."""

from datetime import timedelta

import pytest

from batchq.domain import effects as do
from batchq.domain.bulk_stop import (
    BulkStopOrder,
    JobFilter,
    Kind,
    Outcome,
    has_children,
    outcome,
    request,
)
from batchq.domain.ids import child_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import ArrayState, Status
from batchq.domain.lifecycle.transitions import step
from batchq.domain.stop_orders import SignalStep
from tests.support.builders import NOON, attempt, job, job_id

CANCEL = BulkStopOrder(kind=Kind.CANCEL, reason="enough")
TERMINATE = BulkStopOrder(kind=Kind.TERMINATE, reason="enough", grace=timedelta(seconds=3), signal="SIGINT")


def live(status):
    began = {"attempt": attempt(started_at=NOON), "started_at": NOON}
    return job(status=status, **(began if status is Status.RUNNING else {}))


def told(it, order):
    after, effects = step(it, request(order, None), NOON)
    return after, [type(each) for each in effects], outcome(order.kind, it.status, has_children=has_children(it))


@pytest.mark.parametrize("status", ["SUBMITTED", "PENDING", "RUNNABLE"])
@pytest.mark.parametrize(("order", "said"), [(CANCEL, Outcome.CANCELLED), (TERMINATE, Outcome.TERMINATED)])
def test_queued_jobs_end_at_once(status, order, said):
    after, effects, became = told(live(Status(status)), order)

    assert (became, after.status, after.status_reason, effects) == (said, Status.FAILED, "enough", [])
    assert (after.is_cancelled, after.is_terminated) == (order is CANCEL, order is TERMINATE)


@pytest.mark.parametrize("status", ["STARTING", "RUNNING"])
def test_active_jobs_are_not_stopped_by_a_cancel_and_not_retried(status):
    after, effects, became = told(live(Status(status)), CANCEL)

    assert (became, after.status, after.cancel.reason, effects) == (Outcome.NOT_RETRIED, status, "enough", [])


def test_active_jobs_are_stopped_by_a_terminate_with_its_signal_and_grace_period():
    after, effects, became = told(live(Status.RUNNING), TERMINATE)

    assert (became, after.status, effects) == (Outcome.STOPPING, "RUNNING", [do.StopContainer])
    assert after.stop.steps == (SignalStep(signal="SIGINT", wait=timedelta(seconds=3)),)


@pytest.mark.parametrize("order", [CANCEL, TERMINATE])
def test_an_array_ends_with_its_children(order):
    array = job(array_size=2, status=Status.PENDING, array_state=ArrayState(spawned=2))

    after, _, became = told(array, order)

    assert (became, after.status) == (Outcome.STOPPING, Status.PENDING)


@pytest.mark.parametrize("order", [CANCEL, TERMINATE])
@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED])
def test_finished_jobs_are_unchanged(status, order):
    over = job(status=status)

    after, _, became = told(over, order)

    assert (became, after) == (Outcome.ALREADY_FINISHED, over)


def test_a_node_alone_is_stopped_as_a_node():
    assert (request(CANCEL, 2).node, request(TERMINATE, 2).node) == (2, 2)


@pytest.mark.parametrize(
    ("asked", "so"),
    [
        (JobFilter(), False),
        (JobFilter(names=frozenset({"a"})), False),
        (JobFilter(members=((job_id(1), None),)), False),
        (JobFilter(members=((child_id(job_id(1), 3), None),)), True),
        (JobFilter(statuses=frozenset(Status)), True),
        (JobFilter(environments=frozenset({"a"})), True),
    ],
)
def test_children_are_selected_separately_if_the_filter_may_separate_them(asked, so):
    assert asked.looks_at_children is so


def test_consecutive_orders_are_one_range():
    spans = IntervalSet([(5, 5), (1, 1), (2, 4), (9, 12), (10, 11)])

    assert [it for it in range(15) if it in spans] == [1, 2, 3, 4, 5, 9, 10, 11, 12]
    assert [spans.end(it) for it in (0, 1, 5, 6, 9, 12)] == [0, 5, 5, 6, 12, 12]
