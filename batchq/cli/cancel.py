"""`batchq cancel`: CancelJob of many jobs, by their ids and by filters."""

import argparse

from batchq.cli.bulk_stop import add_arguments, stop

CANCEL = "/v1/batchq/canceljobs"


def add(command: argparse.ArgumentParser) -> None:
    """Cancel jobs: what has not started never will, what runs goes on and is not retried.

    All conditions must hold; of those that are given with commas, or several times, one. Nothing is asked back.

      batchq cancel 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001,9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002
      batchq cancel -u "$USER" -n 'sim-*'
      batchq cancel -t pending -p night --dry-run
    """
    add_arguments(command)
    command.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    return stop(asked, CANCEL)
