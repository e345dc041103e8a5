"""`batchq audit`: prints audit records, newest first, from a server or, with `--data`, from the files."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from batchq.cli.admin_backend import check_backend_flags
from batchq.cli.http_client import call, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job
from batchq.cli.quantities import parse_time
from batchq.cli.tables import Column, print_list, text_column, time_column
from batchq.domain.access.audit import AuditQuery
from batchq.domain.times import milliseconds
from batchq.errors import UsageError
from batchq.ports.responses.records import AuditRecordResponse, ListAuditResponse

LIST_AUDIT = "/v1/batchq/listaudit"
PAGE_SIZE = 1000  # records of one response
COLUMNS: tuple[Column[AuditRecordResponse], ...] = (
    time_column("TIME", lambda record: record.at),
    text_column("USER", lambda record: record.user),
    text_column("OPERATION", lambda record: record.operation),
    text_column("RESOURCE", lambda record: record.resource, elastic=True),
    text_column("OUTCOME", lambda record: record.outcome, elastic=True),
)


def add_audit(command: ArgumentParser) -> None:
    """Print the audit log, newest records first.

    Operators see all records, coordinators those of their accounts, users their own.

      batchq audit --since 2d --user cora
      batchq audit --job 8f2c51a7
    """
    text = "records after this time: 1h, 2d, or 2026-11-23T18:30"
    command.add_argument("--since", type=parse_time, metavar="TIME", help=text)
    command.add_argument("--user", help="records of this user")
    command.add_argument("--operation", help="records of this operation, for example SubmitJob or CreateUser")
    text = f"records about this {HELP_ONE}; with --data a complete id"
    command.add_argument("--job", help=text)
    command.add_argument("--resource", help="records about another resource, for example job-queue/night or user/ada")
    command.add_argument("--limit", type=int, default=100, help="maximum number of records (100)")
    command.add_argument("--data", type=Path, help="read the files of this data directory, not a server")


def run_audit(args: Namespace) -> None:
    if args.limit < 1:
        raise UsageError("--limit must be at least 1")
    check_backend_flags(args)
    records = _records_of_server(args) if args.data is None else _records_of_files(args)
    print_list(args, records, records, COLUMNS, empty="no record matches")


def _records_of_server(args: Namespace) -> list[AuditRecordResponse]:
    url, records, token = url_of(args), list[AuditRecordResponse](), None
    given = {
        "since": args.since and milliseconds(args.since),
        "user": args.user,
        "operation": args.operation,
        "job": args.job and resolve_job(url, args.job),
        "resource": args.resource,
    }
    filters = {name: value for name, value in given.items() if value}
    while True:
        paging = {"maxResults": min(args.limit - len(records), PAGE_SIZE), **({"nextToken": token} if token else {})}
        page = call(url, LIST_AUDIT, filters | paging, answer=ListAuditResponse)
        records += page.records
        token = page.next_token
        if token is None or len(records) >= args.limit:
            return records


def _records_of_files(args: Namespace) -> list[AuditRecordResponse]:
    from batchq.accounts.wire import audit_record_answer  # noqa: PLC0415 - a POSIX system only
    from batchq.store.inspection import read_audit  # noqa: PLC0415 - a POSIX system only

    query = AuditQuery(
        since=args.since,
        user=args.user,
        operation=args.operation,
        resource=f"job/{args.job}" if args.job else args.resource,
        limit=args.limit,
    )
    return [audit_record_answer(stored.record) for stored in read_audit(args.data, query)]
