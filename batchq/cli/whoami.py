"""`batchq whoami`: prints the user, account, role and queues that a server associates with the caller's key."""

import argparse
import json

from batchq.cli.http_client import Answer, add_url, call, url_of
from batchq.cli.output import line


def add(command: argparse.ArgumentParser) -> None:
    """Print which user the server associates with your access key."""
    command.set_defaults(run=run)
    add_url(command)
    command.add_argument("--json", action="store_true", help="print all details as JSON")


def run(asked: argparse.Namespace) -> int:
    told = call(url_of(asked), "/v1/batchq/whoami", {})
    print(json.dumps(told, indent=2) if asked.json else line(_told(told)))
    return 0


def _told(me: Answer) -> str:
    coordinates, queues = (_words(me.get(it)) for it in ("coordinates", "queues"))
    also = f", coordinator of {coordinates}" if coordinates else ""
    where = "all queues" if me.get("queues") is None else f"queues {queues or 'none'}"
    return f"{me.get('user')} of account {me.get('account')}, {me.get('role')}{also}; {where}"


def _words(it: object) -> str:
    return ",".join(map(str, it)) if isinstance(it, list) else ""
