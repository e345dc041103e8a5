"""Durations and memory sizes of flags."""

from argparse import ArgumentTypeError

import pytest

from batchq.cli.quantities import parse_count, parse_mib, parse_seconds, parse_vcpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("90m", 5400), ("1h30m", 5400), ("2d", 172_800), ("1d2h3m4s", 93_784), ("1.5h", 5400)],
)
def test_a_duration_is_in_seconds(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1s", "1 h", "1y", "٣s", "9" * 30, "9" * 30 + "s", "1h30", "1h 30m"])
def test_other_durations_are_refused_with_examples(text):
    with pytest.raises(ArgumentTypeError, match="is not a duration, for example 90s, 15m, 1h30m or 2d"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512", 512), ("512m", 512), ("4g", 4096), ("4GiB", 4096), ("1.5g", 1536), ("1k", 1), ("1t", 1_048_576)],
)
def test_a_memory_size_is_in_mib(text, mib):
    assert parse_mib(text) == mib


@pytest.mark.parametrize("text", ["", "g", "0", "0g", "-1g", "1x", "1 g", "1e9", "nan", "9" * 30])
def test_other_memory_sizes_are_refused_with_examples(text):
    with pytest.raises(ArgumentTypeError, match="is not a memory size; examples: 512m, 4g"):
        parse_mib(text)


def test_vcpus_have_up_to_three_decimals():
    assert [parse_vcpus(it) for it in ("2", "0.25")] == ["2", "0.25"]
    for text in ("0", "1.0001", "-1", "all", "1e3"):
        with pytest.raises(ArgumentTypeError):
            parse_vcpus(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "x", "٣"])
def test_a_count_is_a_whole_number_of_at_least_one(text):
    with pytest.raises(ArgumentTypeError):
        parse_count(text)
