"""What an attempt used over time."""

from datetime import timedelta

import pytest

from batchq.domain.use import Use
from batchq.domain.use_points import UsePoint, summed_points, use_levels
from batchq.engine.use_series import MAX_POINTS, UseSeries
from tests.support.builders import NOON


def point(seconds, cpu_seconds, memory):
    return UsePoint(NOON + timedelta(seconds=seconds), cpu_seconds, memory)


def test_cpu_time_is_spread_over_the_time_between_two_samples():
    levels = use_levels([point(0, 0, 10), point(10, 20, 30), point(40, 20, 20)], count=4)

    assert [level.vcpus for level in levels] == pytest.approx([2, 0, 0, 0])
    assert [level.memory for level in levels] == [10, 30, 30, 20]


def test_a_figure_that_was_not_measured_is_not_zero():
    levels = use_levels([point(0, None, 10), point(10, 5, None)], count=2)

    assert [level.vcpus for level in levels] == [None, None]
    assert [level.memory for level in levels] == [10, 10]
    assert use_levels([point(0, 1, 1)], count=2) == []


def test_several_containers_are_added_up_where_all_were_sampled():
    whole = summed_points([[point(1, 1, 10), point(2, 2, 20)], [point(2, 3, None), point(3, 4, 5)]])

    assert whole == (point(2, 5, None),)
    assert summed_points([]) == ()


def test_a_series_is_bounded_and_spans_the_whole_run():
    series = UseSeries()
    for second in range(100_000):
        series.add(Use(sampled_at=NOON + timedelta(seconds=second), cpu_seconds=2.0 * second, working_set=second))

    points = list(series.points())

    assert MAX_POINTS // 2 <= len(points) <= MAX_POINTS
    assert points[0] == point(0, 0, 0)
    assert points[-1].at > NOON + timedelta(seconds=95_000)
    assert all(level.vcpus == pytest.approx(2) for level in use_levels(points, count=60))
