"""Waits for a submitted job until it ends or the user leaves it: for `batchq run` and `batchq submit --wait`."""

import signal
from argparse import ArgumentParser
from types import FrameType
from typing import NoReturn

from batchq.cli import stop_dialog
from batchq.cli.exit_statuses import INTERRUPTED, NO_EXIT_CODE
from batchq.cli.job_columns import short_id
from batchq.cli.job_end import to_row
from batchq.cli.job_follower import JobFollower
from batchq.cli.job_outcomes import exit_status_of, outcome
from batchq.cli.output import print_error, print_notice
from batchq.cli.stop_dialog import Answer
from batchq.errors import BatchqError, Invalid, Unavailable

LEFT_BEHIND = "the job goes on without this command"


class SignalReceived(BaseException):
    """SIGTERM or SIGHUP has arrived. Derived from BaseException, so that no handler of errors catches it."""


def add_stop_flag(command: ArgumentParser) -> None:
    """Declare `--stop-on-exit`."""
    command.add_argument(
        "--stop-on-exit",
        action="store_true",
        help="terminate the job on Ctrl-C, SIGTERM and SIGHUP, without a question",
    )


def attend(url: str, job_id: str, *, shows_output: bool, stops_on_exit: bool) -> int:
    """Follow the job to its end, or until the user leaves it, and return the exit status."""
    follower = JobFollower(url, job_id, shows_output=shows_output)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _raise)
    while True:
        try:
            return _follow(follower)
        except Invalid as refused:
            return print_error(str(refused), NO_EXIT_CODE)
        except SignalReceived:
            return _leave(url, follower, stops=stops_on_exit)
        except KeyboardInterrupt:
            if stops_on_exit or not stop_dialog.can_ask():
                return _leave(url, follower, stops=stops_on_exit)
            if not _goes_on(url, follower):
                return _leave(url, follower, stops=False)


def _follow(follower: JobFollower) -> int:
    job = follower.follow()
    sentence = "" if job["status"] == "SUCCEEDED" else follower.sentence()
    row = to_row(job, sentence=sentence)
    print_notice(outcome(row))
    if job["status"] == "FAILED":
        print_notice(f"again: batchq rerun {short_id(follower.job_id)}")
    return exit_status_of(row)


def _goes_on(url: str, follower: JobFollower) -> bool:
    """Ask what to do with the job, and do it. Returns whether it is followed further; Ctrl-C leaves it."""
    follower.line.clear()
    try:
        answer = stop_dialog.ask(follower.describe())
        if answer in (Answer.CANCEL, Answer.TERMINATE):
            stop_dialog.stop(url, follower.job_id, answer=answer)
    except Unavailable as unavailable:
        print_notice(f"{unavailable}; the job was not stopped")
    except (KeyboardInterrupt, SignalReceived):
        return False
    else:
        return answer is not Answer.LEAVE
    return True


def _leave(url: str, follower: JobFollower, *, stops: bool) -> int:
    """End without the job; `stops`: terminate it before."""
    follower.line.clear()
    if not stops:
        return print_error(f"{LEFT_BEHIND}: batchq logs -f {short_id(follower.job_id)}", INTERRUPTED)
    try:
        stop_dialog.stop(url, follower.job_id, answer=Answer.TERMINATE)
    except BatchqError as failure:
        print_notice(f"{failure}; the job was not terminated")
    return INTERRUPTED


def _raise(_: int, __: FrameType | None) -> NoReturn:
    raise SignalReceived
