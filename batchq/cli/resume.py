"""`batchq resume`: ends the safe mode after a restore, or accepts another container engine."""

import argparse

from batchq.cli.http_client import add_url, call, url_of


def add(command: argparse.ArgumentParser) -> None:
    """Start jobs again after `batchq restore`. Containers of unknown jobs are ignored, or removed with --purge.

    With --new-engine: accept a container engine other than the one that jobs were started on.
    """
    command.set_defaults(run=run)
    command.add_argument("--purge", action="store_true", help="clear containers away that no job owns")
    command.add_argument(
        "--new-engine", action="store_true", help="accept the container engine that answers; jobs on another are lost"
    )
    add_url(command)


def run(asked: argparse.Namespace) -> int:
    call(url_of(asked), "/v1/batchq/resume", {"purge": asked.purge, "newEngine": asked.new_engine})
    print("the container engine is accepted" if asked.new_engine else "jobs are started again")
    return 0
