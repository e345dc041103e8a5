"""Orders to stop many jobs, in SQL: each function is one transaction, as in `jobs`."""

import json
import sqlite3

from msgspec.json import Decoder

from batchq.domain.job import Status
from batchq.domain.names import JobId
from batchq.domain.spans import merged
from batchq.domain.sweep import WHOLE, Candidates, Meant, Progress, Selection, Sketch, Sweep, SweepOrder, Target
from batchq.store import jobs, rows, saving
from batchq.store.reading import readable
from batchq.store.selecting import HAS_CHILDREN, select
from batchq.store.statements import named
from batchq.values import Changes

SQL = named("sweeps.sql")

_ORDER = Decoder(SweepOrder)

EACH = {"ord": -1, "node": WHOLE}  # and whatever follows on it

Connection = sqlite3.Connection


def commit(connection: Connection, changes: Changes) -> None:
    """Whom an order means is decided last, so that it is by all else that is saved."""
    saving.commit(connection, changes)
    for progress in changes.progress:
        _go_on(connection, progress)
    for sweep, selection in changes.sweeps:
        _begin(connection, sweep, selection, dict(changes.candidates).get(sweep.number))


def _begin(connection: Connection, sweep: Sweep, selection: Selection, candidates: Candidates | None) -> None:
    """In the place of one of its number, if there is one that could not be read."""
    connection.execute(SQL["told"], {"sweep": sweep.number, **EACH})
    connection.execute(SQL["insert_sweep"], {"number": sweep.number, "value": rows.as_json(sweep.order)})
    if candidates is not None:  # of a job that has not changed since they were read, the read still holds
        unchanged = [it for it in candidates.places if it[0] not in candidates.changed]
        connection.execute(SQL["add_candidates"], {"sweep": sweep.number, "places": json.dumps(unchanged)})
    chosen, bound = select(selection, None if candidates is None else candidates.changed)
    statement = f"INSERT OR IGNORE INTO sweep_jobs (sweep, ord, node) SELECT ?, * FROM ({chosen})"  # noqa: S608 - text of `selecting` only
    connection.execute(statement, [sweep.number, *bound])


def _go_on(connection: Connection, progress: Progress) -> None:
    """Of an order that is over nothing stays: the next one may have its number."""
    asked = {"sweep": progress.sweep, "ord": progress.order, "node": _node(progress.node)}
    if progress.over:
        asked |= EACH
        connection.execute(SQL["drop_sweep"], {"sweep": progress.sweep})
    connection.execute(SQL["told"], asked)


def sweeps(connection: Connection) -> tuple[Sweep, ...]:
    """Of one that cannot be read nobody knows what to tell: whom it means goes on as if it had not been."""
    return tuple(readable(connection.execute(SQL["sweeps"]), _sweep))


def meant_orders(connection: Connection, sweep: int) -> tuple[tuple[int, int], ...]:
    return tuple(merged(connection.execute(SQL["meant_orders"], {"sweep": sweep})))


def next_meant(connection: Connection, sweep: int, limit: int) -> tuple[Meant, ...]:
    found = connection.execute(SQL["next_meant"], {"sweep": sweep, "limit": limit})
    return jobs.made(found, lambda row: Meant(job=rows.stored(row[1:]), node=_said(row[0])), order=1)


def candidates(connection: Connection, selection: Selection) -> tuple[Target, ...]:
    chosen, bound = select(selection)
    return tuple(sorted(set(connection.execute(chosen, bound))))


def preview(
    connection: Connection, selection: Selection, limit: int, after: tuple[int, int | None] | None
) -> tuple[Sketch, ...]:
    chosen, bound = select(selection)
    statement = SQL["preview"].format(chosen=chosen, has_children=HAS_CHILDREN)
    place = (-1, WHOLE) if after is None else (after[0], _node(after[1]))
    return tuple(
        Sketch(
            place=(order, _said(node)),
            job_id=JobId(job_id),
            name=name or "",
            status=Status(status),
            has_children=bool(has_children),
        )
        for order, node, job_id, name, status, has_children in connection.execute(statement, [*bound, *place, limit])
    )


def _sweep(number: int, value: str) -> Sweep:
    return Sweep(number=number, order=_ORDER.decode(value))


def _node(node: int | None) -> int:
    return WHOLE if node is None else node


def _said(node: int) -> int | None:
    return None if node == WHOLE else node
