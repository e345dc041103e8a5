"""The command line. Each command is declared by a function, which adds its flags and sets `run`, its implementation."""

import argparse
import gc
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from typing import Any, Final, NoReturn

from batchq import __version__
from batchq.cli.output import (
    DONE,
    EXIT_STATUSES,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    UNAVAILABLE,
    accept_all_text,
    flush_output,
    print_error,
)
from batchq.errors import BatchqError, ServerUnavailable, UsageError

#: The commands by topic. Each command: the module and function that declare it, and its line in `batchq --help`. The
#: module is imported when the command is called, since that of `serve` takes a second.
TOPICS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "jobs": {
        "run": ("submit:add_run", "submit a job, follow its output, and end with its exit code"),
        "submit": ("submit:add_submit", "submit a job from an image, a job definition or a script"),
        "rerun": ("rerun:add_rerun", "submit finished jobs again"),
        "list": ("job_list:add_list", "list jobs, by default yours that are unfinished"),
        "show": ("job_detail:add_show", "print a job with all its details"),
        "why": ("job_detail:add_why", "print why a job waits, or has failed"),
        "history": ("job_detail:add_history", "print the states of a job, with times"),
        "logs": ("job_logs:add_logs", "print the output of jobs, or follow it"),
        "console": ("server_commands:add_console", "open the web console in a browser, logged in"),
        "top": ("top:add_top", "show queues, capacity and jobs, refreshed"),
        "events": ("events:add_events", "print status changes of jobs, or follow them"),
        "wait": ("job_wait:add_wait", "wait until jobs have ended"),
        "cancel": ("bulk_stop:add_cancel", "cancel jobs: they do not start, or are not retried"),
        "terminate": ("bulk_stop:add_terminate", "terminate jobs, also running ones"),
        "ccancel": ("ccancel:add_ccancel", "terminate jobs with the flags of CraneSched's ccancel"),
        "hold": ("job_holds:add_hold", "keep queued jobs from starting"),
        "release": ("job_holds:add_release", "let held jobs start again"),
        "pause": ("job_holds:add_pause", "stop running jobs with a checkpoint, and hold them"),
        "resume": ("job_holds:add_resume", "let paused jobs start again from their checkpoint"),
        "checkpoints": ("job_holds:add_checkpoints", "list, request and delete the checkpoints of a job"),
        "force-fail": ("server_commands:add_force_fail", "fail a job whose container does not end"),
    },
    "queues and definitions": {
        "queue": ("catalog:add_queue", "list, show, enable and disable job queues"),
        "drain": ("job_holds:add_drain", "let job queues accept jobs and start none"),
        "env": ("catalog:add_env", "list and show compute environments"),
        "def": ("catalog:add_def", "list and show job definitions"),
        "resource": ("catalog:add_resource", "list and show consumable resources"),
    },
    "users": {
        "whoami": ("server_commands:add_whoami", "print your user, account and role on the server"),
        "account": ("accounts:add_account", "manage accounts, container policies and limits"),
        "cost": ("cost:add_cost", "print what jobs cost, by job, account, user, queue or definition"),
        "budget": ("cost:add_budget", "list, set and remove budgets of accounts and queues"),
        "user": ("accounts:add_user", "manage users and their roles"),
        "key": ("accounts:add_key", "manage access keys"),
        "audit": ("audit:add_audit", "print the audit log"),
        "completion": ("completion:add_completion", "print the script that completes words in a shell"),
    },
    "the server": {
        "serve": ("serve:add_serve", "run the server"),
        "settings": ("server_settings:add_settings", "print the settings of the server, and where each comes from"),
        "doctor": ("doctor:add_doctor", "find problems and recommend remedies"),
        "backup": ("database:add_backup", "copy the database, also of a running server"),
        "check": ("database:add_check", "check the database, or a backup, for damage"),
        "restore": ("database:add_restore", "replace the database by a backup"),
        "leave-safe-mode": ("server_commands:add_leave_safe_mode", "start jobs again after a restore"),
    },
}
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    name: command for topic in TOPICS.values() for name, command in topic.items()
}

_EXAMPLE = re.compile(r"^(batchq )", re.MULTILINE)  # an example of a docstring that has no other text to indent it
COMPLETION_REQUEST = "_ARGCOMPLETE"  # set by the script of `batchq completion`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; without a command, print the help.

    Errors are printed as one line on stderr.
    """
    accept_all_text()
    batchq = parser()
    if COMPLETION_REQUEST in os.environ:
        import_module("batchq.cli.completion").complete(batchq)
    args = batchq.parse_args(arguments)
    try:
        if args.command is None:
            batchq.print_help()
            return DONE
        status = int(args.run(args))
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
        return status
    finally:
        with suppress(OSError):
            flush_output()


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
            command.error(f"unrecognized arguments: {' '.join(unknown)}{command.suggestion_for(unknown[0])}")
        return parsed

    def suggestion_for(self, flag: str) -> str:
        """The end of the message on an unknown flag: the flag of this parser that is meant, if one is similar."""
        return _did_you_mean(flag.partition("=")[0], self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - argparse's own
        """Called by argparse for each value: reports an unknown command with a suggestion, not with all commands."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001 - not public
            self.error(f"unknown command {value!r}{_did_you_mean(value, action.choices)}")
        super()._check_value(action, value)


class CommandParser(Parser):
    """The parser of one command: imports the command's module when it parses."""

    def __init__(self, *, declared_by: str | None = None, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        """`declared_by`: MODULE:FUNCTION; None for a subcommand, as `add` in `batchq user add`."""
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._declared_by = declared_by
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

    def error(self, message: str) -> NoReturn:
        if self.has_json_errors and "--json" in self._words:
            print(render_json_error(message, MISUSED))
            sys.exit(MISUSED)
        super().error(message)

    def declare(self) -> None:
        """Import the command's module, and add its flags; without effect if this is done already."""
        if self._declared_by is None:
            return
        module, _, function = self._declared_by.partition(":")
        self._declared_by = None
        gc.disable()  # imported objects stay: a collection during the import would free nothing
        declare = getattr(import_module(f"batchq.cli.{module}"), function)
        gc.enable()
        self.description = _EXAMPLE.sub(r"  \1", cleandoc(declare.__doc__ or ""))
        declare(self)


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
        epilog=EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(
        dest="command",
        prog="batchq",
        metavar="COMMAND",
        parser_class=CommandParser,
        help="`batchq COMMAND --help` describes a command",
    )
    for name, (declared_by, _) in COMMANDS.items():
        commands.add_parser(name, declared_by=declared_by)
    return top


def _command_list() -> str:
    """The commands by topic, each with its summary."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        line
        for topic, commands in TOPICS.items()
        for line in (f"{topic}:", *(f"  {name:{width}}  {summary}" for name, (_, summary) in commands.items()))
    )


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    similar = get_close_matches(word, known, n=1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
