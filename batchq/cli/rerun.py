"""`batchq rerun`: submits finished jobs again, with the same job definition and overrides, or with changes.

A request is made from the response of DescribeJobs and the revision of the job's definition.
"""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from json import dumps
from uuid import uuid4

from batchq.cli.http_client import add_server_flags, url_of
from batchq.cli.job_flags import Request, add_change_flags, changes
from batchq.cli.job_selection import add_search_flags, has_selection, matches_reason, search_filters
from batchq.cli.job_wait import Job, is_array
from batchq.cli.main import CommandParser
from batchq.cli.output import DONE, EXIT_STATUSES, print_notice, write_line
from batchq.cli.server_requests import (
    FINISHED,
    Content,
    fetch_caller,
    fetch_definitions,
    fetch_failed_children,
    fetch_job_documents,
    fetch_jobs,
    fetch_rows,
)
from batchq.cli.sweep import DEFAULT_REQUESTS, SweepMember, submit_sweep
from batchq.errors import Misused
from batchq.escapes import escape
from batchq.services.client_requests import foreign_authors, has_one_container, repeat, with_changes

MAX_JOBS = 10_000  # jobs of one command
NOT_REPEATED = "batchq list shows which, and rerun submits the others"


def add_rerun(command: CommandParser) -> None:
    """Submit finished jobs again, each as a new job with the same definition and overrides, and print the new ids.

    Dependencies are not repeated. The tag batchq:rerun-of of a new job is the id of the old one. With --failed, of an
    array only its failed children are submitted, each as a job with its AWS_BATCH_JOB_ARRAY_INDEX. The words behind --
    replace the command.

      batchq rerun 8f2c51a7 --memory 4g
      batchq rerun --failed 8f2c51a7 77ab01c9 --dry-run
      batchq rerun --failed -n 'fit-*' --since 1h --memory 4g
      batchq list -t FAILED --since 1h --ids | batchq rerun -
    """
    command.takes_program = True
    command.epilog = EXIT_STATUSES
    command.set_defaults(run=run_rerun)
    add_search_flags(command)
    command.add_argument("--failed", action="store_true", help="only jobs that FAILED; of an array its failed children")
    add_change_flags(command)
    command.add_argument("-q", "--new-queue", metavar="QUEUE", help="queue of the new jobs (that of the old ones)")
    command.add_argument("--dry-run", action="store_true", help="print the requests as JSON, and submit nothing")
    add_server_flags(command)


def run_rerun(args: Namespace) -> int:
    wanted = _requested_changes(args)
    url = url_of(args)
    jobs = _selected(url, args)
    if not jobs:
        print_notice("no job matches")
        return DONE
    requests = _requests(url, jobs, wanted)
    if args.dry_run:
        for request in requests:
            write_line(dumps({"submitJob": request}))
        print_notice(f"dry run: {len(requests)} would be submitted again; nothing is submitted")
        return DONE
    members = [
        SweepMember(number=number, request=it, invocation=str(uuid4())) for number, it in enumerate(requests, start=1)
    ]
    return submit_sweep(url, members, at_once=DEFAULT_REQUESTS, advice=NOT_REPEATED)


def _requested_changes(args: Namespace) -> Request:
    """The members of the requests that the flags change. Raises Misused."""
    queue = {"jobQueue": args.new_queue} if args.new_queue else {}
    return changes(args, command=args.program or ()) | queue


def _selected(url: str, args: Namespace) -> list[Job]:
    """The finished jobs that the arguments name, with the failed children in place of their arrays for `--failed`."""
    jobs = fetch_job_documents(url, _ids(url, args))
    if args.failed:
        jobs = [child for it in jobs for child in _failed(url, it)]
    elif unfinished := [it for it in jobs if it["status"] not in FINISHED]:
        first = unfinished[0]
        raise Misused(escape(f"{first['jobName']} {first['jobId']} is {first['status']}; only finished jobs are rerun"))
    if len(jobs) > MAX_JOBS:
        raise Misused(f"{len(jobs)} jobs are selected; one command takes at most {MAX_JOBS}")
    return jobs


def _ids(url: str, args: Namespace) -> list[str]:
    """The ids of the arguments, in their order, or of the jobs that the filters match. Raises Misused, NotFound."""
    if not has_selection(args):
        raise Misused("no jobs are selected: give a job or a filter, for example --failed --me --since 1h")
    filters = search_filters(args, url)
    if filters.keys() <= {"ids", "children"} and not args.reasons:
        return [str(it["jobId"]) for it in fetch_rows(url, filters.get("ids", ()))]
    if "statuses" not in filters:
        filters["statuses"] = ["FAILED"] if args.failed else list(FINISHED)
    page = fetch_jobs(url, filters, limit=MAX_JOBS)
    if "nextToken" in page:
        raise Misused(f"more than {MAX_JOBS} jobs match; use further filters")
    return [str(it["jobId"]) for it in page["jobs"] if matches_reason(args, it)]


def _failed(url: str, job: Job) -> Sequence[Job]:
    """The job if it FAILED; of an array its failed children, which it has while others are unfinished."""
    if not is_array(job):
        return [job] if job["status"] == "FAILED" else []
    return sorted(fetch_job_documents(url, fetch_failed_children(url, job["jobId"])), key=_index)


def _index(job: Job) -> int:
    index: int = job["arrayProperties"]["index"]
    return index


def _requests(url: str, jobs: Sequence[Job], wanted: Request) -> list[Request]:
    """The requests of the new jobs. Raises Misused for a change that a job cannot have.

    A notice names the other users who wrote what the jobs run, where they may limit the new jobs.
    """
    if "containerOverrides" in wanted and (others := [it for it in jobs if not has_one_container(it)]):
        raise Misused(f"{others[0]['jobId']} has several containers, so command, environment and resources are kept")
    definitions = _definitions(url, {it["jobDefinition"] for it in jobs})
    for sentence in foreign_authors(jobs, definitions.values(), caller=fetch_caller(url)):
        print_notice(sentence)
    return [with_changes(repeat(it, definitions.get(it["jobDefinition"], {})), wanted) for it in jobs]


def _definitions(url: str, arns: Iterable[str]) -> dict[str, Content]:
    return {it["jobDefinitionArn"]: it for it in fetch_definitions(url, sorted(arns))}
