"""`batchq rerun`: submits finished jobs again, with the same job definition and overrides, or with changes.

A request is made from the response of DescribeJobs and the revision of the job's definition.
"""

from argparse import Namespace
from collections.abc import Sequence
from json import dumps
from uuid import uuid4

from batchq.cli.http_client import Document, url_of
from batchq.cli.job_flags import Request, add_change_flags, changes
from batchq.cli.job_selection import (
    STATES,
    add_reason_filter,
    add_selection_flags,
    has_selection,
    matches_reason,
    selection_of,
)
from batchq.cli.main import CommandParser
from batchq.cli.output import DONE, EXIT_STATUSES, print_notice, write_line
from batchq.cli.server_requests import (
    fetch_all_jobs,
    fetch_caller,
    fetch_definitions,
    fetch_job_documents,
    fetch_jobs,
    fetch_rows,
)
from batchq.cli.sweep import DEFAULT_REQUESTS, submit_sweep
from batchq.cli.tables import json_of
from batchq.domain.enums import FINISHED, Status
from batchq.errors import UsageError
from batchq.ports.responses.jobs import JobRow
from batchq.services.client_requests import (
    LeftOut,
    foreign_authors,
    has_one_container,
    repeat,
    select_failed,
    with_changes,
)
from batchq.services.sweep_requests import SweepMember
from batchq.system.escapes import escape

MAX_JOBS = 10_000  # jobs of one command
NOT_REPEATED = "batchq list shows which, and rerun submits the others"


def add_rerun(command: CommandParser) -> None:
    """Submit finished jobs again, each as a new job with the same definition and overrides, and print the new ids.

    Dependencies are not repeated. The tag batchq:rerun-of of a new job is the id of the old one. With --failed, of an
    array only its failed children are submitted, each as a job with its AWS_BATCH_JOB_ARRAY_INDEX; jobs that a user
    cancelled or terminated are left out, and jobs that were submitted again already. The words behind -- replace the
    command.

      batchq rerun 8f2c51a7 --memory 4g
      batchq rerun --failed 8f2c51a7 77ab01c9 --dry-run
      batchq rerun --failed -n 'fit-*' --since 1h --memory 4g
      batchq list -t FAILED --since 1h -o ids | batchq rerun -
    """
    command.takes_program = True
    command.epilog = EXIT_STATUSES
    add_selection_flags(command, own=True)
    add_reason_filter(command)
    command.add_argument("--failed", action="store_true", help="only jobs that FAILED; of an array its failed children")
    command.add_argument("--also-stopped", action="store_true", help="with --failed: also jobs that a user stopped")
    add_change_flags(command)
    command.add_argument("--new-queue", metavar="QUEUE", help="queue of the new jobs (that of the old ones)")
    command.add_argument("--dry-run", action="store_true", help="print the requests as JSON, and submit nothing")


def run_rerun(args: Namespace) -> int:
    if args.also_stopped and not args.failed:
        raise UsageError("--also-stopped needs --failed: without it all jobs that are given are submitted again")
    changed = _requested_changes(args)
    url = url_of(args)
    rows, left_out = _selected(url, args)
    if any(left_out):
        print_notice(f"{left_out}{'; --also-stopped includes stopped jobs' if left_out.stopped else ''}")
    if not rows:
        print_notice("nothing is submitted" if any(left_out) else "no job matches")
        return DONE
    requests = _requests(url, fetch_job_documents(url, [row.job_id for row in rows]), changed)
    if args.dry_run:
        for request in requests:
            write_line(dumps({"submitJob": request}))
        print_notice(f"dry run: {len(requests)} would be submitted again; nothing is submitted")
        return DONE
    members = [
        SweepMember(number=number, request=request, invocation=str(uuid4()))
        for number, request in enumerate(requests, start=1)
    ]
    return submit_sweep(url, members, at_once=DEFAULT_REQUESTS, advice=NOT_REPEATED)


def _requested_changes(args: Namespace) -> Request:
    """The members of the requests that the flags change. Raises UsageError."""
    queue = {"jobQueue": args.new_queue} if args.new_queue else {}
    return changes(args, command=args.program or ()) | queue


def _selected(url: str, args: Namespace) -> tuple[Sequence[JobRow], LeftOut]:
    """The finished jobs that the arguments name, and how many `--failed` leaves out.

    For `--failed` the failed children stand in place of their arrays.
    """
    rows, left_out = _named(url, args), LeftOut()
    if args.failed:
        rows, left_out = select_failed(
            {child.job_id: child for row in rows for child in _failed(url, row)}.values(),
            is_stopped=lambda row: row.stopped_by_user,
            is_repeated=lambda row: row.resubmitted_as is not None,
            also_stopped=args.also_stopped,
        )
    elif unfinished := [row for row in rows if row.status not in FINISHED]:
        first = unfinished[0]
        raise UsageError(escape(f"{first.job_name} {first.job_id} is {first.status}; only finished jobs are rerun"))
    if len(rows) > MAX_JOBS:
        raise UsageError(f"{len(rows)} jobs are selected; one command takes at most {MAX_JOBS}")
    return rows, left_out


def _named(url: str, args: Namespace) -> Sequence[JobRow]:
    """The jobs of the arguments, in their order, or those that the filters match. Raises UsageError, NotFound."""
    if not has_selection(args):
        raise UsageError("no jobs are selected: give a job or a filter, for example --failed --me --since 1h")
    filters = selection_of(args, url)
    if filters.keys() == {"jobs"} and not args.reasons:
        return fetch_rows(url, filters["jobs"])
    if "jobStatuses" not in filters:
        filters["jobStatuses"] = ["FAILED"] if args.failed else STATES["FINISHED"]
    return [job for job in fetch_all_jobs(url, filters, at_most=MAX_JOBS) if matches_reason(args, job)]


def _failed(url: str, row: JobRow) -> Sequence[JobRow]:
    """The job if it FAILED; of an array its failed children, which it has while others are unfinished."""
    if row.array_size is None:
        return [row] if row.status is Status.FAILED else []
    page = fetch_jobs(url, {"parentId": row.job_id, "jobStatuses": ["FAILED"]}, limit=MAX_JOBS + 1)
    return sorted(page.jobs, key=lambda child: child.array_index or 0)


def _requests(url: str, jobs: Sequence[Document], changed: Request) -> list[Request]:
    """The requests of the new jobs. Raises UsageError for a change that a job cannot have.

    A notice names the other users who wrote what the jobs run, where they may limit the new jobs.
    """
    if "containerOverrides" in changed and (others := [job for job in jobs if not has_one_container(job)]):
        raise UsageError(f"{others[0]['jobId']} has several containers, so command, environment and resources are kept")
    arns = sorted({job["jobDefinition"] for job in jobs})
    definitions = {definition["jobDefinitionArn"]: definition for definition in fetch_definitions(url, arns)}
    for sentence in foreign_authors(jobs, definitions.values(), caller=json_of(fetch_caller(url))):
        print_notice(sentence)
    return [with_changes(repeat(job, definitions.get(job["jobDefinition"], {})), changed) for job in jobs]
