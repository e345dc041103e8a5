"""The soak reports each size that grows, and stored sizes only once the retention removes as much as is added."""

import pytest
from msgspec.structs import replace

from tests.soak.__main__ import Sample, growth

FLAT = Sample(
    minute=0,
    submitted=0,
    ended=0,
    outstanding=3,
    restarts=0,
    rss=110.0,
    files=40,
    database=8.0,
    logs=800.0,
    load=1.0,
)


def samples(minutes, **growing):
    """A sample a minute; each of these fields grows evenly by so much in the whole run."""
    return [
        replace(
            FLAT,
            minute=minute,
            **{name: getattr(FLAT, name) + more * minute / minutes for name, more in growing.items()},
        )
        for minute in range(minutes)
    ]


def test_flat_sizes_do_not_grow():
    assert growth(samples(120)) == []


@pytest.mark.parametrize(
    ("growing", "found"),
    [
        ({"rss": 100.0}, "RSS, MiB grew from 147 to 197"),
        ({"files": 60}, "open files grew from 62 to 92"),
        ({"database": 10.0}, "database, MiB grew from 12 to 17"),
        ({"logs": 900.0}, "logs, MiB grew from 1134 to 1584"),
    ],
)
def test_each_size_that_grows_is_reported(growing, found):
    assert growth(samples(120, **growing)) == [found]


def test_stored_sizes_are_not_compared_before_the_retention_removes_jobs():
    assert growth(samples(40, database=10.0, logs=900.0)) == []
    assert len(growth(samples(64, database=10.0, logs=900.0))) == 2
