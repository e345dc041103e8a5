"""Job selection by ids and filters. The flags have the letters of Slurm's `scancel`.

An empty value is refused, not ignored: without the filter the command would stop more jobs. Ids are complete: a prefix
could match another job a moment later.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from itertools import chain

from batchq.errors import Misused

STATES = ("PENDING", "RUNNING", "ALL", "SUBMITTED", "RUNNABLE", "STARTING")
ABBREVIATIONS = {"PD": "PENDING", "R": "RUNNING"}
MAX_IDS = 5000  # ids with steps that fit into one request
MEMBERS = {
    "jobs": "jobs",
    "names": "jobNames",
    "users": "users",
    "accounts": "accounts",
    "queues": "jobQueues",
    "states": "states",
    "environments": "computeEnvironments",
}
_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_INDEX = r"0|[1-9]\d{0,4}"
_JOB = re.compile(rf"({_ID})(?:([:#._])({_INDEX}))?|({_ID})(?:[:_]({_INDEX}))?\.([\w-]{{1,128}})", re.ASCII)

_HELP = {
    "jobs": "job id, or JOB.STEP: a child of an array (JOB:INDEX), a node of a multi-node job (JOB#NODE) or a "
    "container of a task (JOB.NAME or JOB.INDEX)",
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


def job_filter(args: Namespace) -> dict[str, object]:
    """The members of the request. Raises Misused without any id or filter, which must not mean all jobs."""
    members: dict[str, object] = {}
    for name, member in MEMBERS.items():
        if values := getattr(args, name):
            members[member] = list(dict.fromkeys(chain.from_iterable(values)))  # without duplicates
    if len(set(chain.from_iterable(args.jobs))) > MAX_IDS:
        raise Misused(f"too many jobs: one command takes at most {MAX_IDS} ids; use a filter")
    if not members:
        raise Misused("no jobs are selected: give an id or a filter; -t all selects all jobs that you may stop")
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
    return [_job(it) for it in parse_names(text)]


def _state(text: str) -> str:
    state = ABBREVIATIONS.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return state


def _job(text: str) -> str:
    """Parse a job id with an optional step. Slurm's `JOB_INDEX` becomes `JOB:INDEX`.

    `JOB.STEP` is sent as it is: only the server knows whether the job is an array, a gang or a task.
    """
    parts = _JOB.fullmatch(text)
    if parts is None:
        raise ArgumentTypeError(f"{text!r} is not a complete job id, nor JOB.STEP, JOB:INDEX or JOB#NODE")
    job, separator, step, task, child, container = parts.groups()
    if container is not None:
        return f"{task}{'' if child is None else f':{child}'}.{container}"
    return job if separator is None else f"{job}{':' if separator == '_' else separator}{step}"
