"""`batchq ccancel`: stops jobs with the flags, texts and exit statuses of CraneSched's ccancel.

It is `batchq terminate` without a grace period: jobs that have not started never do, and containers of the others are
killed at once. Names are exact, whereas those of `batchq terminate` ignore case and may end with *.
"""

import json
from argparse import SUPPRESS, ArgumentTypeError, Namespace
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from batchq import __version__
from batchq.cli.bulk_stop import STEP_HELP, SUCCESSFUL_OUTCOMES, TERMINATE, TIMEOUT, UNCHANGED, StepNotes
from batchq.cli.http_client import url_of
from batchq.cli.job_selection import STATES, add_selection_flags, stop_selection
from batchq.cli.main import CommandParser, render_json_error
from batchq.cli.output import DONE, MISUSED, UNAVAILABLE, print_notice, write_line
from batchq.cli.server_requests import fetch_described, stream_stops
from batchq.cli.tables import json_of
from batchq.domain.enums import Outcome
from batchq.errors import BatchqError, Invalid, Unavailable, UsageError
from batchq.ports.responses.stops import CountsLine, JobLine
from batchq.system.escapes import escape

NOT_CANCELLED = 4  # exit status: the server refused the request, or a job was not cancelled
STATE_NAMES = {"PENDING": "PENDING", "P": "PENDING", "RUNNING": "RUNNING", "R": "RUNNING", "ALL": "ALL"}
#: The flags of ccancel for filters that batchq spells otherwise.
ALIASES = {"queues": ("-p", "--partition"), "environments": ("--nodes",)}
PAGE = 5000  # ids of one request
REASON = "ccancel"
_EXIT_STATUSES = """\
exit status:
  0    all jobs are cancelled; also if no job matches, or a given job has ended
       or does not match the filters
  2    invalid arguments; nothing is changed
  3    the server cannot be reached, or is unavailable
  4    the server refused, or a given job was not cancelled; the others are
  130  interrupted by Ctrl-C; the server completes a request it has accepted"""


def add_ccancel(command: CommandParser) -> None:
    """Cancel pending and running jobs with the flags of ccancel. Running containers are killed without a grace period.

    A job must match all filters, and one value of each filter. The command does not ask for confirmation.

      batchq ccancel 8f2c51a7,77ab01c9.1
      batchq ccancel -u ada -t P -p night
    """
    command.epilog = _EXIT_STATUSES
    add_selection_flags(command, times=False, aliases=ALIASES, jobs=STEP_HELP)
    _replace_flags(command)
    command.add_argument("--json", action="store_true", help="print the result, or the error, as JSON")
    command.add_argument("-v", "--version", action="version", version=f"batchq {__version__}")
    command.add_argument("--reason", default=REASON, help=SUPPRESS)
    command.has_json_errors = True


def run_ccancel(args: Namespace) -> int:
    try:
        return _cancel(args)
    except UsageError as misused:
        return _fail(args, str(misused), MISUSED)
    except Invalid as refused:
        return _fail(args, str(refused), NOT_CANCELLED)
    except Unavailable as unavailable:
        return _fail(args, str(unavailable), UNAVAILABLE)


def _cancel(args: Namespace) -> int:
    url = url_of(args)
    filters = stop_selection(args, url)
    notes = StepNotes.of(url, filters.get("jobs", ()), cancels=False)
    requests: Sequence[Mapping[str, object]] = (
        _exact(url, filters, set(chain.from_iterable(args.names))) if args.names else [filters]
    )
    outcomes = [
        row for request in requests for row in _stop(url, {**request, "reason": args.reason, "graceSeconds": 0})
    ]
    failed = [line for line in outcomes if line.outcome not in SUCCESSFUL_OUTCOMES]
    if args.json:
        write_line(json.dumps({"jobs": json_of(outcomes), "status": NOT_CANCELLED if failed else DONE}, indent=2))
    else:
        _print(outcomes, notes, cancelled=_cancelled_before(url, outcomes))
    return NOT_CANCELLED if failed else DONE


def _exact(url: str, filters: Mapping[str, list[str]], names: set[str]) -> list[dict[str, object]]:
    """Requests for the jobs that have exactly one of these names at present: the server's names ignore case."""
    found = [line.job_id for line in _stop(url, {**filters, "dryRun": True}) if line.job_name in names]
    others: dict[str, object] = {
        member: value for member, value in filters.items() if member not in ("jobs", "jobNames")
    }
    return [others | {"jobs": found[start : start + PAGE]} for start in range(0, len(found), PAGE)]


def _stop(url: str, request: dict[str, object]) -> list[JobLine]:
    """The outcome of each job. Raises Unavailable if the response is incomplete."""
    outcomes: list[JobLine] = []
    if request.get("jobs") == []:  # the handles of an empty stdin; a request without `jobs` would select all
        return outcomes
    with stream_stops(url, TERMINATE, request, timeout=TIMEOUT) as lines:
        for line in lines:
            if isinstance(line, CountsLine):
                return outcomes
            outcomes.append(line)
    raise Unavailable("the response is incomplete; the server completes the request")


def _cancelled_before(url: str, outcomes: Sequence[JobLine]) -> frozenset[str]:
    """The ids of those jobs that had ended before because they were cancelled or terminated."""
    ended = [line.job_id for line in outcomes if line.outcome is Outcome.ALREADY_FINISHED]
    try:
        jobs = fetch_described(url, ended) if ended else []
    except BatchqError:  # the outcome is printed in any case
        jobs = []
    return frozenset(job.job_id for job in jobs if job.is_cancelled or job.is_terminated)


def _print(outcomes: Sequence[JobLine], notes: StepNotes, *, cancelled: Collection[str]) -> None:
    """`cancelled`: the jobs that were cancelled before this command."""
    for line in outcomes:
        job, note = line.job_id, notes.note(line)
        if line.outcome in UNCHANGED:
            text = f"Job {job} is already cancelled." if job in cancelled else line.message
            write_line(escape(f"{text} Nothing is changed."), flush=False)
        elif line.outcome in SUCCESSFUL_OUTCOMES:
            why = line.message or note
            write_line(escape(f"Job {job} cancelled successfully{why and f': {why}'}."), flush=False)
        else:
            reason = line.message or line.outcome
            write_line(escape(f"Failed to cancel job: {job}. Reason: {reason}{note and f' {note}.'}"), flush=False)
    if not outcomes:
        write_line("No job matches; 0 jobs are cancelled.")


def _replace_flags(command: CommandParser) -> None:
    """Give `-t` the states of ccancel, and `-n` the help for exact names."""
    actions: dict[str, Any] = command._option_string_actions  # noqa: SLF001 - argparse has no other access to a flag
    actions["-t"].type = _states
    actions["-t"].help = "state: PENDING (or P: all that have not started), RUNNING (or R), ALL"
    actions["-n"].help = "jobs with exactly this name, in its case"
    actions["-u"].help = "jobs of this user, in any case"


def _states(text: str) -> list[str]:
    words = [part.strip().upper() for part in text.split(",")]
    if unknown := [word for word in words if word not in STATE_NAMES]:
        raise ArgumentTypeError(f"{unknown[0]!r} is not one of PENDING, P, RUNNING, R, ALL")
    return [status for word in words for status in STATES[STATE_NAMES[word]]]


def _fail(args: Namespace, message: str, status: int) -> int:
    if args.json:
        write_line(render_json_error(message, status))
    else:
        print_notice(message)
    return status
