"""The command line: a module a command, each with its flags (`add`) and its doing (`run`, which answers a status)."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_settings import SettingsError

from batchq import __version__
from batchq.cli import backup, check, doctor, forcefail, key, restore, resume, serve
from batchq.cli.complaint import MISUSED, complain
from batchq.errors import BatchqError

COMMANDS = (serve, doctor, forcefail, key, backup, check, restore, resume)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    try:
        return int(asked.run(asked))
    except ValidationError as wrong:
        return complain(_first(wrong), MISUSED)
    except SettingsError as wrong:
        return complain(f'{wrong}: a variable that is a list is JSON, as ["a", "b"]', MISUSED)
    except (BatchqError, OSError) as refused:
        return complain(str(refused))


class Parser(argparse.ArgumentParser):
    """It complains in a line, and takes flags by their whole names: a new one must not change what others mean."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**named | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message}; see {self.prog} --help", MISUSED))


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="batchq", description="AWS Batch on this machine's Docker engine.")
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.add(commands)
    return top


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    name = "-".join(str(it) for it in error["loc"]).replace("_", "-")
    return f"--{name}: {error['msg']}"
