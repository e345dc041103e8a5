"""The backend of the commands on accounts, users and keys: the files of the data directory, or a server.

The files are used unless `--url`, BATCHQ_URL or a config file names a server. A process that may write the files owns
the server, so nothing is authorized; root acts with the rights of the files' owner. A server authenticates the caller
by an access key, and authorizes each request.
"""

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from batchq.accounts.accounts_file import machine_user
from batchq.accounts.admin import AccountAdmin
from batchq.accounts.operations import OPERATIONS
from batchq.cli.arguments import read
from batchq.cli.config import URL, load
from batchq.cli.http_client import Answer, add_trust, call, url_of
from batchq.cli.output import line
from batchq.clock import wall_time
from batchq.domain.access.accounts import Caller, Role
from batchq.errors import Invalid, Misused
from batchq.private_file import rights_of_owner

Told = dict[str, Any]


def add_deed(deeds: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:  # noqa: ANN401 - argparse's
    """Add a subcommand that works on the files or on a server, with the flags that select one of them."""
    deed: argparse.ArgumentParser = deeds.add_parser(name, help=text, description=text)
    deed.set_defaults(run=run)
    deed.add_argument("--data", type=Path, help="data directory whose files are read and changed")
    deed.add_argument("--url", help=f"URL of a server that performs the operation (${URL})")
    add_trust(deed)
    return deed


def add_json(deed: argparse.ArgumentParser) -> None:
    deed.add_argument("--json", action="store_true", help="print JSON")


def asks_server(asked: argparse.Namespace) -> bool:
    """Whether the flags, variables or config file name a server. Raises Misused if the flags name both backends."""
    if asked.data is not None:
        if asked.url or asked.config:
            raise Misused("--data selects files, --url and --config a server: give only one of them")
        return False
    load(asked.config)
    return bool(asked.url or asked.config or os.environ.get(URL))


def ask(asked: argparse.Namespace, operation: str, content: Mapping[str, object]) -> Told:
    """Perform an operation of `OPERATIONS` and return its response. Raises Invalid and Unavailable."""
    if asks_server(asked):
        return dict(call(url_of(asked), f"/v1/batchq/{operation.lower()}", content))
    return dict(_ask_files(read(asked).data, operation, content))


def given(asked: argparse.Namespace, *names: str) -> dict[str, object]:
    """The values of these flags, without those that are not given or not declared."""
    return {name: it for name in names if (it := getattr(asked, name, None)) is not None}


def show(asked: argparse.Namespace, told: object, lines: list[str]) -> int:
    """Print the response as JSON with `--json`, else the lines. Returns the exit status 0."""
    for it in [json.dumps(told, indent=2)] if asked.json else map(line, lines):
        print(it)
    return 0


def _ask_files(data: Path, operation: str, content: Mapping[str, object]) -> Answer:
    it = OPERATIONS[operation]
    caller = Caller(user=machine_user(), role=Role.ADMIN, operation=operation)
    try:
        said = it.shape.model_validate_json(json.dumps(content))
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    with rights_of_owner(data):
        return it.do(AccountAdmin(data, now=wall_time), said, caller)
