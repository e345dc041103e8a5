"""Orphaned containers: observed for a minute, and removed if they are few."""

import logging
from datetime import timedelta

import pytest

from batchq.domain.ids import JobId, Tag
from batchq.engine.orphan_containers import MAX_ORPHANS, QUARANTINE, OrphanContainers
from tests.domain.lives import at

ONE, OTHER = Tag(job_id=JobId("one"), attempt=1), Tag(job_id=JobId("other"), attempt=1)
MANY = [Tag(job_id=JobId(f"orphan-{number}"), attempt=1) for number in range(MAX_ORPHANS + 1)]


def surveyed_orphans():
    """The first survey after the start found all of them."""
    orphans = OrphanContainers()
    orphans.record_survey([ONE, OTHER, *MANY])
    return orphans


@pytest.mark.fault("CO02")
def test_an_orphan_found_after_the_first_survey_is_reported_once_and_never_removed(caplog):
    orphans = OrphanContainers()
    orphans.record_survey([ONE])
    orphans.record_survey([ONE, OTHER])

    assert [orphans.expired([ONE, OTHER], at(seconds)) for seconds in (0, 60)] == [[], [ONE]]
    assert [record.getMessage().split()[1] for record in caplog.records] == [str(OTHER)]


@pytest.mark.fault("EN17")
def test_an_orphan_is_observed_for_a_minute():
    orphans = surveyed_orphans()
    orphans.expired([ONE], at(0))

    assert timedelta(seconds=60) == QUARANTINE
    assert orphans.expired([ONE], at(59.999)) == []
    assert orphans.expired([ONE], at(60)) == [ONE]


def test_each_orphan_has_its_own_minute():
    orphans = surveyed_orphans()
    orphans.expired([ONE], at(0))
    orphans.expired([ONE, OTHER], at(30))

    assert orphans.expired([ONE, OTHER], at(60)) == [ONE]
    assert orphans.expired([ONE, OTHER], at(90)) == [ONE, OTHER]


def test_an_orphan_that_disappeared_and_returned_is_observed_anew():
    orphans = surveyed_orphans()
    orphans.expired([ONE], at(0))
    orphans.expired([], at(30))

    assert orphans.expired([ONE], at(60)) == []
    assert orphans.expired([ONE], at(120)) == [ONE]


@pytest.mark.fault("EN17")
def test_more_than_three_orphans_are_kept_and_reported_once(caplog):
    orphans = surveyed_orphans()

    with caplog.at_level(logging.WARNING):
        expired = [orphans.expired(MANY, at(seconds)) for seconds in (0, 60, 3600)]

    assert expired == [[], [], []]
    assert [record.getMessage() for record in caplog.records] == [
        "4 containers of this instance have no known job; none of them is removed"
    ]


def test_many_orphans_are_reported_again_after_there_were_few(caplog):
    orphans = surveyed_orphans()

    with caplog.at_level(logging.WARNING):
        orphans.expired(MANY, at(0))
        orphans.expired([], at(10))
        orphans.expired(MANY, at(20))

    assert len(caplog.records) == 2
