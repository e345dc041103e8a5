"""Filters of the commands that show jobs: those of `cancel`, with finished states, times, definitions and reasons.

Without a filter of people, the caller's own jobs match. Values of one filter are alternatives; a job must match all
filters.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from batchq.cli import job_handles
from batchq.cli.job_filters import parse_names
from batchq.cli.server_requests import Row
from batchq.cli.times import milliseconds, parse_time
from batchq.errors import Misused

WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
ACTIVE = ("STARTING", "RUNNING")
UNFINISHED = (*WAITING, *ACTIVE)
FINISHED = ("SUCCEEDED", "FAILED")
#: The statuses of AWS Batch that a value of `--state` stands for.
STATES: Mapping[str, tuple[str, ...]] = {
    "PENDING": WAITING,
    "RUNNING": ACTIVE,
    "FINISHED": FINISHED,
    "ALL": (*UNFINISHED, *FINISHED),
    **{it: (it,) for it in ("SUBMITTED", "RUNNABLE", "STARTING", "SUCCEEDED", "FAILED")},
}
ABBREVIATIONS = {"PD": "PENDING", "R": "RUNNING", "CD": "SUCCEEDED", "F": "FAILED"}

Filters = dict[str, Any]


def add_search_flags(command: ArgumentParser) -> None:
    """Declare the flags that `search_filters` reads."""
    command.add_argument("jobs", nargs="*", metavar="JOB", help=job_handles.HELP)
    group = command.add_argument_group("filters")

    def add(*flags: str, to: str, metavar: str, text: str, parse: Callable[[str], list[str]] = parse_names) -> None:
        group.add_argument(*flags, dest=to, action="append", type=parse, metavar=metavar, help=text)

    add("-n", "--name", to="names", metavar="NAME", text="jobs of this name, in any case: name, prefix* or *part*")
    add("-u", "--user", to="users", metavar="USER", text="jobs of this user, not your own")
    group.add_argument("--me", action="store_true", help="your own jobs (the default without -u, -A and -U)")
    group.add_argument("-U", "--all-users", action="store_true", help="jobs of all users that you may see")
    add("-A", "--account", to="accounts", metavar="ACCOUNT", text="jobs of this account and of those below it")
    add("-p", "--partition", "--queue", to="queues", metavar="QUEUE", text="jobs in this queue")
    text = "state: PENDING (PD: all that have not started), RUNNING (R), FINISHED, ALL, or a status of AWS Batch"
    add("-t", "--state", to="states", metavar="STATE", text=text, parse=_parse_states)
    text = "jobs that run in this compute environment"
    flags = ("-w", "--nodes", "--environment", "--compute-environment")
    add(*flags, to="environments", metavar="ENVIRONMENT", text=text)
    group.add_argument("--held", action="store_true", help="queued jobs that are held or paused")
    add("--definition", to="definitions", metavar="DEFINITION", text="jobs of this definition: NAME, NAME:REVISION")
    add(
        "--reason",
        to="reasons",
        metavar="WORDS",
        text="jobs whose statusReason contains these words",
        parse=_parse_word,
    )
    text = "{} TIME: created, or with -t SUCCEEDED, FAILED or FINISHED ended; 1h, 2d, or 2026-11-23T18:30"
    group.add_argument("--since", type=parse_time, metavar="TIME", help=text.format("after"))
    group.add_argument("--until", type=parse_time, metavar="TIME", help=text.format("before"))


def search_filters(args: Namespace, url: str) -> Filters:
    """The members of the listjobs request. Raises Misused and NotFound for a job that no id can be found for."""
    filters: Filters = {}
    for name, member in (
        ("names", "names"),
        ("users", "users"),
        ("accounts", "accounts"),
        ("queues", "queues"),
        ("states", "statuses"),
        ("definitions", "jobDefinitions"),
        ("environments", "computeEnvironments"),
    ):
        if values := getattr(args, name):
            filters[member] = list(dict.fromkeys(chain.from_iterable(values)))
    if args.held:
        filters["held"] = True
    if args.jobs:
        filters |= {"ids": job_handles.resolve_jobs(url, args.jobs), "children": True}
    if args.me or not (args.users or args.accounts or args.all_users or args.jobs):
        filters["mine"] = True
    return filters | _times(args.since, args.until, filters.get("statuses"))


def has_selection(args: Namespace) -> bool:
    """Whether an id or any filter is given."""
    names = ("jobs", "names", "users", "me", "all_users", "accounts", "queues", "states", "definitions", "reasons")
    return any(getattr(args, it) for it in (*names, "environments", "held", "since", "until"))


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


def _parse_states(text: str) -> list[str]:
    return [status for it in parse_names(text) for status in _statuses(it)]


def _statuses(text: str) -> tuple[str, ...]:
    state = ABBREVIATIONS.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return STATES[state]


def _parse_word(text: str) -> list[str]:
    if not text.strip():
        raise ArgumentTypeError("the words are empty")
    return [text]
