"""The backend of the commands on accounts, users and keys: the files of the data directory, or a server.

The files are used unless `--url`, BATCHQ_URL or a config file names a server. A process that may write the files owns
the server, so nothing is authorized; root acts with the rights of the files' owner. A server authenticates the caller
by an access key, and authorizes each request.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from batchq.cli.config import URL, load
from batchq.cli.http_client import add_connection_flags, call, url_of
from batchq.cli.server_settings import settings_of
from batchq.cli.tables import add_parser
from batchq.errors import UsageError

Answer = TypeVar("Answer", bound=Struct)


def add_subcommand(
    subcommands: Any,  # noqa: ANN401 - argparse's
    name: str,
    summary: str,
    run: Callable[[Namespace], int | None],
) -> ArgumentParser:
    """Add a subcommand that works on the files or on a server, with the flags that select one of them."""
    command = add_parser(subcommands, name, summary, run)
    command.add_argument("--data", type=Path, help="data directory whose files are read and changed")
    command.add_argument("--url", help=f"URL of a server that performs the operation (${URL})")
    add_connection_flags(command)
    return command


def check_backend_flags(args: Namespace) -> None:
    """Raise UsageError if the flags name both backends."""
    if args.data is not None and (args.url or args.config):
        raise UsageError("--data selects files, --url and --config a server: give only one of them")


def perform(args: Namespace, operation: str, content: Mapping[str, object], *, answer: type[Answer]) -> Answer:
    """Perform an operation of `OPERATIONS` and return its response. Raises Invalid and Unavailable."""
    if _uses_server(args):
        return call(url_of(args), f"/v1/batchq/{operation.lower()}", content, answer=answer)
    from batchq.cli.admin_files import perform_on_files  # noqa: PLC0415 - a POSIX system only

    return perform_on_files(settings_of(args).data, operation, content, answer=answer)


def given_flags(args: Namespace, *names: str) -> dict[str, object]:
    """The values of these flags, without those that are not given or not declared."""
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def _uses_server(args: Namespace) -> bool:
    """Whether the flags, variables or config file name a server. Raises UsageError if the flags name both backends."""
    check_backend_flags(args)
    if args.data is not None:
        return False
    load(args.config)
    return bool(args.url or args.config or os.environ.get(URL))
