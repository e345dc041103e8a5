"""The audit log in SQL. Each function runs inside one transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from sqlite3 import Connection
from typing import TypeVar

from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.access.audit import AuditQuery, AuditRecord, PendingAudit, StoredAudit
from batchq.domain.times import from_microseconds, microseconds
from batchq.store import rows
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("audit.sql")
TEXTS = tuple(name for name in AuditRecord.__struct_fields__ if name != "at")

_texts = attrgetter(*TEXTS)

_COLUMNS = "number, at, user, account, key, request_id, operation, resource, outcome, owner, owner_account"

T = TypeVar("T")
Values = list[str | int]


def insert_records(connection: Connection, records: Sequence[AuditRecord]) -> None:
    execute_each(connection, SQL["insert_record"], map(_row, records))


def insert_with(connection: Connection, record: AuditRecord, work: Callable[[Connection], T]) -> T:
    """Run `work`, then insert its audit record, in the same transaction."""
    done = work(connection)
    insert_records(connection, [record])
    return done


def ingest(connection: Connection, noted: Sequence[PendingAudit]) -> None:
    execute_each(
        connection,
        SQL["insert_record"],
        [_row(audit.record, journal_entry=rows.text(audit.entry_id)) for audit in noted],
    )


def delete_old(connection: Connection, before: datetime, *, limit: int) -> int:
    return connection.execute(SQL["delete_old_records"], {"before": microseconds(before), "limit": limit}).rowcount


def newest_records(connection: Connection, query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The newest matching records. Each part of the caller's visibility is read by an index, then they are merged."""
    directions = (False,) if query.visibility is None else (False, True)
    statements = (select_records(part, by_owner=by_owner) for part in _parts(query) for by_owner in directions)
    found = {row[0]: row for statement in statements for row in connection.execute(*statement)}
    newest = sorted(found.values(), key=lambda row: (row[1], row[0]), reverse=True)
    return tuple(_stored_audit(*row) for row in newest[: query.limit])


def select_records(query: AuditQuery, *, by_owner: bool = False) -> tuple[str, Values]:
    """The statement for one part of the visibility, and its parameters.

    `query.visibility` names at most one user or one account. `by_owner`: select the records about jobs of this user or
    account, instead of the records of their own requests.
    """
    named = {"user": query.user, "operation": query.operation, "resource": query.resource}
    conditions: list[tuple[str, Values]] = [
        (f"{column} = ?", [rows.text(value)]) for column, value in named.items() if value is not None
    ]
    if query.visibility is not None:
        accounts: Values = [rows.text(name) for name in query.visibility.accounts]
        user, account = ("owner", "owner_account") if by_owner else ("user", "account")
        column, value = (account, accounts) if accounts else (user, Values([rows.text(query.visibility.user)]))
        conditions.append((f"{column} = ? AND {column} <> ''" if by_owner else f"{column} = ?", value))
    if query.since is not None:
        conditions.append(("at >= ?", [microseconds(query.since)]))
    if query.before is not None:
        at, number = query.before
        conditions.append(("(at, number) < (?, ?)", [microseconds(at), rows.integer(number)]))
    where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
    parameters: Values = [value for _, values in conditions for value in values]
    statement = f"SELECT {_COLUMNS} FROM audit_log WHERE {where} ORDER BY at DESC, number DESC LIMIT ?"  # noqa: S608 - constant text
    return statement, [*parameters, query.limit]


def _parts(query: AuditQuery) -> Iterator[AuditQuery]:
    yield query if query.visibility is None else replace(query, visibility=Visibility(user=query.visibility.user))
    for account in () if query.visibility is None else sorted(query.visibility.accounts):
        yield replace(query, visibility=Visibility(user=UserName(""), accounts=frozenset({account})))


def _row(record: AuditRecord, journal_entry: str | None = None) -> Row:
    texts: Iterable[str] = _texts(record)
    if not "".join(texts).isascii():
        texts = map(rows.text, texts)
    return {"at": microseconds(record.at), "journal_entry": journal_entry, **dict(zip(TEXTS, texts, strict=True))}


def _stored_audit(number: int, at: int, user: str, account: str, *texts: str) -> StoredAudit:
    key, request_id, operation, resource, outcome, owner, owner_account = texts
    record = AuditRecord(
        at=from_microseconds(at),
        user=UserName(user),
        account=AccountName(account),
        key=key,
        request_id=request_id,
        operation=operation,
        resource=resource,
        outcome=outcome,
        owner=UserName(owner),
        owner_account=AccountName(owner_account),
    )
    return StoredAudit(number=number, record=record)
