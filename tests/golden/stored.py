"""The shapes of the database and of the files of a data directory, and examples made by the product's code."""

import asyncio
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from batchq.accounts.files import AccessKey, AccessKeyFile, AccountsFile
from batchq.audit import Journal
from batchq.domain.access.accounts import Directory
from batchq.domain.access.audit import AuditRecord, PendingAudit
from batchq.domain.budgets import Budget
from batchq.domain.bulk_stop import BulkStop
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    JobDefinition,
    JobQueue,
    SchedulingPolicy,
)
from batchq.domain.groups import Group
from batchq.domain.ids import QueueName
from batchq.domain.job import ConsumableRequirement, Job, JobSpec
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.task import NodeRun
from batchq.domain.webhooks import DeliveryProgress, Webhook
from batchq.ports.clock import ClockAnchor
from batchq.ports.history import HistoryEntry
from batchq.ports.jobs import Restoration, SurveyRecord
from batchq.ports.logs import LogLine, LogStream
from batchq.store import bulk_stops, costs, rows, statements, webhooks
from batchq.store.lock import locked_data
from batchq.store.log_files import LogFiles
from tests.golden.shapes import example, shape


class Stored(Struct, frozen=True, kw_only=True):
    """A value that is stored as JSON."""

    of: Any
    #: The product's code that writes the value, and that which reads it.
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    #: The member that stands in a column of its own.
    without: str | None = None


JOB: Job = replace(example(Job), version=7)
MOMENT: HistoryEntry = example(HistoryEntry)
STREAM: LogStream = example(LogStream)

VALUES: Mapping[str, Stored] = {
    "job": Stored(
        of=Job,
        write=lambda job: str(rows.state_row(job, version=job.version)["state"]),
        read=lambda text: rows.job(text, rows.as_json(JOB.spec)),
        without="spec",
    ),
    "job_spec": Stored(of=JobSpec, write=rows.as_json, read=rows.spec),
    "consumable_requirements": Stored(of=tuple[ConsumableRequirement, ...], write=rows.as_json, read=rows.needs),
    "node_runs": Stored(of=tuple[NodeRun, ...], write=rows.as_json, read=rows.node_runs),
    "job_history": Stored(
        of=HistoryEntry,
        write=rows.moment_value,
        read=lambda text: rows.history_entry_of_row(MOMENT.job_id, text),
        without="job_id",
    ),
    "log_stream": Stored(
        of=LogStream,
        write=lambda value: str(rows.stream_row(value)["value"]),
        read=lambda text: rows.log_stream_of_row(STREAM.name, text),
        without="name",
    ),
    "share_usage": Stored(
        of=ShareUse,
        write=lambda value: str(rows.share_usage_row(ShareKey(QueueName("a"), "b"), value)["value"]),
        read=lambda text: rows.share_usage("a", "b", text)[1],
    ),
    "group": Stored(of=Group, write=rows.as_json, read=rows.GROUP.decode),
    "bulk_stop": Stored(of=BulkStop, write=rows.as_json, read=bulk_stops.BULK_STOP.decode),
    "compute_environment": Stored(
        of=ComputeEnvironment, write=rows.as_json, read=rows.RESOURCES[ComputeEnvironment].decode
    ),
    "job_queue": Stored(of=JobQueue, write=rows.as_json, read=rows.RESOURCES[JobQueue].decode),
    "job_definition": Stored(of=JobDefinition, write=rows.as_json, read=rows.DEFINITION.decode),
    "scheduling_policy": Stored(of=SchedulingPolicy, write=rows.as_json, read=rows.RESOURCES[SchedulingPolicy].decode),
    "consumable_resource": Stored(
        of=ConsumableResource, write=rows.as_json, read=rows.RESOURCES[ConsumableResource].decode
    ),
    "consumable_resource_update": Stored(of=ConsumableUpdate, write=rows.as_json, read=rows.CONSUMABLE_UPDATE.decode),
    "budget": Stored(of=Budget, write=rows.as_json, read=costs.BUDGET.decode),
    "webhook": Stored(of=Webhook, write=rows.as_json, read=webhooks.WEBHOOK.decode),
    "delivery_progress": Stored(of=DeliveryProgress, write=rows.as_json, read=webhooks.DELIVERY_PROGRESS.decode),
    "restoration": Stored(of=Restoration, write=rows.as_json, read=rows.RESTORATION.decode),
    "survey": Stored(of=SurveyRecord, write=rows.as_json, read=rows.SURVEY_RECORD.decode),
    "clock_anchor": Stored(of=ClockAnchor, write=rows.as_json, read=rows.CLOCK_ANCHOR.decode),
}
LOG_ID = "0123456789abcdef0123456789abcdef"
FILES: Mapping[str, Any] = {"accounts.json": Directory, "keys.json": tuple[AccessKey, ...], "audit.log": PendingAudit}


def files() -> dict[str, str]:
    """Every golden file by its name."""
    found = {"database/schema.sql": schema()}
    for name, stored in VALUES.items():
        found[f"database/{name}.shape.txt"] = shape(stored.of, without=stored.without)
        found[f"database/{name}.json"] = pretty(stored.write(example_of(name)))
    for name, of in FILES.items():
        found[f"data_directory/{name}.shape.txt"] = shape(of)
    with tempfile.TemporaryDirectory() as folder:
        found |= {f"data_directory/{name}": text for name, text in _written(Path(folder)).items()}
    return found


def example_of(name: str) -> Any:
    return JOB if name == "job" else example(VALUES[name].of)


def schema() -> str:
    """The schema as SQLite stores it, without comments: each table with its indexes."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        statements.migrate(connection, statements.MIGRATIONS)
        found = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type = 'index', name"
        ).fetchall()
        version, application = statements.schema_version(connection), statements.application_id(connection)
    tables = [_without_comments(sql) for (sql,) in found]
    return "\n".join([f"application_id = {application:#x}", f"user_version = {version}", "", *tables]) + "\n"


def pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def _without_comments(sql: str) -> str:
    return re.sub(r" *--[^\n]*", "", sql) + ";"


def _written(data: Path) -> dict[str, str]:
    """The files that the product writes beside its database. What differs from run to run is masked."""
    AccountsFile(data).change(lambda _: example(Directory))
    AccessKeyFile(data).add(example(AccessKey))
    Journal(data).append(example(AuditRecord))
    with locked_data(data) as lock:
        lock.write("0123abcd", "a-seal", "http://127.0.0.1:8080")
    found = {path.name: text for path in sorted(data.iterdir()) if (text := path.read_text())}
    inode = str((data / "batchq.lock").stat().st_ino)
    found["batchq.lock"] = found["batchq.lock"].replace(inode, "INODE")
    found["audit.log"] = re.sub(r'"entry_id":"[0-9a-f]{32}"', '"entry_id":"32 HEXADECIMAL DIGITS"', found["audit.log"])
    logs = data / "logs"
    logs.mkdir()
    asyncio.run(_write_log(logs))
    return found | {f"logs/{path.relative_to(logs)}": path.read_text() for path in logs.rglob("*.log")}


async def _write_log(folder: Path) -> None:
    """Two lines, of which the engine stamped the second one earlier than the first."""
    archive = LogFiles(folder)
    lines = [LogLine(at=2_000_000_000, message="first"), LogLine(at=1_000_000_000, message='a "quoted" \u00e9')]
    await archive.append(LOG_ID, lines)
    archive.close()
