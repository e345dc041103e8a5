"""Bulk stops: the predicted outcome of a job is its outcome."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import child_id, node_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job_selection import JobSelection
from tests.support.builders import job_id


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (JobSelection(), False),
        (JobSelection(names=frozenset({"a"})), False),
        (JobSelection(ids=(job_id(1),)), False),
        (JobSelection(ids=(child_id(job_id(1), 3),)), True),
        (JobSelection(ids=(node_id(child_id(job_id(1), 3), 0),)), True),
        (JobSelection(parent=job_id(1)), True),
        (JobSelection(statuses=frozenset(Status)), False),
        (JobSelection(statuses=frozenset({Status.RUNNING})), True),
        (JobSelection(held=True), True),
        (JobSelection(exit_codes=frozenset({1})), True),
        (JobSelection(children=True), True),
        (JobSelection(environments=frozenset({"a"})), True),
    ],
)
def test_children_are_selected_separately_if_the_filter_may_separate_them(selection, expected):
    assert selection.separates_children is expected


def test_consecutive_orders_are_one_range():
    spans = IntervalSet([(5, 5), (1, 1), (2, 4), (9, 12), (10, 11)])

    assert [index for index in range(15) if index in spans] == [1, 2, 3, 4, 5, 9, 10, 11, 12]
    assert [spans.end(number) for number in (0, 1, 5, 6, 9, 12)] == [0, 5, 5, 6, 12, 12]
