"""The container of a job: that of its definition with overrides and parameters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.container import MAX_COMMAND_LENGTH, Overrides, effective, length, merge_pairs, substitute
from batchq.errors import Invalid
from tests.support.builders import container

NOTHING = Overrides()
TEXTS = st.lists(st.text())
VARIABLES = st.lists(st.tuples(st.text(), st.text()))


SPEC = container(
    command=("echo", "Ref::word"), environment=(("A", "1"), ("B", "2")), user="nobody", privileged=True, gpus=1
)


@pytest.mark.parametrize(
    ("overrides", "parameters", "changes"),
    [
        (NOTHING, (), {}),
        (NOTHING, (("word", "hello"),), {"command": ("echo", "hello")}),
        (Overrides(command=("true",)), (), {"command": ("true",)}),
        (Overrides(command=()), (), {"command": ()}),
        (Overrides(command=("cat", "Ref::word")), (("word", "hi"),), {"command": ("cat", "hi")}),
        (Overrides(millicpus=250), (), {"resources": replace(SPEC.resources, millicpus=250)}),
        (Overrides(memory_mib=64), (), {"resources": replace(SPEC.resources, memory_mib=64)}),
        (Overrides(gpus=0), (), {"resources": replace(SPEC.resources, gpus=0)}),
        (Overrides(environment=(("C", "3"), ("A", "9"))), (), {"environment": (("A", "9"), ("B", "2"), ("C", "3"))}),
    ],
)
def test_overrides_and_parameters_change_only_what_they_name(overrides, parameters, changes):
    assert effective(SPEC, overrides, parameters) == replace(SPEC, **changes)


@pytest.mark.parametrize(
    ("words", "parameters", "expected"),
    [
        (
            ("Ref::a", "-Ref::a", "Ref::aRef::a b", "ref::a", "Ref::"),
            {"a": "x", "": "y"},
            ("x", "-x", "xx b", "ref::a", "Ref::"),
        ),
        (("Ref::words,Ref::word-s", "Ref::wo"), {"word": "1", "words": "2"}, ("2,1-s", "Ref::wo")),
        (("Ref::a",), {}, ("Ref::a",)),
        (("Ref::a",), {"a": "Ref::b", "b": "no"}, ("Ref::b",)),
    ],
    ids=["anywhere in a word", "the longest known name", "no value", "values are not searched"],
)
def test_a_placeholder_is_replaced_by_its_value(words, parameters, expected):
    assert substitute(words, parameters) == expected


def test_parameters_that_make_a_command_too_long_are_refused():
    """Before the text is built: each of 4,000 placeholders may stand for 30 KB."""
    assert len(substitute(("Ref::a" * 4,), {"a": "x" * (MAX_COMMAND_LENGTH // 4)})[0]) == MAX_COMMAND_LENGTH
    with pytest.raises(Invalid, match="command"):
        substitute(("Ref::a",) * 5, {"a": "x" * (MAX_COMMAND_LENGTH // 4)})


def test_merging_keeps_each_name_once_in_order():
    assert merge_pairs((("A", "1"), ("B", "2"), ("A", "3")), (("B", "4"), ("C", "5"))) == (
        ("A", "3"),
        ("B", "4"),
        ("C", "5"),
    )


@given(TEXTS, VARIABLES)
def test_the_length_of_overrides_is_that_of_their_json(command, environment):
    listed = [{"name": name, "value": value} for name, value in environment]
    text = json.dumps({"command": command, "environment": listed}, ensure_ascii=False, separators=(",", ":"))

    assert length(Overrides(command=tuple(command), environment=tuple(environment))) == len(text)
