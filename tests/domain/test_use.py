"""What containers used: samples, sums, words, and the advice for a smaller request."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchq.domain.use import (
    FIGURES,
    MIB,
    MIN_MEASURED,
    Spread,
    Use,
    memory_advice,
    spread,
    total_use,
    use_words,
    with_sample,
)
from tests.support.examples import examples

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
FIGURE = st.none() | st.integers(0, 2**40)
uses = st.builds(
    Use,
    sampled_at=st.integers(0, 1000).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    **dict.fromkeys(FIGURES, FIGURE),
)


@given(uses, uses)
@settings(max_examples=examples(200))
def test_a_figure_never_falls_with_a_later_sample(earlier, sample):
    after = with_sample(earlier, sample)

    for name in FIGURES:
        known = [value for value in (getattr(earlier, name), getattr(sample, name)) if value is not None]
        assert getattr(after, name) == max(known, default=None)
    assert after.sampled_at == max(earlier.sampled_at, sample.sampled_at)


def test_the_first_sample_is_the_use():
    assert with_sample(None, Use(sampled_at=NOON, cpu_seconds=1)) == Use(sampled_at=NOON, cpu_seconds=1)


@given(st.lists(st.none() | uses, max_size=3))
@settings(max_examples=examples(200))
def test_a_sum_counts_nothing_that_was_not_measured_as_zero(each):
    total = total_use(each)

    if None in each or not each:
        assert total is None
        return
    for name in FIGURES:
        values = [getattr(use, name) for use in each]
        assert getattr(total, name) == (None if None in values else sum(values))


def test_the_words_leave_out_what_was_not_measured():
    started, stopped = NOON - timedelta(seconds=10), NOON + timedelta(seconds=0.6)
    size = {"vcpus": 2, "memory_mib": 1024}
    use = Use(sampled_at=NOON, cpu_seconds=17, peak_memory=812 * MIB, bytes_read=0)

    assert use_words(use, started, None, **size) == (
        "17 s of CPU time; 1.7 of 2 vCPUs; peak 812 of 1,024 MiB; read 0 MiB"
    )
    assert use_words(Use(sampled_at=NOON, working_set=11 * 1024 * MIB), started, stopped, **size) == (
        "working set 11.0 GiB; as of 0.6 s before the end"
    )
    assert use_words(None, started, stopped, **size) == "not measured"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], None),
        ([None], None),
        ([3], Spread(3, 3, 3)),
        ([None, 2, 1], Spread(1, 2, 2)),
        (range(101), Spread(50, 95, 100)),
    ],
)
def test_the_spread_is_that_of_the_measured_numbers(numbers, expected):
    assert spread(numbers) == expected


USED = "Of 20 measured attempts 95 % used at most 900 MiB of 8 GiB"


def measured(*working_sets):
    return [Use(sampled_at=NOON, working_set=None if mib is None else mib * MIB) for mib in working_sets]


@pytest.mark.parametrize(
    ("working_sets", "advice"),
    [
        (
            [900] * MIN_MEASURED,
            f"{USED}, without page cache: 1,152 MiB would be enough.",
        ),
        ([900] * (MIN_MEASURED - 1), None),
        ([900] * (MIN_MEASURED - 1) + [None], None),
        ([4097] * MIN_MEASURED, None),
        ([900] * MIN_MEASURED + [5000] * 2, None),
    ],
)
def test_a_smaller_request_is_advised_if_working_sets_are_below_its_half(working_sets, advice):
    assert memory_advice(measured(*working_sets), 8192) == advice


def test_no_smaller_request_than_the_step_is_advised():
    assert memory_advice(measured(*[1] * MIN_MEASURED), 64) is None
