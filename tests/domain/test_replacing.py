"""A value made anew is what `dataclasses.replace` would make of it."""

import dataclasses

import pytest

from batchq.domain.replacing import replace
from tests.support.builders import NOON, attempt, job, stop


@pytest.mark.parametrize(
    ("it", "changes"),
    [
        (job(number=1, name="a"), {"version": 7, "cancelled": "so"}),
        (attempt(), {"exit_code": 1, "stopped_at": NOON}),
        (stop(), {"kill_at": NOON}),
    ],
)
def test_it_is_the_same_but_for_what_is_replaced(it, changes):
    made = replace(it, **changes)

    assert made == dataclasses.replace(it, **changes)
    assert made is not it
    assert hash(made) == hash(dataclasses.replace(it, **changes))


def test_nothing_replaced_is_an_equal():
    it = job()

    assert (replace(it), replace(it) is it) == (it, False)


def test_what_is_no_member_is_refused():
    with pytest.raises(AttributeError):
        replace(job(), colour="red")


def test_what_was_made_is_as_frozen_as_any():
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(job(), version=1).version = 2
