"""`batchq resume`: ends the safe mode after a restore, or accepts another container engine."""

import argparse

from batchq.cli.http_client import add_url, call, url_of


def add(command: argparse.ArgumentParser) -> None:
    """Start jobs again after `batchq restore`. Containers of unknown jobs are ignored, or removed with --purge.

    With --new-engine: accept a container engine other than the one that jobs were started on.
    """
    command.set_defaults(run=run)
    command.add_argument("--purge", action="store_true", help="remove containers of unknown jobs")
    command.add_argument(
        "--new-engine", action="store_true", help="accept the present container engine; jobs on another one are lost"
    )
    add_url(command)


def run(asked: argparse.Namespace) -> int:
    call(url_of(asked), "/v1/batchq/resume", {"purge": asked.purge, "newEngine": asked.new_engine})
    print("the container engine is accepted" if asked.new_engine else "jobs are started again")
    return 0
