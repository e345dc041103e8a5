"""`batchq audit`: prints audit records, newest first, from a server or, with `--data`, from the files."""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from batchq.accounts.responses import act
from batchq.cli.admin_backend import show
from batchq.cli.http_client import add_url, call, url_of
from batchq.domain.access.audit import AuditQuery
from batchq.errors import Misused
from batchq.store.offline.audit import read_audit

PAGE = 1000  # records of one response
EPOCH = datetime.fromtimestamp(0, UTC)

Told = dict[str, Any]


def add(command: argparse.ArgumentParser) -> None:
    """Print the audit log, newest records first.

    Operators see all records, coordinators those of their accounts, users their own.
    """
    command.set_defaults(run=run)
    command.add_argument(
        "--since", type=_moment, metavar="TIME", help="start of the period: 2026-11-21, or 2026-11-21T18:30 (UTC)"
    )
    command.add_argument("--user", help="records of this user")
    command.add_argument("--operation", help="records of this operation, for example SubmitJob or CreateUser")
    command.add_argument("--job", help="records about this job, of all users")
    command.add_argument("--about", help="records about another resource, for example job-queue/night or user/ada")
    command.add_argument("--limit", type=int, default=100, help="maximum number of records (100)")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--data", type=Path, help="read the files of this data directory, not a server")
    add_url(command)


def run(asked: argparse.Namespace) -> int:
    if asked.limit < 1:
        raise Misused("--limit must be at least 1")
    if asked.data and asked.url:
        raise Misused("--data selects files, --url and --config a server: give only one of them")
    acts = _acts_of_server(asked) if asked.data is None else _acts_of_files(asked)
    return show(asked, acts, [_line(it) for it in acts])


def _acts_of_server(asked: argparse.Namespace) -> list[Told]:
    said = {name: it for name in ("since", "user", "operation", "job", "about") if (it := getattr(asked, name))}
    url, found, token = url_of(asked), list[Told](), None
    while True:
        wanted = {"maxResults": min(asked.limit - len(found), PAGE), **({"nextToken": token} if token else {})}
        page: Told = dict(call(url, "/v1/batchq/listaudit", said | wanted))
        found += page["acts"]
        token = page.get("nextToken")
        if token is None or len(found) >= asked.limit:
            return found


def _acts_of_files(asked: argparse.Namespace) -> list[Told]:
    query = AuditQuery(
        since=None if asked.since is None else EPOCH + timedelta(milliseconds=asked.since),
        user=asked.user,
        operation=asked.operation,
        about=f"job/{asked.job}" if asked.job else asked.about,
        limit=asked.limit,
    )
    return [dict(act(it.act)) for it in read_audit(asked.data, query)]


def _line(told: Told) -> str:
    at = datetime.fromtimestamp(told["at"] / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}  {told['user']:12}  {told['operation']:22}  {told['about']}  {told['outcome']}"


def _moment(text: str) -> int:
    """Parse an ISO 8601 time, UTC without an offset, into milliseconds since the epoch."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in ISO 8601 format") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
