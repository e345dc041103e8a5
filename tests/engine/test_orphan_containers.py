"""Orphaned containers: observed for a minute, and removed if they are few."""

import logging
from datetime import timedelta

import pytest

from batchq.domain.ids import JobId, Tag
from batchq.engine.state import MAX_ORPHANS, QUARANTINE, OrphanContainers
from tests.domain.lives import at

ONE, OTHER = Tag(job_id=JobId("one"), attempt=1), Tag(job_id=JobId("other"), attempt=1)
MANY = [Tag(job_id=JobId(f"stray-{number}"), attempt=1) for number in range(MAX_ORPHANS + 1)]


def watching():
    """By a server that found all of them when it started."""
    strays = OrphanContainers()
    strays.record_survey([ONE, OTHER, *MANY])
    return strays


@pytest.mark.fault("CO02")
def test_an_orphan_found_after_the_first_survey_is_reported_once_and_never_removed(caplog):
    strays = OrphanContainers()
    strays.record_survey([ONE])
    strays.record_survey([ONE, OTHER])

    assert [strays.expired([ONE, OTHER], at(seconds)) for seconds in (0, 60)] == [[], [ONE]]
    assert [it.getMessage().split()[1] for it in caplog.records] == [str(OTHER)]


@pytest.mark.fault("EN17")
def test_an_orphan_is_observed_for_a_minute():
    strays = watching()
    strays.expired([ONE], at(0))

    assert timedelta(seconds=60) == QUARANTINE
    assert strays.expired([ONE], at(59.999)) == []
    assert strays.expired([ONE], at(60)) == [ONE]


def test_an_orphan_that_still_exists_is_removed_again():
    strays = watching()
    strays.expired([ONE], at(0))

    assert strays.expired([ONE], at(60)) == [ONE]
    assert strays.expired([ONE], at(70)) == [ONE]


def test_each_orphan_has_its_own_minute():
    strays = watching()
    strays.expired([ONE], at(0))
    strays.expired([ONE, OTHER], at(30))

    assert strays.expired([ONE, OTHER], at(60)) == [ONE]
    assert strays.expired([ONE, OTHER], at(90)) == [ONE, OTHER]


def test_an_orphan_that_disappeared_and_returned_is_observed_anew():
    strays = watching()
    strays.expired([ONE], at(0))
    strays.expired([], at(30))

    assert strays.expired([ONE], at(60)) == []
    assert strays.expired([ONE], at(120)) == [ONE]


@pytest.mark.fault("EN17")
def test_more_than_three_orphans_are_kept_and_reported_once(caplog):
    strays = watching()

    with caplog.at_level(logging.WARNING):
        ripe = [strays.expired(MANY, at(seconds)) for seconds in (0, 60, 3600)]

    assert ripe == [[], [], []]
    assert [it.getMessage() for it in caplog.records] == [
        "4 containers of this instance have no known job; none of them is removed"
    ]


def test_many_orphans_are_reported_again_after_there_were_few(caplog):
    strays = watching()

    with caplog.at_level(logging.WARNING):
        strays.expired(MANY, at(0))
        strays.expired([], at(10))
        strays.expired(MANY, at(20))

    assert len(caplog.records) == 2
