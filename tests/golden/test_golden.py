"""Golden files of all stored shapes and names, of answers and of commands: a change of one fails a test."""

import re
from typing import get_args

import pytest

from batchq.store import statements
from tests.golden import stored
from tests.golden.__main__ import difference, generated, kept

# A loaded machine takes minutes for the day whose answers are compared.
pytestmark = [pytest.mark.process, pytest.mark.smoke, pytest.mark.timeout(600)]

ADVICE = """{name} is another than its golden file.

Data that is stored, and names of containers, outlive an upgrade of batchq. If the change is intended:
  1. let a new version of batchq understand what the version before it has written: a migration
     (batchq/store/sql/000N_*.sql) that rewrites the rows, or a reader that takes both;
  2. `python -m tests.golden --write`, and commit the golden files with the change.

{difference}"""


SHOWN = ("answers/", "commands/", "stored/")
CHANGED = """{name} is another than its golden file.

Clients and people read this. If the change is intended, `python -m tests.golden --write`, and commit the golden files
with the change.

{difference}"""


@pytest.fixture(scope="module")
def now():
    return generated()


@pytest.mark.parametrize("name", sorted(kept()))
def test_a_shape_a_name_or_an_answer_is_that_of_its_golden_file(now, name):
    before, after = kept()[name], now.get(name, "")

    advice = CHANGED if name.startswith(SHOWN) else ADVICE
    assert after == before, advice.format(name=name, difference=difference(name, before, after))


def test_every_shape_and_name_has_a_golden_file(now):
    missing = now.keys() - kept().keys()

    assert missing == set(), "no golden file: run `python -m tests.golden --write`"


@pytest.mark.parametrize("name", sorted(stored.VALUES))
def test_a_golden_value_is_read_back(name):
    assert stored.VALUES[name].read(kept()[f"database/{name}.json"]) == stored.example_of(name)


def test_comments_of_the_schema_name_the_classes_that_are_stored():
    text = "".join(statements.MIGRATIONS.values())
    lists = re.findall(r"JSON of (?:a tuple of )?(\w+(?:, \w+)*(?: or \w+)?)", text)
    named = {part for each in lists for part in re.split(", | or ", each)} | set(re.findall(r"(\w+) for '", text))

    classes = {
        stored_value.of if isinstance(stored_value.of, type) else get_args(stored_value.of)[0]
        for stored_value in stored.VALUES.values()
    }
    assert named == {stored_class.__name__ for stored_class in classes}
