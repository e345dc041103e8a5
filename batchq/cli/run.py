"""`batchq run`: submits a job, prints its output, and ends with its exit code."""

from argparse import Namespace

from batchq.cli.attend import add_stop_flag, attend
from batchq.cli.exit_statuses import NO_EXIT_CODE
from batchq.cli.http_client import url_of
from batchq.cli.job_columns import short_id
from batchq.cli.main import CommandParser
from batchq.cli.output import print_error, print_notice
from batchq.cli.submit import declare_submission, plan_job, submit_planned
from batchq.errors import Invalid


def add_run(command: CommandParser) -> None:
    """Submit a job, print its output while it runs, and end with its exit code.

    Takes the flags of `batchq submit`. Ctrl-C asks whether to leave the job running, cancel or terminate it; a second
    Ctrl-C leaves it running, as do SIGTERM, SIGHUP, and Ctrl-C without a terminal.

      batchq run python:3.12 --memory 2g -v $PWD:/data --cd /data -- python train.py
      batchq run train.sh --time 90m
    """
    declare_submission(command)
    add_stop_flag(command)
    command.set_defaults(run=run)


def run(args: Namespace) -> int:
    plan = plan_job(args)
    url = url_of(args)
    try:
        request, job_id = submit_planned(url, plan)
    except Invalid as refused:
        return print_error(str(refused), NO_EXIT_CODE)
    print_notice(f"{request['jobName']} {short_id(job_id)} in queue {request['jobQueue']}")
    return attend(url, job_id, shows_output=True, stops_on_exit=args.stop_on_exit)
