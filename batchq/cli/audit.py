"""`batchq audit`: prints audit records, newest first, from a server or, with `--data`, from the files."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from batchq.accounts.wire import audit_record
from batchq.cli.admin_backend import add_json, check_backend_flags, print_result
from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.domain.access.audit import AuditQuery
from batchq.errors import Misused
from batchq.store.offline.inspection import read_audit

LIST_AUDIT = "/v1/batchq/listaudit"
PAGE_SIZE = 1000  # records of one response
EPOCH = datetime.fromtimestamp(0, UTC)

Record = dict[str, Any]


def add_audit(command: ArgumentParser) -> None:
    """Print the audit log, newest records first.

    Operators see all records, coordinators those of their accounts, users their own.
    """
    command.set_defaults(run=audit)
    command.add_argument(
        "--since", type=_milliseconds, metavar="TIME", help="start of the period: 2026-11-21, or 2026-11-21T18:30 (UTC)"
    )
    command.add_argument("--user", help="records of this user")
    command.add_argument("--operation", help="records of this operation, for example SubmitJob or CreateUser")
    command.add_argument("--job", help="records about this job, of all users")
    command.add_argument("--resource", help="records about another resource, for example job-queue/night or user/ada")
    command.add_argument("--limit", type=int, default=100, help="maximum number of records (100)")
    add_json(command)
    command.add_argument("--data", type=Path, help="read the files of this data directory, not a server")
    add_server_flags(command)


def audit(args: Namespace) -> int:
    if args.limit < 1:
        raise Misused("--limit must be at least 1")
    check_backend_flags(args)
    records = _records_of_server(args) if args.data is None else _records_of_files(args)
    return print_result(args, records, [_render(it) for it in records])


def _records_of_server(args: Namespace) -> list[Record]:
    filters = {name: it for name in ("since", "user", "operation", "job", "resource") if (it := getattr(args, name))}
    url, records, token = url_of(args), list[Record](), None
    while True:
        paging = {"maxResults": min(args.limit - len(records), PAGE_SIZE), **({"nextToken": token} if token else {})}
        page: Record = dict(call(url, LIST_AUDIT, filters | paging))
        records += page["records"]
        token = page.get("nextToken")
        if token is None or len(records) >= args.limit:
            return records


def _records_of_files(args: Namespace) -> list[Record]:
    query = AuditQuery(
        since=None if args.since is None else EPOCH + timedelta(milliseconds=args.since),
        user=args.user,
        operation=args.operation,
        resource=f"job/{args.job}" if args.job else args.resource,
        limit=args.limit,
    )
    return [to_builtins(audit_record(it.record)) for it in read_audit(args.data, query)]


def _render(record: Record) -> str:
    at = datetime.fromtimestamp(record["at"] / 1000, UTC)
    user, operation = f"{record['user']:12}", f"{record['operation']:22}"
    return f"{at:%Y-%m-%d %H:%M:%S}  {user}  {operation}  {record['resource']}  {record['outcome']}"


def _milliseconds(text: str) -> int:
    """Parse an ISO 8601 time, UTC without an offset, into milliseconds since the epoch."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time in ISO 8601 format") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
