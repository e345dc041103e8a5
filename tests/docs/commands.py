"""Makes docs/commands.md from the table of commands and their parsers. `python -m tests.docs.commands` writes it."""

from argparse import SUPPRESS
from pathlib import Path

from batchq.cli.command_table import COMMANDS, TOPICS
from batchq.cli.main import parser, subparsers_of

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
INTRODUCTION = """\
# All commands and flags

`python -m tests.docs.commands` makes this page from the table of commands. [command-line.md](command-line.md) has
examples.

A command on a server finds it by these flags, or as [operations.md](operations.md#commands) describes:

{server}
"""
SERVER = ("--url", "--ca-bundle", "--config")


def leaves():
    """The parser of each command and subcommand, by its words."""
    for name, command in subparsers_of(parser()).items():
        command.declare()
        subcommands = subparsers_of(command)
        yield from (
            ((f"{name} {word}", each) for word, each in subcommands.items()) if subcommands else [(name, command)]
        )


def flags_of(command, *, only=(), without=()):
    """The spellings of each argument with its value, and its text without a path of this machine."""
    for action in command._actions:
        names = action.option_strings or [action.metavar or action.dest]
        if "--help" in names or action.help == SUPPRESS or (only and names[-1] not in only) or names[-1] in without:
            continue
        value = f" {action.metavar}" if action.option_strings and isinstance(action.metavar, str) else ""
        yield [f"{name}{value}" for name in names], (action.help or "").replace("%%", "%").partition(" (/")[0]


def flag_rows(command, *, only=(), without=()):
    for names, text in flags_of(command, only=only, without=without):
        spelled = ", ".join(f"`{name}`" for name in names)
        yield "| {} | {} |".format(spelled.replace("|", "\\|"), text.replace("|", "\\|"))


def section(words, command):
    row = COMMANDS[words.partition(" ")[0]]
    summary = row.summary if words in COMMANDS else command.description
    rows = list(flag_rows(command, without=SERVER))
    table = ["", "| argument | meaning |", "|---|---|", *rows] if rows else []
    return "\n".join(
        [f"### batchq {words}", "", f"{summary[0].upper()}{summary[1:]}. Works on {row.target.value}.", *table]
    )


def page():
    commands = dict(leaves())
    server = "\n".join(["| flag | meaning |", "|---|---|", *flag_rows(commands["top"], only=SERVER)])
    parts = [INTRODUCTION.format(server=server)]
    for topic, names in TOPICS.items():
        parts.append(f"## {topic[0].upper()}{topic[1:]}\n")
        parts += [
            f"{section(words, parser)}\n" for words, parser in commands.items() if words.partition(" ")[0] in names
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
