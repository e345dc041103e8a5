"""A value made anew is what `dataclasses.replace` would make of it."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from batchq.domain.replacing import quick, replace
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """One with a member of each sort."""

    said: str
    number: int = 3
    kind: str = "any"
    several: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("one", "two"))


@quick
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """The same, made quickly."""

    said: str
    number: int = 3
    kind: str = "any"
    several: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("one", "two"))


@pytest.mark.parametrize("given", [{}, {"number": 5}, {"several": ()}, {"number": 0, "kind": "", "several": ("more",)}])
def test_one_made_quickly_has_what_it_would_have(given):
    made = Quick(said="so", **given)

    assert type(made) is Quick
    assert dataclasses.asdict(made) == dataclasses.asdict(Slow(said="so", **given))
    assert made == Quick(said="so", **given)
    assert hash(made) == hash(Slow(said="so", **given))


@pytest.mark.parametrize("given", [{}, {"said": "so", "colour": "red"}])
def test_what_it_does_not_take_it_does_not_take_quickly_either(given):
    with pytest.raises(TypeError):
        Quick(**given)


def test_one_made_quickly_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Quick(said="so").said = "otherwise"


def test_one_made_quickly_is_copied_and_described_as_any():
    made = Quick(said="so")

    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert repr(made) == "Quick(said='so', number=3, kind='any', several=('one', 'two'))"
    assert inspect.signature(Quick) == inspect.signature(Slow)


def test_a_default_that_is_read_from_it_may_be_given_to_it():
    read = inspect.signature(Quick).parameters["several"].default

    assert Quick(said="so", several=read) == Quick(said="so")
