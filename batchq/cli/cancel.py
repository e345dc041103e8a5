"""`batchq cancel`: CancelJob of many jobs, selected by ids and filters."""

import argparse

from batchq.cli.bulk_stop import add_arguments, stop

CANCEL = "/v1/batchq/canceljobs"


def add(command: argparse.ArgumentParser) -> None:
    """Cancel jobs: a job that has not started never does; a job that runs continues and is not retried.

    A job must match all filters, and one value of each filter. The command does not ask for confirmation.

      batchq cancel 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001,9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002
      batchq cancel -u "$USER" -n 'sim-*'
      batchq cancel -t pending -p night --dry-run
    """
    add_arguments(command)
    command.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    return stop(asked, CANCEL)
