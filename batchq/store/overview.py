"""Reads for the overview. Each reads a bounded number of rows. Methods of OverviewStore are documented there."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Visibility
from batchq.domain.ids import DefinitionRef, QueueName
from batchq.ports.overview import FailureGroup, Failures, WaitingQuery
from batchq.store import job_reads, rows
from batchq.store.search_conditions import json_texts
from batchq.store.statements import load_statements

SQL = load_statements("overview.sql")

MAX_EXAMINED = 20_000  # failures of all owners
MAX_FAILURES = 1000  # visible failures, whose rows are read

Connection = sqlite3.Connection


def failures(connection: Connection, since: datetime, visibility: Visibility | None) -> Failures:
    parameters: dict[str, str | int] = {"since": rows.microseconds(since), "limit": MAX_FAILURES + 1}
    if visibility is None:
        found = connection.execute(SQL["failures"], parameters).fetchall()
        more = len(found) > MAX_FAILURES
    else:
        bounds = {"user": rows.text(visibility.user), "accounts": json_texts(visibility.accounts)}
        parameters |= {**bounds, "examined": MAX_EXAMINED}
        found = connection.execute(SQL["visible_failures"], parameters).fetchall()
        beyond = connection.execute(SQL["failures_beyond"], {"since": parameters["since"], "examined": MAX_EXAMINED})
        more = len(found) > MAX_FAILURES or beyond.fetchone() is not None
    groups: Counter[tuple[str, int, str]] = Counter()
    for name, revision, status_reason, reason, exit_code in found[:MAX_FAILURES]:
        groups[name, revision, _reason(status_reason, reason, exit_code)] += 1
    return Failures(
        count=groups.total(),
        more=more,
        groups=tuple(
            FailureGroup(definition=DefinitionRef(name=name, revision=revision), reason=reason, count=count)
            for (name, revision, reason), count in groups.most_common()
        ),
    )


def oldest_visible_runnable(connection: Connection, queries: Collection[WaitingQuery]) -> Mapping[QueueName, datetime]:
    oldest: dict[QueueName, int] = {}
    for it in sorted(queries, key=str):
        statement = "first_of_account" if it.account is not None else "first_of_user"
        if it.account is None and it.user is None:
            statement = "first_of_queue"
        parameters = {"queue": rows.text(it.queue), "owner": rows.text(it.user or ""), "account": it.account}
        (order,) = connection.execute(SQL[statement], parameters).fetchone()
        if order is not None:
            oldest[it.queue] = min(order, oldest.get(it.queue, order))
    jobs = job_reads.jobs_with_orders(connection, sorted(oldest.values()))
    return {job.spec.queue: job.runnable_at for job in jobs if job.runnable_at is not None}


def _reason(status_reason: str | None, reason: str | None, exit_code: int | None) -> str:
    """The text by which failures are grouped: without the ids of other jobs."""
    if reason:
        return reason
    if status_reason == status_reasons.EXITED and exit_code is not None:
        return f"Exit code {exit_code}"
    text = status_reason or ""
    return status_reasons.DEPENDENCY_FAILED if text.startswith(status_reasons.DEPENDENCY_FAILED) else text
