"""`batchq resume`: let restored data go on, when what runs on the engine is as it should be."""

import argparse

from batchq.cli.http_client import add_url, call, url_of


def add(command: argparse.ArgumentParser) -> None:
    """After `batchq restore`: start jobs again. Containers of no known job are left alone, unless they are purged.

    With another container engine than the one that jobs run on: accept it.
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
