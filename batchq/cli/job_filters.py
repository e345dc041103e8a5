"""Job selection by handles and filters. The flags have the letters of Slurm's `scancel`.

An empty value is refused, not ignored: without the filter the command would stop more jobs.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from itertools import chain

from batchq.cli.job_handles import HELP, parse_handle, resolve_jobs
from batchq.errors import Misused

STATES = ("PENDING", "RUNNING", "ALL", "SUBMITTED", "RUNNABLE", "STARTING")
ABBREVIATIONS = {"PD": "PENDING", "R": "RUNNING"}
MAX_IDS = 5000  # ids with steps that fit into one request
MEMBERS = {
    "names": "jobNames",
    "users": "users",
    "accounts": "accounts",
    "queues": "jobQueues",
    "states": "states",
    "environments": "computeEnvironments",
}

_HELP = {
    "jobs": f"{HELP}; or a step of it: children of an array (JOB:INDEX, JOB:FIRST-LAST), a node of a multi-node job "
    "(JOB#NODE) or a container of a task (JOB.NAME or JOB.INDEX)",
    "names": "jobs of this name, in any case; a trailing * matches any end",
    "users": "jobs of this user",
    "accounts": "jobs of this account, and of the accounts below it",
    "queues": "jobs in this queue",
    "states": "state: PENDING (or PD: all that have not started), RUNNING (or R), ALL, SUBMITTED, RUNNABLE, STARTING",
    "environments": "jobs that run in this compute environment",
}


def add_filter_flags(command: ArgumentParser) -> None:
    """Declare the flags that `job_filter` reads."""

    def add(*flags: str, to: str, metavar: str, parse: Callable[[str], list[str]] = parse_names) -> None:
        command.add_argument(*flags, dest=to, action="append", type=parse, metavar=metavar, help=_HELP[to])

    command.add_argument("jobs", nargs="*", type=_jobs, metavar="JOB", help=_HELP["jobs"])
    add("-n", "--name", to="names", metavar="NAME")
    add("-u", "--user", to="users", metavar="USER")
    command.add_argument("--me", action="store_true", help="same as --user with the name of your user on the server")
    add("-A", "--account", to="accounts", metavar="ACCOUNT")
    add("-p", "--partition", "--queue", to="queues", metavar="QUEUE")
    add("-t", "--state", to="states", metavar="STATE", parse=_states)
    add("-w", "--nodes", "--environment", to="environments", metavar="ENVIRONMENT")


def job_filter(args: Namespace, url: str) -> dict[str, list[str]]:
    """The members of the request, with complete ids in `jobs`.

    Raises Misused without any job or filter, which must not mean all jobs, and the errors of `resolve_jobs`.
    """
    members: dict[str, list[str]] = {}
    if args.jobs:
        members["jobs"] = ids = resolve_jobs(url, chain.from_iterable(args.jobs), stops=True)
        if len(ids) > MAX_IDS:
            raise Misused(f"too many jobs: one command takes at most {MAX_IDS} ids; use a filter")
    for name, member in MEMBERS.items():
        if values := getattr(args, name):
            members[member] = list(dict.fromkeys(chain.from_iterable(values)))  # without duplicates
    if not members:
        raise Misused("no jobs are selected: give a job or a filter; -t all selects all jobs that you may stop")
    return members


def parse_names(text: str) -> list[str]:
    """Parse a list with commas. An empty part is an error."""
    parts = [it.strip() for it in text.split(",")]
    if not all(parts):
        raise ArgumentTypeError(f"{text!r} has an empty part")
    return parts


def _states(text: str) -> list[str]:
    return [_state(it) for it in parse_names(text)]


def _jobs(text: str) -> list[str]:
    handles = parse_names(text)
    for it in handles:
        try:
            parse_handle(it, stops=True)
        except Misused as invalid:
            raise ArgumentTypeError(str(invalid)) from None
    return handles


def _state(text: str) -> str:
    state = ABBREVIATIONS.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return state
