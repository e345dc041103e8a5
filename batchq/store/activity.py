"""Buckets of activity in SQL. Each function runs inside one transaction. Decision 0105."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from sqlite3 import Connection
from typing import NamedTuple

from batchq.domain.access.accounts import ROOT, AccountName, UserName
from batchq.domain.activity import (
    FINE,
    KEPT,
    WAIT_BOUNDS,
    ActivityBucket,
    ActivityKey,
    ActivityLoad,
    ActivitySample,
    EndedAs,
    Ends,
    bucket_of,
)
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.ids import QueueName
from batchq.domain.times import EPOCH
from batchq.ports.activity import ActivityEvents, ActivityPage, ActivityQuery
from batchq.store import history, rows
from batchq.store.rows import json_texts
from batchq.store.statements import Row, execute_each, load_statements

MAX_KEYS = 200  # rows of a bucket; the jobs of further owners are added up by queue
MAX_ENTRIES = 5000  # of the history, that one page of events reads
MAX_DELETED = 24  # buckets that one transaction deletes

_LOADS = ActivityLoad.__struct_fields__
#: Of an environment, in which no job waits.
_PLACED = tuple(name for name in _LOADS if name != "waiting")
_ENDS: Mapping[EndedAs, str] = {outcome: outcome.lower() for outcome in EndedAs}
_WAITS = tuple(f"wait_{index}" for index in range(len(WAIT_BOUNDS) + 1))
_COLUMNS = (*_LOADS, *_ENDS.values(), *_WAITS)
_LISTS = {
    "columns": ", ".join(_COLUMNS),
    "values": ", ".join(f":{name}" for name in _COLUMNS),
    "sums": ", ".join(f"total({name})" for name in _COLUMNS),
    "placed": ", ".join(_PLACED),
    "placed_values": ", ".join(f":{name}" for name in _PLACED),
    "placed_added": ", ".join(f"{name} = {name} + excluded.{name}" for name in _PLACED),
    "added": ", ".join(f"{name} = {name} + excluded.{name}" for name in _COLUMNS),
    "range": f"CASE {' '.join(f'WHEN waited < {bound} THEN {at}' for at, bound in enumerate(WAIT_BOUNDS))} "
    f"ELSE {len(WAIT_BOUNDS)} END",
}
SQL = {name: sql.format(**_LISTS) for name, sql in load_statements("activity.sql").items()}
_SECOND = timedelta(seconds=1)


class _Bucket(NamedTuple):
    width: timedelta
    at: datetime


def activity_events(connection: Connection, after: int | None) -> ActivityPage:
    last = history.feed_ends(connection).last
    if after is None:
        (after,) = connection.execute(SQL["through"]).fetchone() or (0,)
    parameters = {"after": after, "scan": MAX_ENTRIES}
    (through,) = connection.execute(history.SQL["end_of_scan"], parameters).fetchone()
    if through is None:
        return ActivityPage(events=(), through=last, more=False)
    bounds = {"after": after, "through": through, "width": FINE // _SECOND}
    events = tuple(
        ActivityEvents(
            key=ActivityKey(QueueName(queue), AccountName(account), UserName(owner)),
            at=_time(began_at),
            outcome=None if outcome is None else EndedAs(outcome),
            wait=wait,
            count=count,
        )
        for queue, account, owner, began_at, outcome, wait, count in connection.execute(SQL["events"], bounds)
    )
    return ActivityPage(events=events, through=through, more=through < last)


def record(connection: Connection, sample: ActivitySample, events: Sequence[ActivityEvents], through: int) -> None:
    for width in KEPT:
        counts = _counts(sample, events, width)
        present = _Bucket(width, bucket_of(sample.at, width))
        touched = {present, *counts}
        execute_each(
            connection, SQL["add_samples"], [_sample_row(at, sample if at == present else None) for at in touched]
        )
        capacity = [
            _place(present)
            | {"environment": rows.text(name), "limit_millicpus": rows.integer(sample.environments.get(name, 0))}
            | {figure: rows.integer(int(getattr(load, figure))) for figure in _PLACED}
            for name in {**sample.environments, **sample.environment_loads}
            for load in [sample.environment_loads.get(name, ActivityLoad())]
        ]
        execute_each(connection, SQL["add_capacity"], capacity)
        for bucket, by_key in counts.items():
            execute_each(connection, SQL["add"], _rows(connection, bucket, by_key))
        _delete_outdated(connection, width, sample.at)
    connection.execute(SQL["put_through"], {"number": through})


def activity(connection: Connection, query: ActivityQuery) -> tuple[ActivityBucket, ...]:
    visibility = query.visibility
    parameters = {
        "width": query.width // _SECOND,
        "first": _seconds(query.first),
        "last": _seconds(query.last),
        "queues": json_texts(query.queues),
        "environments": json_texts(query.environments),
        "user": None if visibility is None else rows.text(visibility.user),
        "accounts": None if visibility is None else json_texts(visibility.accounts),
    }
    counted = {at: sums for at, *sums in connection.execute(SQL["activity"], parameters)}
    limits = dict(connection.execute(SQL["capacity"], parameters).fetchall())
    samples = connection.execute(SQL["samples"], parameters).fetchall()
    return tuple(
        ActivityBucket(
            at=_time(at),
            load=_average(sums, count) if count else None,
            capacity=_capacity(limits.get(at, 0.0), machine, machine_samples),
            ends=_ends(sums),
        )
        for at, count, machine_samples, *machine in samples
        for sums in [counted.get(at, [0.0] * len(_COLUMNS))]
    )


def environments(connection: Connection, query: ActivityQuery) -> Mapping[EnvironmentName, tuple[ActivityBucket, ...]]:
    parameters = {
        "width": query.width // _SECOND,
        "first": _seconds(query.first),
        "last": _seconds(query.last),
        "environments": json_texts(query.environments),
    }
    found: defaultdict[EnvironmentName, list[ActivityBucket]] = defaultdict(list)
    for name, at, samples, limit, *sums in connection.execute(SQL["environments"], parameters):
        load = ActivityLoad(**{figure: value / samples for figure, value in zip(_PLACED, sums, strict=True)})
        capacity = Resources(millicpus=round(limit / samples), memory_mib=0) if limit else None
        found[EnvironmentName(name)].append(ActivityBucket(at=_time(at), load=load, capacity=capacity, ends=Ends()))
    return {name: tuple(buckets) for name, buckets in found.items()}


def _counts(
    sample: ActivitySample, events: Iterable[ActivityEvents], width: timedelta
) -> Mapping[_Bucket, Mapping[ActivityKey, Counter[str]]]:
    """What is added to which row. An event after the sample belongs to the bucket of the sample."""
    counts: defaultdict[_Bucket, defaultdict[ActivityKey, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    present = _Bucket(width, bucket_of(sample.at, width))
    for key, load in sample.loads.items():
        counts[present][key].update({name: int(getattr(load, name)) for name in _LOADS})
    oldest = bucket_of(sample.at - KEPT[width], width)
    for event in events:
        at = bucket_of(min(event.at, sample.at), width)
        column = _WAITS[event.wait or 0] if event.outcome is None else _ENDS[event.outcome]
        if at > oldest:
            counts[_Bucket(width, at)][event.key][column] += event.count
    return counts


def _rows(connection: Connection, bucket: _Bucket, counts: Mapping[ActivityKey, Counter[str]]) -> list[Row]:
    """The rows to add. A key for which the bucket has no room is added up with the others of its queue."""
    stored = {tuple(row) for row in connection.execute(SQL["keys"], _place(bucket))}
    added: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for key in sorted(counts):
        texts = rows.text(key.queue), rows.text(key.account), rows.text(key.user)
        if texts not in stored and len(stored) >= MAX_KEYS:
            texts = texts[0], ROOT, ""
        stored.add(texts)
        added[texts] += counts[key]
    return [
        _place(bucket)
        | {"queue": queue, "account": account, "owner": owner}
        | {name: rows.integer(count[name]) for name in _COLUMNS}
        for (queue, account, owner), count in added.items()
    ]


def _sample_row(bucket: _Bucket, sample: ActivitySample | None) -> Row:
    """None: the bucket has rows, and gets no sample."""
    machines = None if sample is None else sample.machines
    return _place(bucket) | {
        "samples": int(sample is not None),
        "machine_samples": int(machines is not None),
        "millicpus": 0 if machines is None else rows.integer(machines.millicpus),
        "memory_mib": 0 if machines is None else rows.integer(machines.memory_mib),
        "gpus": 0 if machines is None else rows.integer(machines.gpus),
    }


def _delete_outdated(connection: Connection, width: timedelta, now: datetime) -> None:
    parameters = {
        "width": width // _SECOND,
        "before": _seconds(now - KEPT[width]),
        "now": _seconds(now),
        "limit": MAX_DELETED,
    }
    found = [_place(_Bucket(width, _time(at))) for (at,) in connection.execute(SQL["outdated"], parameters).fetchall()]
    for statement in ("delete_activity", "delete_capacity", "delete_samples"):
        execute_each(connection, SQL[statement], found)


def _average(sums: Sequence[float], samples: int) -> ActivityLoad:
    return ActivityLoad(**{name: value / samples for name, value in zip(_LOADS, sums, strict=False)})


def _ends(sums: Sequence[float]) -> Ends:
    counts = [int(value) for value in sums[len(_LOADS) :]]
    succeeded, failed, stopped = counts[: len(_ENDS)]
    waits = tuple(counts[len(_ENDS) :])
    return Ends(succeeded=succeeded, failed=failed, stopped=stopped, waits=waits if any(waits) else ())


def _capacity(millicpus: float, machine: Sequence[int], samples: int) -> Resources | None:
    """What the environments allow, and at most what the machines have; of memory and GPUs what the machines have."""
    if not samples:
        return None
    most, memory_mib, gpus = (round(amount / samples) for amount in machine)
    return Resources(millicpus=min(round(millicpus), most), memory_mib=memory_mib, gpus=gpus)


def _place(bucket: _Bucket) -> dict[str, str | int | None]:
    return {"width": bucket.width // _SECOND, "began_at": _seconds(bucket.at)}


def _seconds(at: datetime) -> int:
    return (at - EPOCH) // _SECOND


def _time(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
