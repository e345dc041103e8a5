"""The command line: a module a command, each with its flags (`add`) and its doing (`run`, which answers a status)."""

import argparse
import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from batchq import __version__
from batchq.cli.complaint import AWAY, INTERRUPTED, MISUSED, REFUSED, complain
from batchq.cli.saying import finish
from batchq.errors import BatchqError, Misused, ServerUnavailable

COMMANDS = (
    "serve",
    "cancel",
    "terminate",
    "doctor",
    "force-fail",
    "account",
    "user",
    "key",
    "whoami",
    "audit",
    "backup",
    "check",
    "restore",
    "resume",
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    asked = parser(given).parse_args(given)
    try:
        status = int(asked.run(asked))
        finish()
    except Misused as wrong:
        return complain(str(wrong), MISUSED)
    except ServerUnavailable as away:
        return complain(str(away), AWAY)
    except BrokenPipeError:  # whoever reads has enough, as `head` does
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
    """It complains in a line, and takes flags by their whole names: a new one must not change what others mean."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**named | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message}; see {self.prog} --help", MISUSED))


def parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """It knows the command that is given, or all of them: to load what `serve` needs takes a second."""
    top = Parser(prog="batchq", description="AWS Batch on this machine's Docker engine.")
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    gc.disable()  # all of what is loaded stays, so it is not looked through for garbage again and again
    for name in [it for it in COMMANDS if it in given[:1]] or COMMANDS:
        import_module(f"batchq.cli.{name.replace('-', '')}").add(commands)
    gc.enable()
    return top
