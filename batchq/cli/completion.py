"""`batchq completion SHELL`, and the completion of words itself, which the shell's script requests from `batchq`.

A value comes from the server within `TIMEOUT`; without a server nothing is completed, and nothing is printed.
"""

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from typing import Any

from batchq.cli.http_client import call, url_of
from batchq.cli.job_selection import STATES
from batchq.cli.main import CommandParser, subparsers_of
from batchq.cli.output import write_line
from batchq.cli.server_requests import LIST_GROUPS, LIST_JOBS
from batchq.domain.ids import short_id
from batchq.errors import BatchqError
from batchq.ports.responses.batch import DescribeJobDefinitionsResponse, DescribeJobQueuesResponse
from batchq.ports.responses.groups import GroupsResponse
from batchq.ports.responses.jobs import SearchResponse

SHELLS = ("bash", "zsh", "fish")
TIMEOUT = 0.5  # seconds
LATEST = 20  # jobs, and groups, that are completed
Values = Mapping[str, str]
Completer = Callable[..., Values]


def add_completion(command: ArgumentParser) -> None:
    """Print the script that lets a shell complete commands, flags, queues, definitions, states and jobs.

    bash: eval "$(batchq completion bash)"       in ~/.bashrc
    zsh:  eval "$(batchq completion zsh)"        in ~/.zshrc
    fish: batchq completion fish | source        in ~/.config/fish/config.fish
    """
    command.add_argument("shell", choices=SHELLS)


def run_completion(args: Namespace) -> None:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - see `complete`

    write_line(shellcode(["batchq"], shell=args.shell))


def complete(parser: ArgumentParser) -> None:
    """Print the completions that the environment requests, in the form of argcomplete's protocol, and exit."""
    from argcomplete import autocomplete  # noqa: PLC0415 - other commands do not need it

    name = next(iter(_words()[1:2]), "")
    if isinstance(command := subparsers_of(parser).get(name), CommandParser):
        command.declare()
        _add_completers(command)
    autocomplete(parser, always_complete_options=False)


def _words() -> list[str]:
    """The complete words of the command line so far."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    try:
        return shlex.split(line)
    except ValueError:  # a quotation that is not closed
        return line.split()


def _add_completers(parser: ArgumentParser) -> None:
    """Give the flags and arguments their completers, by the name under which the command reads them."""
    completers: Mapping[str, Completer] = {
        **dict.fromkeys(("queue", "queues", "queue_name", "queue_names"), _queues),
        **dict.fromkeys(("definition", "definitions", "definition_name"), _definitions),
        **dict.fromkeys(("job", "jobs", "after"), _jobs),
        "states": _states,
    }
    for action in _actions(parser):
        if action.dest in completers and action.choices is None:
            action.completer = completers[action.dest]


def _actions(parser: ArgumentParser) -> Iterator[Any]:
    yield from parser._actions  # noqa: SLF001 - not public
    for each in subparsers_of(parser).values():
        yield from _actions(each)


def _states(**_: object) -> Values:
    return dict.fromkeys(STATES, "")


def _queues(parsed_args: Namespace, **_: object) -> Values:
    def names(url: str) -> Values:
        page = call(url, "/v1/describejobqueues", {}, answer=DescribeJobQueuesResponse, timeout=TIMEOUT)
        return {queue.job_queue_name: queue.state for queue in page.job_queues}

    return _in_time(parsed_args, names)


def _definitions(parsed_args: Namespace, **_: object) -> Values:
    def names(url: str) -> Values:
        request, answer = {"status": "ACTIVE"}, DescribeJobDefinitionsResponse
        page = call(url, "/v1/describejobdefinitions", request, answer=answer, timeout=TIMEOUT)
        return {definition.job_definition_name: "" for definition in page.job_definitions}

    return _in_time(parsed_args, names)


def _jobs(prefix: str, parsed_args: Namespace, **_: object) -> Values:
    """The names of the caller's latest groups and jobs; with the first digits of an id, ids too."""

    def names(url: str) -> Values:
        request = {"mine": True, "maxResults": LATEST}
        groups = call(url, LIST_GROUPS, request, answer=GroupsResponse, timeout=TIMEOUT).groups
        jobs = call(url, LIST_JOBS, request | {"ungrouped": True}, answer=SearchResponse, timeout=TIMEOUT).jobs
        ids = {short_id(job.job_id): f"{job.job_name} {job.status}" for job in jobs} if prefix else {}
        return ids | {job.job_name: job.status for job in jobs} | {group.group_name: "group" for group in groups}

    return _in_time(parsed_args, names)


def _in_time(parsed_args: Namespace, values: Callable[[str], Values]) -> Values:
    """The values, or none if there is no server, or it does not respond in time."""
    found: dict[str, str] = {}

    def read() -> None:
        try:
            flags = {name: getattr(parsed_args, name, None) for name in ("url", "ca_bundle", "config")}
            found.update(values(url_of(Namespace(**flags))))
        except (BatchqError, OSError):
            return

    reader = Thread(target=read, daemon=True)
    reader.start()
    reader.join(TIMEOUT)
    return dict(found)
