"""The command line. Each command is declared by a function, which adds its flags and sets `run`, its implementation."""

import argparse
import gc
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from batchq import __version__
from batchq.cli.output import INTERRUPTED, MISUSED, REFUSED, UNAVAILABLE, flush_output, print_error
from batchq.errors import BatchqError, Misused, ServerUnavailable

#: Each command: the module and function that declare it, and its line in `batchq --help`. The module is imported when
#: the command is called, since that of `serve` takes a second.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "serve": ("serve:add_serve", "run the server"),
    "cancel": ("bulk_stop:add_cancel", "cancel jobs: they do not start, or are not retried"),
    "terminate": ("bulk_stop:add_terminate", "terminate jobs, also running ones"),
    "doctor": ("doctor:add_doctor", "find problems and recommend remedies"),
    "force-fail": ("server_commands:add_force_fail", "fail a job whose container does not end"),
    "account": ("accounts:add_account", "manage accounts, container policies and limits"),
    "user": ("accounts:add_user", "manage users and their roles"),
    "key": ("access_keys:add_key", "manage access keys"),
    "whoami": ("server_commands:add_whoami", "print your user, account and role on the server"),
    "audit": ("audit:add_audit", "print the audit log"),
    "backup": ("database:add_backup", "copy the database, also of a running server"),
    "check": ("database:add_check", "check the database, or a backup, for damage"),
    "restore": ("database:add_restore", "replace the database by a backup"),
    "resume": ("server_commands:add_resume", "start jobs again after a restore"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Errors are printed as one line on stderr."""
    args = parser().parse_args(arguments)
    try:
        status = int(args.run(args))
        flush_output()
    except Misused as misused:
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
        sys.exit(print_error(f"{message}; see {self.prog} --help", MISUSED))


class CommandParser(Parser):
    """The parser of one command: imports the command's module when it parses."""

    def __init__(self, *, declared_by: str | None = None, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        """`declared_by`: MODULE:FUNCTION; None for a subcommand, as `add` in `batchq user add`."""
        super().__init__(**options)
        self._declared_by = declared_by

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's own
        """Called by the parser of `batchq` once it has read the command's name."""
        if self._declared_by is not None:
            self._declare(*self._declared_by.split(":"))
            self._declared_by = None
        return super().parse_known_args(args, namespace)

    def _declare(self, module: str, function: str) -> None:
        gc.disable()  # imported objects stay: a collection during the import would free nothing
        declare = getattr(import_module(f"batchq.cli.{module}"), function)
        gc.enable()
        self.description = declare.__doc__
        declare(self)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="batchq", description="AWS Batch on this machine's Docker engine.")
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(dest="command", required=True, parser_class=CommandParser)
    for name, (declared_by, summary) in COMMANDS.items():
        commands.add_parser(name, help=summary, declared_by=declared_by)
    return top
