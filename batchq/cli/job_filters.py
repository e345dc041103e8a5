"""Filters that select jobs: those of the commands that show jobs, and those of the commands that stop them.

The flags have the letters of Slurm's `squeue` and `scancel`. Values of one filter are alternatives; a job must match
all filters. An empty value is refused, not ignored: without the filter the command would select more jobs.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from batchq.cli.job_handles import HELP, resolve_jobs
from batchq.cli.server_requests import ACTIVE, FINISHED, UNFINISHED, WAITING, Row
from batchq.cli.times import parse_time
from batchq.domain.times import milliseconds
from batchq.errors import Misused

#: The statuses of AWS Batch that a value of `--state` stands for.
STATES: Mapping[str, tuple[str, ...]] = {
    "PENDING": WAITING,
    "RUNNING": ACTIVE,
    "FINISHED": FINISHED,
    "ALL": (*UNFINISHED, *FINISHED),
    **{it: (it,) for it in ("SUBMITTED", "RUNNABLE", "STARTING", *FINISHED)},
}
#: The values of `--state` of the commands that stop jobs.
STOPPABLE_STATES = ("PENDING", "RUNNING", "ALL", "SUBMITTED", "RUNNABLE", "STARTING")
ABBREVIATIONS = {"PD": "PENDING", "R": "RUNNING", "CD": "SUCCEEDED", "F": "FAILED"}
MAX_IDS = 5000  # ids with steps that fit into one request
_SEARCH_MEMBERS = {
    "names": "names",
    "users": "users",
    "accounts": "accounts",
    "queues": "queues",
    "states": "statuses",
    "definitions": "jobDefinitions",
    "environments": "computeEnvironments",
}
_STOP_MEMBERS = {
    "names": "jobNames",
    "users": "users",
    "accounts": "accounts",
    "queues": "jobQueues",
    "states": "states",
    "environments": "computeEnvironments",
}

Filters = dict[str, Any]


def add_search_flags(command: ArgumentParser) -> None:
    """Declare the flags that `search_filters` reads."""
    text = "state: PENDING (PD: all that have not started), RUNNING (R), FINISHED, ALL, or a status of AWS Batch"
    group = _add_common_flags(
        command,
        name="jobs of this name, in any case: name, prefix* or *part*",
        me="your own jobs (the default without -u, -A and -U)",
        state=text,
        parse_states=_parse_statuses,
    )
    group.add_argument("-U", "--all-users", action="store_true", help="jobs of all users that you may see")
    group.add_argument("--held", action="store_true", help="queued jobs that are held or paused")
    text = "jobs of this definition: NAME, NAME:REVISION"
    _add_filter(group, "--definition", to="definitions", metavar="DEFINITION", text=text)
    text = "jobs whose statusReason contains these words"
    _add_filter(group, "--reason", to="reasons", metavar="WORDS", text=text, parse=_parse_words)
    text = "{} TIME: created, or with -t SUCCEEDED, FAILED or FINISHED ended; 1h, 2d, or 2026-11-23T18:30"
    group.add_argument("--since", type=parse_time, metavar="TIME", help=text.format("after"))
    group.add_argument("--until", type=parse_time, metavar="TIME", help=text.format("before"))


def add_stop_flags(command: ArgumentParser) -> None:
    """Declare the flags that `stop_filters` reads."""
    _add_common_flags(
        command,
        name="jobs of this name, in any case; a trailing * matches any end",
        me="your own jobs",
        state="state: PENDING (or PD: all that have not started), RUNNING (or R), ALL, SUBMITTED, RUNNABLE, STARTING",
        parse_states=_parse_stoppable_states,
        jobs=f"{HELP}; JOB.NAME or JOB.INDEX: a container of a task",
    )


def _add_common_flags(
    command: ArgumentParser,
    *,
    name: str,
    me: str,
    state: str,
    parse_states: Callable[[str], list[str]],
    jobs: str = HELP,
) -> Any:  # noqa: ANN401 - argparse's own
    """Declare the filters that all commands have; returns their group. The texts are those of the help."""
    command.add_argument("jobs", nargs="*", metavar="JOB", help=jobs)
    group = command.add_argument_group("filters")
    _add_filter(group, "-n", "--name", to="names", metavar="NAME", text=name)
    _add_filter(group, "-u", "--user", to="users", metavar="USER", text="jobs of this user")
    group.add_argument("--me", action="store_true", help=me)
    text = "jobs of this account and of the accounts below it"
    _add_filter(group, "-A", "--account", to="accounts", metavar="ACCOUNT", text=text)
    _add_filter(group, "-p", "--partition", "--queue", to="queues", metavar="QUEUE", text="jobs in this queue")
    _add_filter(group, "-t", "--state", to="states", metavar="STATE", text=state, parse=parse_states)
    flags = ("-w", "--nodes", "--environment", "--compute-environment")
    text = "jobs that run in this compute environment"
    _add_filter(group, *flags, to="environments", metavar="ENVIRONMENT", text=text)
    return group


def parse_names(text: str) -> list[str]:
    """Parse a list with commas. An empty part is an error."""
    parts = [it.strip() for it in text.split(",")]
    if not all(parts):
        raise ArgumentTypeError(f"{text!r} has an empty part")
    return parts


def _add_filter(
    group: Any,  # noqa: ANN401 - argparse's own
    *flags: str,
    to: str,
    metavar: str,
    text: str,
    parse: Callable[[str], list[str]] = parse_names,
) -> None:
    group.add_argument(*flags, dest=to, action="append", type=parse, metavar=metavar, help=text)


def search_filters(args: Namespace, url: str) -> Filters:
    """The members of the listjobs request. Without a filter of users, accounts or ids: the caller's own jobs.

    `ids` is empty if the handles were read from an empty stdin: no job matches. Raises Misused, and NotFound for a
    handle without a job.
    """
    filters: Filters = _given(args, _SEARCH_MEMBERS)
    if args.held:
        filters["held"] = True
    if args.jobs:
        filters |= {"ids": resolve_jobs(url, args.jobs), "children": True}
    if args.me or not (args.users or args.accounts or args.all_users or args.jobs):
        filters["mine"] = True
    return filters | _times(args.since, args.until, filters.get("statuses"))


def stop_filters(args: Namespace, url: str) -> Filters:
    """The members of the request of a command that stops jobs, with complete ids in `jobs`.

    `jobs` is empty if the handles were read from an empty stdin: no job matches. Raises Misused without any job or
    filter, which must not mean all jobs, and the errors of `resolve_jobs`.
    """
    filters: Filters = {}
    if args.jobs:
        filters["jobs"] = ids = resolve_jobs(url, args.jobs, stops=True)
        if len(ids) > MAX_IDS:
            raise Misused(f"too many jobs: one command takes at most {MAX_IDS} ids; use a filter")
    filters |= _given(args, _STOP_MEMBERS)
    if not filters:
        raise Misused("no jobs are selected: give a job or a filter; -t all selects all jobs that you may stop")
    return filters


def _given(args: Namespace, members: Mapping[str, str]) -> Filters:
    """The members of the flags that are given, each value once."""
    return {
        member: list(dict.fromkeys(chain.from_iterable(values)))
        for name, member in members.items()
        if (values := getattr(args, name))
    }


def has_selection(args: Namespace) -> bool:
    """Whether a job or any filter of `add_search_flags` is given."""
    names = ("jobs", "me", "all_users", "reasons", "held", "since", "until", *_SEARCH_MEMBERS)
    return any(getattr(args, it) for it in names)


def matches_reason(args: Namespace, row: Row) -> bool:
    """Whether the row matches `--reason`, which the server does not know as a filter."""
    if not args.reasons:
        return True
    reason = str(row.get("statusReason", "")).casefold()
    return any(word.casefold() in reason for word in chain.from_iterable(args.reasons))


def _times(since: datetime | None, until: datetime | None, statuses: list[str] | None) -> Filters:
    event = "ended" if statuses and set(statuses) <= set(FINISHED) else "created"
    if since and until and since >= until:
        raise Misused("--since is not before --until")
    return {f"{event}{end}": milliseconds(at) for end, at in (("After", since), ("Before", until)) if at is not None}


def parse_state(text: str) -> str:
    """A state of `STATES`, from its name or abbreviation in any case."""
    state = ABBREVIATIONS.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return state


def _parse_statuses(text: str) -> list[str]:
    return [status for it in parse_names(text) for status in STATES[parse_state(it)]]


def _parse_stoppable_states(text: str) -> list[str]:
    states = [ABBREVIATIONS.get(it.upper(), it.upper()) for it in parse_names(text)]
    if unknown := [it for it in states if it not in STOPPABLE_STATES]:
        raise ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(STOPPABLE_STATES)}")
    return states


def _parse_words(text: str) -> list[str]:
    if not text.strip():
        raise ArgumentTypeError("the words are empty")
    return [text]
