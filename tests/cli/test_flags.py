"""The flags of all commands: one letter means one thing."""

from argparse import _HelpAction, _SubParsersAction

from batchq.cli.main import CommandParser
from batchq.cli.main import parser as batchq_parser

#: The letters of CraneSched's ccancel, whose flags `batchq ccancel` takes.
FOREIGN = {("ccancel", "-v")}


def commands(parser, name=""):
    """All commands and subcommands, by name."""
    if isinstance(parser, CommandParser):
        parser.declare()
    yield name, parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for word, other in action.choices.items():
                yield from commands(other, f"{name} {word}".strip())


def test_one_letter_is_one_flag_in_every_command():
    meanings = {}
    for name, parser in commands(batchq_parser()):
        for action in parser._actions:
            long = next((flag for flag in action.option_strings if flag.startswith("--")), "")
            for flag in action.option_strings:
                if not flag.startswith("--") and (name, flag) not in FOREIGN and not isinstance(action, _HelpAction):
                    meanings.setdefault(flag, {}).setdefault(long, []).append(name)

    assert {letter: commands for letter, commands in meanings.items() if len(commands) > 1} == {}
    assert meanings["-q"].keys() == {"--queue"}
