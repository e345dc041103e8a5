"""`batchq exec`: a command in the container of a running job, with this terminal as its terminal."""

import os
import sys
from argparse import ArgumentParser, Namespace
from urllib.parse import urlencode

from batchq.cli.http_client import url_of
from batchq.cli.job_handles import HELP_ONE, Several, resolve_job
from batchq.cli.main import CommandParser
from batchq.cli.output import INTERRUPTED, NO_EXIT_CODE, is_terminal, print_error
from batchq.cli.server_requests import job_endpoint
from batchq.errors import UsageError


def add_exec(command: ArgumentParser) -> None:
    """Run a command in the container of a running job, and end with its exit code.

    The command has a terminal if stdin and stdout are one. Without a terminal stdin is its input. It runs beside the
    program of the job, as the container's user; the state and the log of the job do not change. It ends with the
    container, so also when the job is stopped. The server records who ran a command, and not which one.

      batchq exec @ -- sh                       a shell in your latest job
      batchq exec train -- nvidia-smi
      batchq exec train:3 -- tar -c out | tar -x
      batchq exec train --container sidecar -- sh
    """
    assert isinstance(command, CommandParser)
    command.takes_program = True
    command.usage = f"{command.prog} [-h] [flags] JOB -- COMMAND [ARGUMENT...]"
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    command.add_argument("--container", metavar="NAME", help="the container, for a job with several")
    command.add_argument("-T", "--no-terminal", action="store_true", help="give the command no terminal")


def run_exec(args: Namespace) -> int:
    if not args.program:
        raise UsageError("give a command after --, as in: batchq exec JOB -- sh")
    url = url_of(args)
    query = f"?{urlencode({'container': args.container})}" if args.container else ""
    path = f"{job_endpoint(resolve_job(url, args.job, several=Several.NEWEST))}/exec{query}"
    has_terminal = os.name == "posix" and not args.no_terminal and is_terminal(sys.stdin) and is_terminal()
    from batchq.cli.exec_client import run_session  # noqa: PLC0415 - the help needs no client

    end = run_session(url, path, args.program, has_terminal=has_terminal)
    if end is None:
        return INTERRUPTED
    if end.reason is not None:
        return print_error(end.reason, NO_EXIT_CODE)
    return NO_EXIT_CODE if end.exit_code is None else end.exit_code
