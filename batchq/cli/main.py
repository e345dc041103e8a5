"""`batchq serve`: the flags, and how a start that cannot be is told: one line on stderr and a status that is not 0."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from batchq import __version__
from batchq.cli.serve import serve
from batchq.errors import BatchqError
from batchq.settings import Settings

REFUSED, MISUSED = 1, 2  # exit statuses


def main(arguments: Sequence[str] | None = None) -> int:
    given = {name: value for name, value in vars(parser().parse_args(arguments)).items() if value is not None}
    given.pop("command")
    try:
        settings = Settings(**given)
    except ValidationError as wrong:
        return _complain(_first(wrong), MISUSED)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        return asyncio.run(serve(settings))
    except (BatchqError, OSError) as refused:
        return _complain(str(refused), REFUSED)


def parser() -> argparse.ArgumentParser:
    """Every flag is also a variable: --stop-grace is BATCHQ_STOP_GRACE."""
    top = argparse.ArgumentParser(prog="batchq", description="AWS Batch on this machine's Docker engine.")
    top.add_argument("--version", action="version", version=f"batchq {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    command = commands.add_parser("serve", help="run the service", description=parser.__doc__)
    flag = command.add_argument
    flag("--host", help="address to listen on (127.0.0.1)")
    flag("--port", type=int, help="port to listen on, 0 for a free one (22824)")
    flag("--data", type=Path, help="directory of the database and the logs (the platform's user data directory)")
    flag("--runtime", choices=["docker", "simulated"], help="where containers run (docker)")
    flag("--account-id", help="the account in ARNs (123456789012)")
    flag("--region", help="the region in ARNs of requests that name none (us-east-1)")
    flag("--stop-grace", type=float, help="seconds between SIGTERM and SIGKILL (30)")
    flag("--min-timeout", type=int, help="the least attemptDurationSeconds that is accepted (60)")
    flag("--privileged", choices=["allow", "drop", "refuse"], help="what becomes of privileged containers (allow)")
    flag("--volumes", type=_paths, help="host paths that jobs may mount, with all below them, between colons (/)")
    flag("--secrets-file", type=Path, help="JSON object of secrets, by their valueFrom")
    flag("--allowed-hosts", type=_words, help="names beside localhost by which clients may call, between commas")
    flag("--insecure-no-auth", action="store_true", default=None, help="listen on other addresses than loopback")
    return top


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(it) for it in text.split(":") if it)


def _words(text: str) -> tuple[str, ...]:
    return tuple(it.strip() for it in text.split(",") if it.strip())


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    name = "-".join(str(it) for it in error["loc"]).replace("_", "-")
    return f"--{name}: {error['msg']}"


def _complain(text: str, status: int) -> int:
    sys.stderr.write(f"batchq: {text}\n")
    return status
