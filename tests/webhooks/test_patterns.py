"""The names that a webhook selects: `*` stands for any characters, and no pattern takes long."""

from time import process_time

import pytest

from batchq.domain.access.accounts import NO_OWNER
from batchq.domain.enums import EventKind
from batchq.domain.webhooks import EventSelection, Webhook, matches_pattern
from batchq.ports import webhooks
from batchq.ports.history import FeedEntry
from batchq.ports.webhooks import selects
from tests.support.builders import NOON, job, moment
from tests.webhooks.board import URL


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("fit", "FIT", True),
        ("fit", "fi", False),
        ("fit", "*", True),
        ("", "**", True),
        ("fit-1-a", "f*-*-a", True),
        ("fit-1", "*-*-*", False),
        ("aba", "ab*ba", False),
        ("fit1", "fit[0-9]", False),
        ("fit1", "fit?", False),
    ],
)
def test_only_the_asterisk_stands_for_other_characters(name, pattern, expected):
    assert matches_pattern(name, pattern) is expected


@pytest.mark.fault("SE90")
def test_the_longest_patterns_of_a_webhook_are_matched_within_milliseconds():
    """A regular expression of each takes milliseconds to compile, in which the event loop does nothing else."""
    selection = EventSelection(kinds=tuple(EventKind), names=tuple(f"{'*a' * 120}{number}" for number in range(50)))
    webhook = Webhook(id="wh-1", name="w", owner=NO_OWNER, url=URL, selection=selection, created_at=NOON)
    longest = "a" * 128
    entry = FeedEntry(number=1, entry=moment(job()), job_name=longest, queue="a-queue", owner=NO_OWNER)

    began = process_time()
    assert not selects(webhook, entry)

    assert process_time() - began < 0.05


def test_events_with_one_name_are_compared_with_the_patterns_once(monkeypatch):
    """Children of an array have the name of the array."""
    compared = []
    monkeypatch.setattr(webhooks, "matches_pattern", lambda name, pattern: compared.append(name))
    selection = EventSelection(kinds=tuple(EventKind), names=("one-child",))
    webhook = Webhook(id="wh-1", name="w", owner=NO_OWNER, url=URL, selection=selection, created_at=NOON)

    for number in range(3):
        child = FeedEntry(number=number, entry=moment(job()), job_name="children", queue="a-queue", owner=NO_OWNER)
        selects(webhook, child)

    assert compared == ["children"]
