"""Commands that the text of the pages names exist, with the flags that it gives them."""

import re

import pytest

from tests.docs.pages import FENCED, ROOT, name, pages_for_users

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"`(?:[A-Z_]+=\S* )*batchq (?P<words>[a-z][^`]*)`")
SECTION = re.compile(r"^### batchq (?P<command>[a-z -]+)\n(?P<text>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
OF_ALL = {"--help", "--url", "--config", "--data", "--ca-bundle"}


def flags_of_commands():
    """The flags of each command, from the generated page of commands."""
    sections = SECTION.finditer((ROOT / "docs" / "commands.md").read_text())
    known = {found["command"].strip(): OF_ALL | set(FLAG.findall(found["text"])) for found in sections}
    return known | {"help": OF_ALL}


def unknown(text, known):
    """Each command in the text that does not exist, or has no such flag."""
    for found in COMMAND.finditer(FENCED.sub("", text)):
        words = found["words"].partition(" -- ")[0].replace(",", " ").split()
        command = next((each for each in (" ".join(words[:2]), words[0]) if each in known), "")
        group = any(each.startswith(f"{words[0]} ") for each in known)  # `batchq key`, of `batchq key create`
        if not (command or group) or not set(FLAG.findall(found["words"])) <= known.get(command, OF_ALL):
            yield found["words"]


def test_an_unknown_command_and_an_unknown_flag_are_found():
    known = {"key create": {"--user"}, "list": {"--held"}}

    found = unknown("`batchq key`, `batchq key create --user amy`, `batchq list --hold`, `batchq halt`", known)

    assert list(found) == ["list --hold", "halt"]


@pytest.mark.parametrize("page", pages_for_users(), ids=name)
def test_the_commands_that_a_page_names_exist_with_their_flags(page):
    assert list(unknown(page.read_text(), flags_of_commands())) == []
