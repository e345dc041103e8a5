"""Groups of jobs in SQL. Each function runs inside one transaction. The ports document them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from sqlite3 import Connection

from batchq.domain.groups import Group
from batchq.domain.ids import GroupId
from batchq.domain.job import Job
from batchq.domain.times import microseconds
from batchq.ports.groups import MAX_QUEUED, GroupQuery
from batchq.store import job_reads, rows
from batchq.store.quarantine import skip_unreadable
from batchq.store.statements import execute_each, load_statements

#: The conditions of a list of groups: they are visible to the caller, in one of the queues, and have a job in a range.
_SELECTED = """
AND (:user IS NULL OR owner = :user OR account IN (SELECT value FROM json_each(:accounts) AS named))
AND (
    :queues IS NULL
    OR EXISTS (
        SELECT 1 FROM (
            SELECT own.queue FROM jobs AS own INDEXED BY jobs_by_group
            WHERE own.group_id = job_groups.id ORDER BY own.sequence LIMIT :most
        ) AS page WHERE page.queue IN (SELECT value FROM json_each(:queues) AS named)
    )
)
AND (
    :member_after IS NULL
    OR EXISTS (
        SELECT 1 FROM jobs AS own INDEXED BY jobs_by_group
        WHERE own.group_id = job_groups.id AND own.sequence > :member_after AND own.sequence < :before
    )
)
"""
SQL = {name: sql.format(selected=_SELECTED) for name, sql in load_statements("groups.sql").items()}


def write_groups(connection: Connection, groups: Iterable[Group]) -> None:
    """Insert or replace the rows of groups."""
    execute_each(connection, SQL["put_group"], [rows.group_row(group) for group in groups])


def find_groups(connection: Connection, ids: Collection[GroupId]) -> Mapping[GroupId, Group]:
    found = connection.execute(SQL["groups_by_id"], {"ids": rows.json_texts(ids)})
    return {group.terms.id: group for group in skip_unreadable(found, rows.GROUP.decode)}


def newest_groups(connection: Connection, query: GroupQuery) -> Sequence[Group]:
    seen = query.visibility
    parameters = {
        "before": rows.MAX_INTEGER if query.before is None else query.before,
        "since": None if query.since is None else microseconds(query.since),
        "user": None if seen is None else rows.text(seen.user),
        "accounts": None if seen is None else rows.json_texts(seen.accounts),
        "queues": rows.json_texts(query.queues) if query.queues else None,
        "member_after": query.member_after,
        "most": MAX_QUEUED,
        "limit": query.limit,
    }
    if query.name is None:
        found = connection.execute(SQL["newest_groups"], parameters)
    else:
        named = {"name": rows.text(query.name.lower())}
        found = connection.execute(SQL["newest_groups_with_name"], parameters | named)
    return tuple(skip_unreadable(found, rows.GROUP.decode))


def waiting_members(connection: Connection, group: GroupId, limit: int) -> tuple[Job, ...]:
    found = connection.execute(SQL["waiting_members"], {"id": rows.text(group), "limit": limit})
    return job_reads.decode_jobs(found)


def delete_empty_groups(connection: Connection, ids: Iterable[str]) -> None:
    """Delete those of these groups that have no job any more."""
    connection.executemany(SQL["delete_empty_group"], [{"id": group_id} for group_id in ids])
