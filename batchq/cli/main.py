"""The command line. Each command is a module: `add` declares its flags, `run` does it and returns the exit status."""

import argparse
import gc
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from batchq import __version__
from batchq.cli.output import AWAY, INTERRUPTED, MISUSED, REFUSED, complain, finish
from batchq.errors import BatchqError, Misused, ServerUnavailable

#: Each command, with its line in `batchq --help`. Its module is imported when the command is called.
COMMANDS: Final[Mapping[str, str]] = {
    "serve": "run the server",
    "cancel": "cancel jobs: they do not start, or are not retried",
    "terminate": "terminate jobs, also running ones",
    "doctor": "find problems and recommend remedies",
    "force-fail": "fail a job whose container does not end",
    "account": "manage accounts, container policies and limits",
    "user": "manage users and their roles",
    "key": "manage access keys",
    "whoami": "print your user, account and role on the server",
    "audit": "print the audit log",
    "backup": "copy the database, also of a running server",
    "check": "check the database, or a backup, for damage",
    "restore": "replace the database by a backup",
    "resume": "start jobs again after a restore",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Errors are printed as one line on stderr."""
    asked = parser().parse_args(arguments)
    try:
        status = int(asked.run(asked))
        finish()
    except Misused as wrong:
        return complain(str(wrong), MISUSED)
    except ServerUnavailable as away:
        return complain(str(away), AWAY)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        return REFUSED
    except (BatchqError, OSError) as refused:
        return complain(str(refused))
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    else:
        return status
    finally:
        with suppress(OSError):
            finish()


class Parser(argparse.ArgumentParser):
    """Reports an error in one line. Flags are not abbreviated: a new flag must not change the meaning of another."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**named | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message}; see {self.prog} --help", MISUSED))


class CommandParser(Parser):
    """The parser of one command: imports the command's module when it parses, since that of `serve` takes a second."""

    def __init__(self, *, module: str | None = None, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        """`module` is None for a subcommand, as `add` in `batchq user add`: the command's module declares it."""
        super().__init__(**named)
        self._module = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's own
        """Called by the parser of `batchq` once it has read the command's name."""
        if self._module is not None:
            self._declare(self._module)
            self._module = None
        return super().parse_known_args(args, namespace)

    def _declare(self, module: str) -> None:
        gc.disable()  # imported objects stay: a collection during the import would free nothing
        command = import_module(module)
        gc.enable()
        self.description = command.add.__doc__
        command.add(self)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="batchq", description="AWS Batch on this machine's Docker engine.")
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(dest="command", required=True, parser_class=CommandParser)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, module=f"batchq.cli.{name.replace('-', '')}")
    return top
