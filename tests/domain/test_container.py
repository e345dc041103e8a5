import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchq.domain.container import (
    MAX_COMMAND_LENGTH,
    Overrides,
    Resources,
    effective,
    length,
    merge_pairs,
    substitute,
)
from batchq.errors import Invalid
from tests.support.builders import container

NOTHING = Overrides()
TEXTS = st.lists(st.text())
VARIABLES = st.lists(st.tuples(st.text(), st.text()))


def test_without_overrides_and_parameters_a_job_gets_the_definitions_container():
    spec = container(command=("echo", "hello"), environment=(("A", "1"),), user="nobody", gpus=1)

    assert effective(spec, NOTHING, ()) == spec


def test_an_overridden_command_replaces_the_whole_one():
    spec = container(command=("echo", "hello"))

    assert effective(spec, Overrides(command=("true",)), ()).command == ("true",)


def test_an_overridden_command_may_be_empty():
    spec = container(command=("echo", "hello"))

    assert effective(spec, Overrides(command=()), ()).command == ()


def test_each_resource_is_overridden_separately():
    spec = container(millicpus=1000, memory_mib=128, gpus=1)

    assert effective(spec, Overrides(millicpus=250), ()).resources == Resources(millicpus=250, memory_mib=128, gpus=1)
    assert effective(spec, Overrides(memory_mib=64), ()).resources == Resources(millicpus=1000, memory_mib=64, gpus=1)
    assert effective(spec, Overrides(gpus=0), ()).resources == Resources(millicpus=1000, memory_mib=128, gpus=0)


def test_members_without_overrides_are_those_of_the_definition():
    spec = container(user="nobody", privileged=True)

    made = effective(spec, Overrides(command=("true",), environment=(("A", "1"),), millicpus=1), ())

    assert (made.image, made.user, made.privileged) == (spec.image, "nobody", True)


def test_overridden_variables_replace_and_new_ones_are_added():
    spec = container(environment=(("A", "1"), ("B", "2")))

    made = effective(spec, Overrides(environment=(("C", "3"), ("A", "9"))), ())

    assert made.environment == (("A", "9"), ("B", "2"), ("C", "3"))


def test_parameters_are_substituted_in_an_overridden_command():
    spec = container(command=("echo", "Ref::word"))

    assert effective(spec, NOTHING, (("word", "hello"),)).command == ("echo", "hello")
    assert effective(spec, Overrides(command=("cat", "Ref::word")), (("word", "hi"),)).command == ("cat", "hi")


def test_a_placeholder_is_replaced_anywhere_in_a_word():
    parameters = {"a": "x", "": "y"}

    assert substitute(("Ref::a", "-Ref::a", "Ref::aRef::a b", "ref::a", "Ref::"), parameters) == (
        "x",
        "-x",
        "xx b",
        "ref::a",
        "Ref::",
    )


def test_the_longest_known_name_is_replaced():
    assert substitute(("Ref::words,Ref::word-s", "Ref::wo"), {"word": "1", "words": "2"}) == ("2,1-s", "Ref::wo")


def test_a_placeholder_without_a_value_is_unchanged():
    assert substitute(("Ref::a",), {}) == ("Ref::a",)


def test_a_value_that_resembles_a_placeholder_is_not_substituted():
    assert substitute(("Ref::a",), {"a": "Ref::b", "b": "no"}) == ("Ref::b",)


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
