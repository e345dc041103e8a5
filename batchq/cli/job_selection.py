"""How commands select jobs: by handles and by filters.

The flags of filters have one spelling in every command. Values of one filter are alternatives; a job must match all
filters. An empty value is refused, not ignored: without the filter the command would select more jobs.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from batchq.cli.job_columns import reason_of_row
from batchq.cli.job_handles import HELP, Several, resolve_targets
from batchq.cli.quantities import parse_time
from batchq.cli.server_requests import fetch_all_jobs
from batchq.cli.tables import parse_names
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status, in_order
from batchq.domain.times import milliseconds
from batchq.errors import UsageError
from batchq.ports.responses.jobs import JobRow
from batchq.system.escapes import escape

#: The statuses of AWS Batch that a value of `--state` stands for.
STATES: Mapping[str, tuple[str, ...]] = {
    "PENDING": in_order(QUEUED),
    "RUNNING": in_order(ACTIVE),
    "FINISHED": in_order(FINISHED),
    "ALL": tuple(Status),
    **{text: (text,) for text in ("SUBMITTED", "RUNNABLE", "STARTING", "SUCCEEDED", "FAILED")},
}
ABBREVIATIONS = {"PD": "PENDING", "R": "RUNNING", "CD": "SUCCEEDED", "F": "FAILED"}
MAX_EXIT_CODE = 2**32 - 1
MAX_IDS = 5000  # ids with steps that fit into one request
ALL_FILTERS = ("names", "users", "accounts", "queues", "states", "environments", "definitions", "exit_codes")
Filters = dict[str, Any]


class FilterFlag(NamedTuple):
    """A flag of a filter."""

    #: The member of the request.
    member: str
    flags: tuple[str, ...]
    metavar: str
    help: str
    parse: Callable[[str], list[str]] | Callable[[str], list[int]]


def add_selection_flags(
    command: ArgumentParser,
    *,
    filters: Collection[str] = ALL_FILTERS,
    own: bool = False,
    times: bool = True,
    aliases: Mapping[str, Sequence[str]] = MappingProxyType({}),
    jobs: str = HELP,
) -> None:
    """Declare the jobs and the filters that `selection_of` reads.

    `filters`: those of the command, by their keys in `FILTER_FLAGS`. `own`: whether the caller's own jobs are the
    default. `times`: whether `--since` and `--until` select jobs. `aliases`: further flags of a filter. `jobs`: the
    help for the jobs.
    """
    command.add_argument("jobs", nargs="*", metavar="JOB", help=jobs)
    group = command.add_argument_group("filters")
    for key in filters:
        flag = FILTER_FLAGS[key]
        names = (*flag.flags, *aliases.get(key, ()))
        group.add_argument(*names, dest=key, action="append", type=flag.parse, metavar=flag.metavar, help=flag.help)
    if "users" in filters:
        text = "your own jobs (the default without -u, -A and -U)" if own else "your own jobs"
        group.add_argument("--me", action="store_true", help=text)
        group.add_argument("--held", action="store_true", help="queued jobs that are held or paused")
        text = "yes: FAILED jobs that were cancelled or terminated; no: jobs that failed by themselves"
        group.add_argument("--stopped", choices=("yes", "no"), help=text)
    if own:
        group.add_argument("-U", "--all-users", action="store_true", help="jobs of all users that you may see")
    if times:
        text = "{} TIME: created, or with -t SUCCEEDED, FAILED or FINISHED ended; 1h, 2d, or 2026-11-23T18:30"
        group.add_argument("--since", type=parse_time, metavar="TIME", help=text.format("after"))
        group.add_argument("--until", type=parse_time, metavar="TIME", help=text.format("before"))
    command.set_defaults(selects_times=times)


def add_reason_filter(command: ArgumentParser) -> None:
    """Declare `--reason` of a command that reads jobs; `matches_reason` applies it."""
    text = "jobs whose reason contains these words, as --group-by reason prints it"
    command.add_argument("--reason", dest="reasons", action="append", type=_parse_words, metavar="WORDS", help=text)


def selection_of(
    args: Namespace, url: str, *, stops: bool = False, several: Several = Several.REFUSED, mixed: bool = False
) -> Filters:
    """The members of a request that select jobs, with complete ids in `jobs` and `groups`; empty without any filter.

    `jobs` is empty if the handles were read from an empty stdin: no job matches. `stops`: for a command that stops
    jobs. `mixed`: for a command that sends a request for the groups and one for the jobs; without, jobs beside groups
    are refused. Raises UsageError, and NotFound for a handle that names nothing.
    """
    given = ((FILTER_FLAGS[key].member, getattr(args, key, None)) for key in FILTER_FLAGS)
    selection: Filters = {
        member: list(dict.fromkeys(chain.from_iterable(values))) for member, values in given if values
    }
    if args.jobs:
        found = resolve_targets(url, args.jobs, stops=stops, several=several)
        if found.jobs and found.groups and not mixed:
            raise UsageError("groups and jobs cannot be given together: use one command for each")
        selection |= {"groups": found.groups} if found.groups else {}
        selection |= {"jobs": found.jobs} if found.jobs or not found.groups else {}
    if getattr(args, "held", False):
        selection["held"] = True
    if getattr(args, "stopped", None):
        selection["stopped"] = args.stopped == "yes"
    others = getattr(args, "users", None) or getattr(args, "accounts", None) or args.jobs
    if getattr(args, "me", False) or ("all_users" in args and not args.all_users and not others):
        selection["mine"] = True
    return selection | (_times(args, selection.get("jobStatuses")) if args.selects_times else {})


def stop_selection(args: Namespace, url: str) -> Filters:
    """As `selection_of`, for a command that stops jobs.

    Raises UsageError without any job or filter, which must not mean all jobs, and for more ids than one request takes.
    """
    selection = selection_of(args, url, stops=True)
    if not selection:
        raise UsageError("no jobs are selected: give a job or a filter; -t all selects all jobs that you may stop")
    if len(selection.get("jobs", ())) > MAX_IDS:
        raise UsageError(f"too many jobs: one command takes at most {MAX_IDS} ids; use a filter")
    return selection


def selected_ids(args: Namespace, url: str, default: Filters) -> list[str]:
    """The complete ids of the selected jobs, the newest first; those of handles in their order.

    `default`: members of the request for a selection by filters without states. Raises UsageError without any job or
    filter and for more than MAX_IDS jobs, and the errors of `selection_of`.
    """
    return ids_of_selection(url, selection_of(args, url), default)


def ids_of_selection(url: str, selection: Filters, default: Filters) -> list[str]:
    """As `selected_ids`, for the result of `selection_of`."""
    if not selection:
        raise UsageError("no jobs are selected: give a job or a filter")
    if selection.keys() == {"jobs"}:
        return list(selection["jobs"])
    filters = (default if not selection.keys() & {"jobs", "jobStatuses"} else {}) | selection
    return [row.job_id for row in fetch_all_jobs(url, filters, at_most=MAX_IDS)]


def has_selection(args: Namespace) -> bool:
    """Whether a job or any filter is given."""
    names = ("jobs", "me", "all_users", "reasons", "held", "stopped", "since", "until", *FILTER_FLAGS)
    return any(getattr(args, name, None) for name in names)


def matches_reason(args: Namespace, row: JobRow) -> bool:
    """Whether the row matches `--reason`, which the server does not know as a filter.

    Words that end with a digit match whole numbers: `exit code 1` does not match `exit code 137`.
    """
    if not args.reasons:
        return True
    texts = [escape(text).casefold() for text in (reason_of_row(row), row.status_reason or "")]
    words = [reason.casefold() for reason in chain.from_iterable(args.reasons)]
    patterns = [re.escape(word) + (r"(?!\d)" if word[-1].isdigit() else "") for word in words]
    return any(re.search(pattern, text) for pattern in patterns for text in texts)


def _times(args: Namespace, statuses: list[str] | None) -> Filters:
    since, until = args.since, args.until
    event = "ended" if statuses and set(statuses) <= set(FINISHED) else "created"
    if since and until and since >= until:
        raise UsageError("--since is not before --until")
    return {f"{event}{end}": milliseconds(at) for end, at in (("After", since), ("Before", until)) if at is not None}


def parse_state(text: str) -> str:
    """A state of `STATES`, from its name or abbreviation in any case."""
    state = ABBREVIATIONS.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return state


def parse_statuses(text: str) -> list[str]:
    """The statuses of states that are separated by commas."""
    return [status for name in parse_names(text) for status in STATES[parse_state(name)]]


def _parse_exit_codes(text: str) -> list[int]:
    names = parse_names(text)
    if wrong := [name for name in names if not (name.isascii() and name.isdigit() and int(name[:11]) <= MAX_EXIT_CODE)]:
        raise ArgumentTypeError(f"{wrong[0]!r} is not an exit code")
    return [int(name) for name in names]


def _parse_words(text: str) -> list[str]:
    if not text.strip():
        raise ArgumentTypeError("the words are empty")
    return [text]


#: The filters by the attributes of the arguments.
FILTER_FLAGS: Mapping[str, FilterFlag] = {
    "names": FilterFlag(
        "jobNames", ("-n", "--name"), "NAME", "jobs of this name, in any case: name, prefix* or *part*", parse_names
    ),
    "users": FilterFlag("users", ("-u", "--user"), "USER", "jobs of this user", parse_names),
    "accounts": FilterFlag(
        "accounts", ("-A", "--account"), "ACCOUNT", "jobs of this account and of the accounts below it", parse_names
    ),
    "queues": FilterFlag("jobQueues", ("-q", "--queue"), "QUEUE", "jobs in this queue", parse_names),
    "states": FilterFlag(
        "jobStatuses",
        ("-t", "--state"),
        "STATE",
        "state: PENDING (PD: all that have not started), RUNNING (R), FINISHED, ALL, or a status of AWS Batch",
        parse_statuses,
    ),
    "environments": FilterFlag(
        "computeEnvironments",
        ("-w", "--environment"),
        "ENVIRONMENT",
        "jobs that run in this compute environment",
        parse_names,
    ),
    "definitions": FilterFlag(
        "jobDefinitions",
        ("-d", "--definition"),
        "DEFINITION",
        "jobs of this definition: NAME, NAME:REVISION",
        parse_names,
    ),
    "exit_codes": FilterFlag(
        "exitCodes", ("--exit-code",), "N", "jobs whose latest attempt ended with this exit code", _parse_exit_codes
    ),
}
