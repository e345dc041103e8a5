"""Statements on the catalog's tables. Each function runs inside one transaction, in the connection's thread.

Functions named as methods of CatalogStore are documented there.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from sqlite3 import Connection

from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    JobDefinition,
    JobQueue,
    SchedulingPolicy,
)
from batchq.domain.ids import DefinitionRef
from batchq.domain.times import microseconds
from batchq.errors import Conflict, StoreRefused
from batchq.ports.catalog import CatalogResource, R
from batchq.store import rows
from batchq.store.lists import execute_for_visible, merge_sorted
from batchq.store.quarantine import skip_unreadable
from batchq.store.statements import load_statements

SQL = load_statements("catalog.sql")


#: The beginning of the resource in an audit record, by kind.
AUDIT_NAMES: Mapping[type[CatalogResource], str] = {
    ComputeEnvironment: "compute-environment",
    JobQueue: "job-queue",
    SchedulingPolicy: "scheduling-policy",
    ConsumableResource: "consumable-resource",
}


def resources(connection: Connection, kind: type[R]) -> tuple[R, ...]:
    """Raises StoreRefused for an unreadable resource: to skip it would silently change what jobs may do."""
    found = connection.execute(SQL["resources"], {"kind": kind.__name__})
    return tuple(_decode(kind, name, value) for name, value in found)


def _decode(kind: type[R], name: str, value: str) -> R:
    try:
        resource: R = rows.RESOURCES[kind].decode(value)
    except ValueError as why:
        raise StoreRefused(
            f"{kind.__name__} {name!r} in the table catalog_resources is unreadable: restore a backup, or delete that "
            "row and create it again"
        ) from why
    return resource


def put_resource(connection: Connection, resource: CatalogResource) -> None:
    connection.execute(SQL["put_resource"], rows.resource_row(resource))


def drop_resource(connection: Connection, kind: type[CatalogResource], name: str) -> None:
    connection.execute(SQL["delete_resource"], {"kind": kind.__name__, "name": rows.text(name)})
    if kind is ConsumableResource:
        connection.execute(SQL["delete_consumable_resource_updates"], {"name": rows.text(name)})


def update_consumable(
    connection: Connection, resource: ConsumableResource, update: ConsumableUpdate, *, forget_before: datetime | None
) -> None:
    put_resource(connection, resource)
    if forget_before is not None:
        connection.execute(SQL["delete_old_consumable_resource_updates"], {"before": microseconds(forget_before)})
    connection.execute(SQL["put_consumable_resource_update"], rows.consumable_update_row(resource.name, update))


def consumable_update(connection: Connection, name: str, token: str) -> ConsumableUpdate | None:
    parameters = {"resource": rows.text(name), "token": rows.text(token)}
    found = connection.execute(SQL["consumable_resource_update"], parameters)
    return next(skip_unreadable(found, rows.consumable_update_of_row), None)


def add_definition(connection: Connection, definition: JobDefinition) -> JobDefinition:
    (last,) = connection.execute(SQL["last_revision"], {"name": rows.text(definition.ref.name)}).fetchone()
    saved = replace(definition, ref=replace(definition.ref, revision=(last or 0) + 1))
    connection.execute(SQL["insert_job_definition"], rows.definition_row(saved))
    return saved


def put_definition(connection: Connection, definition: JobDefinition) -> None:
    if connection.execute(SQL["update_job_definition"], rows.definition_row(definition)).rowcount != 1:
        raise Conflict(f"job definition {definition.ref} does not exist any more")


def definition(connection: Connection, ref: DefinitionRef) -> JobDefinition | None:
    return _definition(
        connection, "job_definition", {"name": rows.text(ref.name), "revision": rows.integer(ref.revision)}
    )


def newest_active(connection: Connection, name: str) -> JobDefinition | None:
    return _definition(connection, "newest_active_revision", {"name": rows.text(name)})


def definition_owner(connection: Connection, name: str) -> Owner | None:
    found = connection.execute(SQL["owner_of_job_definition"], {"name": rows.text(name)}).fetchone()
    return None if found is None else rows.owner(*found)


def definitions(
    connection: Connection,
    *,
    name: str | None,
    status: str | None,
    limit: int,
    after: DefinitionRef | None,
    visibility: Visibility | None = None,
) -> tuple[JobDefinition, ...]:
    found = _definitions(connection, name=name, status=status, after=after, visibility=visibility)
    return tuple(islice(skip_unreadable(found, rows.DEFINITION.decode), limit))


def _definitions(
    connection: Connection,
    *,
    name: str | None,
    status: str | None,
    after: DefinitionRef | None,
    visibility: Visibility | None,
) -> Iterable[tuple[str]]:
    """The rows of a page. All revisions of a name have the same owner, so access to one name is checked once."""
    prefix = "job_definitions" if name is None else "revisions"
    statement = prefix if status is None else f"{prefix}_with_status"
    parameters = {
        "name": None if name is None else rows.text(name),
        "status": status,
        "after_name": "" if after is None else rows.text(after.name),
        "after_revision": _after(name, after),
    }
    if name is not None:
        owner = definition_owner(connection, name)
        is_visible = visibility is None or (owner is not None and visibility.has(owner))
        return connection.execute(SQL[statement], parameters) if is_visible else ()
    if visibility is None:
        return _values(connection, connection.execute(SQL[statement], parameters))
    listed = execute_for_visible(connection, SQL, "job_definitions", parameters, visibility)
    return _values(connection, merge_sorted(listed, key=lambda row: (row[0], -row[1])))


def _values(connection: Connection, listed: Iterable[tuple[str, int]]) -> Iterator[tuple[str]]:
    """The stored values of listed revisions, each read when it is used: SQLite sorts names and numbers alone."""
    for name, revision in listed:
        yield from connection.execute(SQL["job_definition"], {"name": name, "revision": revision})


def _after(name: str | None, after: DefinitionRef | None) -> int:
    """The revision below which the page begins.

    Names are sorted: with `name`, an `after` of an earlier name is before all its revisions, one of a later name is
    behind all of them.
    """
    if after is None:
        return rows.MAX_INTEGER
    if name is None or name == after.name:
        return rows.integer(after.revision)
    return rows.MAX_INTEGER if after.name < name else 0


def flag(connection: Connection, name: str) -> bool:
    return connection.execute(SQL["flag"], {"name": _flag(name)}).fetchone() is not None


def set_flag(connection: Connection, name: str) -> None:
    connection.execute(SQL["set_flag"], {"name": _flag(name), "value": ""})


def _definition(connection: Connection, statement: str, parameters: Mapping[str, str | int]) -> JobDefinition | None:
    return next(skip_unreadable(connection.execute(SQL[statement], parameters), rows.DEFINITION.decode), None)


def _flag(name: str) -> str:
    """The key of a flag in `metadata`, which also holds values under plain names."""
    return f"flag {name}"
