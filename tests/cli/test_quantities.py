"""Durations, memory sizes and numbers of flags."""

from argparse import ArgumentTypeError

import pytest

from batchq.cli.quantities import parse_count, parse_mib, parse_seconds, parse_vcpus

PARSED = [
    (parse_seconds, {"90": 90, "90s": 90, "90m": 5400, "1h30m": 5400, "2d": 172_800, "1d2h3m4s": 93_784, "1.5h": 5400}),
    (
        parse_mib,
        {"512": 512, "512m": 512, "4g": 4096, "4GiB": 4096, "4 GiB": 4096, "1.5g": 1536, "1k": 1, "1t": 1_048_576},
    ),
    (parse_vcpus, {"2": "2", "0.25": "0.25"}),
]
NOT_A_DURATION = "is not a duration, for example 90s, 15m, 1h30m or 2d"
REFUSED = [
    (parse_seconds, ["", "h", "-1s", "1 h", "1y", "٣s", "9" * 30, "9" * 30 + "s", "1h30", "1h 30m"], NOT_A_DURATION),
    (
        parse_mib,
        ["", "g", "0", "0g", "-1g", "1x", "1  g", "1e9", "nan", "9" * 30],
        "is not a memory size; examples: 512m, 4g",
    ),
    (parse_vcpus, ["0", "1.0001", "-1", "all", "1e3"], "is not a number of vCPUs; examples: 1, 0.5"),
    (parse_count, ["0", "-1", "1.5", "", "x", "٣"], "is not a whole number of at least 1"),
]


@pytest.mark.parametrize(
    ("parse", "text", "value"), [(parse, *pair) for parse, values in PARSED for pair in values.items()]
)
def test_a_quantity_has_a_value(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "error"), [(parse, text, error) for parse, texts, error in REFUSED for text in texts]
)
def test_another_text_is_refused_with_examples(parse, text, error):
    with pytest.raises(ArgumentTypeError, match=error):
        parse(text)
