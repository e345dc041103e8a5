"""The command line: the parsers of the commands of `command_table`, and their exit statuses.

The function `add_NAME` of a command adds its flags, and `run_NAME` is its implementation, which may return an exit
status. A command with subcommands has an implementation for each of them, which `add_NAME` sets.
"""

import argparse
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from types import ModuleType
from typing import Any, NoReturn

from batchq import __version__
from batchq.cli.command_table import ALIASES, COMMANDS, TOPICS, Output, Target
from batchq.cli.other_tools import FLAG_OF_WORD, advice_on_command, advice_on_flags
from batchq.cli.output import (
    DONE,
    EXIT_STATUSES,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    UNAVAILABLE,
    accept_all_text,
    check_list_flags,
    flush_output,
    output_failed,
    print_error,
)
from batchq.errors import BatchqError, ServerUnavailable, UsageError

_EXAMPLE = re.compile(r"^(batchq )", re.MULTILINE)  # an example of a docstring that has no other text to indent it
_INVALID_NUMBER = re.compile(r"invalid int value: ('.*')")  # argparse's text
_NO_SUBCOMMAND = "the following arguments are required: subcommand"  # argparse's text
POSIX_MODULES = {"fcntl", "grp", "pwd", "resource"}  # that the server's half imports, and Windows lacks
#: Commands whose exit status 0 means that an order was carried out, also if their output was not written.
ORDERS = {
    *("run", "submit", "rerun", "cancel", "terminate", "ccancel", "force-fail"),
    *("hold", "release", "pause", "resume", "drain", "serve"),
}
COMPLETION_REQUEST = "_ARGCOMPLETE"  # set by the script of `batchq completion`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; without a command, print the help.

    Errors are printed as one line on stderr.
    """
    accept_all_text()
    batchq = parser()
    if COMPLETION_REQUEST in os.environ:
        import_module("batchq.cli.completion").complete(batchq)
    args = batchq.parse_args(_expanded(sys.argv[1:] if arguments is None else arguments))
    try:
        if args.command is None:
            batchq.print_help()
            return DONE
        check_list_flags(args)
        status: int = args.run(args) or DONE
        flush_output()
    except UsageError as misused:
        return print_error(str(misused), MISUSED)
    except ServerUnavailable as unavailable:
        return print_error(str(unavailable), UNAVAILABLE)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        return REFUSED
    except (BatchqError, OSError) as refused:
        return print_error(str(refused))
    except KeyboardInterrupt:
        return print_error("interrupted", INTERRUPTED)
    else:
        is_lost = output_failed() and args.command not in ORDERS
        return REFUSED if status == DONE and is_lost else status
    finally:
        with suppress(OSError):
            flush_output()


def _expanded(words: Sequence[str]) -> Sequence[str]:
    """`help COMMAND` as `COMMAND --help`, and an alias as its command."""
    first, rest = tuple(words[:1]), words[1:]
    if first == ("help",):
        return [*_expanded(rest), "--help"]
    return [*(ALIASES.get(word, word) for word in first), *rest]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Breaks paragraphs at the width of the terminal. Paragraphs with indented lines, as examples, are unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse's own
        """Called by argparse for a description and an epilog."""
        from textwrap import fill  # noqa: PLC0415 - only the help needs it

        paragraphs = text.split("\n\n")
        return "\n\n".join(part if "\n " in f"\n{part}" else fill(part, width) for part in paragraphs)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line. Flags are not abbreviated: a new flag must not change the meaning of another."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**options | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        separator = "" if message.endswith("?") else ";"
        sys.exit(print_error(f"{message}{separator} see {self.prog} --help", MISUSED))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's own
        """As argparse, with a suggestion for the first unknown flag of the command that was given."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = getattr(parsed, "parser", self)
            command.error(command.text_of_unknown(unknown))
        return parsed

    def text_of_unknown(self, words: Sequence[str]) -> str:
        """The message on arguments that the command does not have."""
        advice = advice_on_flags(self.prog, words, self._option_string_actions) or self.suggestion_for(words[0])
        return f"unrecognized arguments: {' '.join(words)}{advice}"

    def suggestion_for(self, flag: str) -> str:
        """The end of the message on an unknown flag: the flag of this parser that is meant, if one is similar."""
        return _did_you_mean(flag.partition("=")[0], self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - argparse's own
        """Called by argparse for each value: reports an unknown command with a suggestion, not with all commands."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001 - not public
            advice = advice_on_command(self.prog, value, action.choices) or _did_you_mean(value, action.choices)
            known = "" if advice or action.dest == "command" else f"; the commands are {', '.join(action.choices)}"
            self.error(f"unknown command {value!r}{advice or known}")
        super()._check_value(action, value)


class CommandParser(Parser):
    """The parser of one command: imports the command's module when it parses."""

    def __init__(self, *, declares: str | None = None, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        """`declares`: the name of the command; None for a subcommand, as `add` in `batchq user add`."""
        super().__init__(**options, formatter_class=HelpFormatter)
        self._declares = declares
        self.set_defaults(parser=self)
        #: Whether the words behind `--` are the program of a job: the attribute `program`, None without `--`.
        self.takes_program = False
        #: Whether invalid arguments are reported as JSON on stdout if `--json` is given.
        self.has_json_errors = False
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's own
        """Called by the parser of `batchq` once it has read the command's name."""
        self._words = args or ()
        self.declare()
        if not self.takes_program:
            return super().parse_known_args(args, namespace)
        own, program = split_program(args)
        found, unknown = super().parse_known_args(own, namespace)
        found.words, found.program = own, program
        return found, unknown

    def text_of_unknown(self, words: Sequence[str]) -> str:
        """The message of each parser, or the flag that a word was meant for.

        If the command takes a program, the words may be the program without its `--`.
        """
        if (flag := self.get_default(FLAG_OF_WORD)) and not words[0].startswith("-"):
            return f"unrecognized arguments: {' '.join(words)}; did you mean '{flag} {words[0]}'?"
        if not self.takes_program or "--" in self._words:
            return super().text_of_unknown(words)
        if words[0].startswith("-"):  # the last two words are probably a program and its argument
            lacks_mark = len(words) > 2 and not any(word.startswith("-") for word in words[-2:])  # noqa: PLR2004
            return super().text_of_unknown(words) + ("; the command begins behind --" if lacks_mark else "")
        at = len(self._words) - len(words)
        own = self._words[:at] if [*self._words[at:]] == [*words] else ["..."]
        return f"the command begins behind --, as in: {self.prog} {shlex.join([*own, '--', *words])}"

    def error(self, message: str) -> NoReturn:
        message = _INVALID_NUMBER.sub(r"\1 is not a whole number", message)
        if message == _NO_SUBCOMMAND:
            message = f"one of these commands is missing: {', '.join(subparsers_of(self))}"
        if self.has_json_errors and "--json" in self._words:
            print(render_json_error(message, MISUSED))
            sys.exit(MISUSED)
        super().error(message)

    def declare(self) -> None:
        """Import the command's module, and add its flags; without effect if this is done already."""
        name, self._declares = self._declares, None
        if name is None:
            return
        command, module, suffix = COMMANDS[name], _module_of(name), name.replace("-", "_")
        declare = getattr(module, f"add_{suffix}")
        self.description = _EXAMPLE.sub(r"  \1", cleandoc(declare.__doc__ or ""))
        declare(self)
        if run := getattr(module, f"run_{suffix}", None):
            self.set_defaults(run=run)
        _add_output_flags(self, command.output)
        if command.target is Target.SERVER:
            _add_server_flags(self)


def _module_of(name: str) -> ModuleType:
    """The module of a command. Ends the program with an error where the command needs a POSIX system."""
    gc.disable()  # imported objects stay: a collection during the import would free nothing
    try:
        return import_module(f"batchq.cli.{COMMANDS[name].module}")
    except ModuleNotFoundError as missing:
        if missing.name not in POSIX_MODULES:
            raise
        text = f"batchq {name} needs Linux or macOS; commands that use a server run on this system too"
        sys.exit(print_error(text, UNAVAILABLE))
    finally:
        gc.enable()


def _add_output_flags(parser: argparse.ArgumentParser, output: Output) -> None:
    from batchq.cli.tables import add_json_flags, add_output_flags  # noqa: PLC0415 - the help needs none

    match output:
        case Output.LIST:
            add_output_flags(parser)
        case Output.JSON:
            add_json_flags(parser)
        case Output.OWN:
            pass


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a server to the command or, if it has subcommands, to each of them."""
    from batchq.cli.http_client import add_server_flags  # noqa: PLC0415 - the help needs none

    for command in subparsers_of(parser).values() or (parser,):
        add_server_flags(command)


def subparsers_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of the subcommands, by name."""
    actions = parser._actions  # noqa: SLF001 - argparse has no other access to them
    return next((action.choices for action in actions if isinstance(action, argparse._SubParsersAction)), {})  # noqa: SLF001


def render_json_error(message: str, status: int) -> str:
    """An error as a JSON object, with the exit status."""
    import json  # noqa: PLC0415 - the help needs none

    return json.dumps({"error": message, "status": status})


def split_program(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words before and behind the first `--`; None without one. argparse would treat flags behind it as its own."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="batchq",
        usage="batchq COMMAND [flags]",
        description=f"AWS Batch on this machine's Docker engine.\n\n{_command_list()}",
        epilog=f"{_alias_list()}\n\n{EXIT_STATUSES}",
        formatter_class=HelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(
        dest="command",
        prog="batchq",
        metavar="COMMAND",
        parser_class=CommandParser,
        help="`batchq COMMAND --help` describes a command",
    )
    for name in COMMANDS:
        commands.add_parser(name, declares=name)
    return top


def _command_list() -> str:
    """The listed commands by topic, each with its summary."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        line
        for topic, commands in TOPICS.items()
        for line in (
            f"{topic}:",
            *(f"  {name:{width}}  {command.summary}" for name, command in commands.items() if command.listed),
        )
    )


def _alias_list() -> str:
    names = {"help COMMAND": "COMMAND --help", **ALIASES}
    return "other names:\n" + "\n".join(f"  {alias}: {command}" for alias, command in names.items())


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    similar = get_close_matches(word, known, n=1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
