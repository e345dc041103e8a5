"""Texts of the training dialect: times, durations, sizes, and the header Prefer."""

from datetime import UTC, datetime, timedelta

import pytest
from aiohttp.test_utils import make_mocked_request

from batchq.api.http.http import InvalidMember
from batchq.api.training.rest.figures import length_text, memory_text, parse_length, parse_memory, size_text
from batchq.api.training.rest.stop_jobs import preferred_wait
from batchq.domain.times import rfc3339


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("6h", timedelta(hours=6)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("45s", timedelta(seconds=45)),
        ("", None),
        ("6", None),
        ("30m1h", None),
        ("-1h", None),
        ("\u0663h", None),
        ("999999d", None),
    ],
)
def test_a_length_is_hours_minutes_and_seconds(text, length):
    assert parse_length(text) == length


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("8GB", 8192),
        ("8GiB", 8192),
        ("1.5 GB", 1536),
        ("512MB", 512),
        ("2T", 2 * 1024**2),
        ("0.2MB", None),
        ("8", None),
    ],
)
def test_a_memory_size_is_in_powers_of_1024(text, mib):
    assert parse_memory(text) == mib


def test_values_are_shown_as_the_api_writes_them():
    assert rfc3339(datetime(2026, 3, 2, 9, 14, 5, 120999, UTC)) == "2026-03-02T09:14:05.120Z"
    assert [length_text(timedelta(seconds=number)) for number in (0, 59, 60, 3780, 8100)] == [
        "0m",
        "0m",
        "1m",
        "1h 03m",
        "2h 15m",
    ]
    assert [memory_text(number) for number in (512, 8192)] == ["512MB", "8GB"]
    assert [size_text(number) for number in (0, 1023, 1536, 5 * 1024**3)] == ["0 B", "1023 B", "1.5 KB", "5.0 GB"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 0),
        ("respond-async", 0),
        ("wait=10", 10),
        ("respond-async, WAIT=60", 60),
        ("wait=1.5", 0),
        ("handling=lenient", 0),
    ],
)
def test_the_header_prefer_says_how_long_an_answer_may_wait(header, seconds):
    assert preferred_wait(make_mocked_request("POST", "/", headers={"Prefer": header})) == seconds


@pytest.mark.parametrize("header", ["wait=0", "wait=61", "wait=999999999"])
def test_a_wait_that_is_too_long_or_zero_is_refused(header):
    with pytest.raises(InvalidMember):
        preferred_wait(make_mocked_request("POST", "/", headers={"Prefer": header}))
