"""`batchq terminate`: TerminateJob of many jobs, selected by ids and filters."""

import argparse
from signal import Signals

from batchq.cli.bulk_stop import add_arguments, stop

TERMINATE = "/v1/batchq/terminatejobs"
DAY = 86_400  # seconds


def add(command: argparse.ArgumentParser) -> None:
    """Terminate jobs: a job that has not started never does; one that runs gets a signal, and SIGKILL after its grace.

    A job must match all filters, and one value of each filter. The command does not ask for confirmation.
    A child of an array or a node of a gang is stopped without the others.

      batchq terminate 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001.4,3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001.7
      batchq terminate -A physics -t running --reason 'the room is too hot'
      batchq terminate -n 'train*' --signal INT --grace 120
    """
    add_arguments(command)
    command.set_defaults(run=run)
    command.add_argument(
        "-s",
        "--signal",
        type=_signal,
        help="signal for running jobs, for example INT (the image's stop signal, or TERM)",
    )
    command.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="seconds between the signal and SIGKILL (the job's own setting)",
    )


def run(asked: argparse.Namespace) -> int:
    return stop(asked, TERMINATE, signal=asked.signal, graceSeconds=asked.grace)


def _signal(text: str) -> str:
    """Parse a signal: its name in any case, with or without SIG, or its number. Returns the name with SIG."""
    if text.isascii() and text.isdigit():
        number = int(text[:4])
        if number in set(Signals):
            return Signals(number).name
    name = f"SIG{text.upper().removeprefix('SIG')}"
    if name not in Signals.__members__:
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal")
    return name


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(DAY)) and int(text) <= DAY):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to {DAY}")
    return int(text)
