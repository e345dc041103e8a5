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
SHORT = {"PD": "PENDING", "R": "RUNNING"}
MOST = 5000  # ids with steps that fit into one request
MEMBERS = {
    "jobs": "jobs",
    "names": "jobNames",
    "users": "users",
    "accounts": "accounts",
    "queues": "jobQueues",
    "states": "states",
    "environments": "computeEnvironments",
}
_JOB = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:([:#._])(0|[1-9]\d{0,4}))?", re.ASCII)


def add_choice(command: ArgumentParser) -> None:
    """Declare the flags that `chosen` reads."""

    def many(*names: str, to: str, one: str, read: Callable[[str], list[str]] = words) -> None:
        command.add_argument(*names, dest=to, action="append", type=read, metavar=one, help=_HELP[to])

    command.add_argument("jobs", nargs="*", type=jobs, metavar="JOB", help=_HELP["jobs"])
    many("-n", "--name", to="names", one="NAME")
    many("-u", "--user", to="users", one="USER")
    command.add_argument("--me", action="store_true", help="same as --user with the name of your user on the server")
    many("-A", "--account", to="accounts", one="ACCOUNT")
    many("-p", "--partition", "--queue", to="queues", one="QUEUE")
    many("-t", "--state", to="states", one="STATE", read=states)
    many("-w", "--nodes", "--environment", to="environments", one="ENVIRONMENT")


_HELP = {
    "jobs": "job id, or JOB.STEP: a child of an array (JOB:INDEX) or a node of a multi-node job (JOB#NODE)",
    "names": "jobs of this name, in any case; a trailing * matches any end",
    "users": "jobs of this user",
    "accounts": "jobs of this account, and of the accounts below it",
    "queues": "jobs in this queue",
    "states": "state: PENDING (or PD: all that have not started), RUNNING (or R), ALL, SUBMITTED, RUNNABLE, STARTING",
    "environments": "jobs that run in this compute environment",
}


def chosen(asked: Namespace) -> dict[str, object]:
    """The members of the request. Raises Misused without any id or filter, which must not mean all jobs."""
    told: dict[str, object] = {}
    for name, member in MEMBERS.items():
        if said := getattr(asked, name):
            told[member] = list(dict.fromkeys(chain.from_iterable(said)))  # without duplicates
    if len(set(chain.from_iterable(asked.jobs))) > MOST:
        raise Misused(f"too many jobs: one command takes at most {MOST} ids; use a filter")
    if not told:
        raise Misused("no jobs are selected: give an id or a filter; -t all selects all jobs that you may stop")
    return told


def words(text: str) -> list[str]:
    """Parse a list with commas. An empty part is an error."""
    said = [it.strip() for it in text.split(",")]
    if not all(said):
        raise ArgumentTypeError(f"{text!r} has an empty part")
    return said


def states(text: str) -> list[str]:
    return [_state(it) for it in words(text)]


def jobs(text: str) -> list[str]:
    return [_job(it) for it in words(text)]


def _state(text: str) -> str:
    state = SHORT.get(text.upper(), text.upper())
    if state not in STATES:
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(STATES)}")
    return state


def _job(text: str) -> str:
    """Parse a job id with an optional step. Slurm's `JOB_INDEX` becomes `JOB:INDEX`.

    `JOB.STEP` is sent as it is: only the server knows whether the job is an array or a gang.
    """
    parts = _JOB.fullmatch(text)
    if parts is None:
        raise ArgumentTypeError(f"{text!r} is not a complete job id, nor JOB.STEP, JOB:INDEX or JOB#NODE")
    job, mark, step = parts.groups()
    return job if mark is None else f"{job}{':' if mark == '_' else mark}{step}"
