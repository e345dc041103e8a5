"""The facts that findings are made from. Values only; collecting them is read-only."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.ports.runtime import Inspection


class EngineFault(StrEnum):
    """Why a container engine cannot be used."""

    #: The address does not exist.
    ABSENT = "ABSENT"
    #: This user has no permission.
    FORBIDDEN = "FORBIDDEN"
    #: No process listens at the address.
    DEAF = "DEAF"
    #: The connection was accepted, but the call was not answered.
    SILENT = "SILENT"
    #: The answer is not that of a container engine.
    STRANGE = "STRANGE"


class DiskSpace(Struct, frozen=True, kw_only=True):
    """The space of a file system."""

    #: Bytes that a user who is not root may still write.
    free: int
    #: Bytes.
    size: int


class EngineTrouble(Struct, frozen=True, kw_only=True):
    """A container engine that cannot be used."""

    address: str
    kind: EngineFault
    #: The text of the error.
    words: str


class EngineFacts(Struct, frozen=True, kw_only=True):
    """A container engine that answers."""

    address: str
    #: The engine's id; None if it has no permanent id.
    id: str | None = None
    version: str
    #: The version of its API.
    api: str
    #: The version of its cgroups.
    cgroup: str
    live_restore: bool
    #: The resource limits that it cannot enforce.
    lacks: tuple[str, ...] = ()
    #: Its data directory; None if it is not on this machine.
    root: Path | None = None
    room: DiskSpace | None = None
    #: How many seconds its clock is ahead of this machine's clock; None if it does not report its time.
    ahead: float | None = None
    #: The containers of the data directory's instance.
    containers: tuple[Inspection, ...] = ()


class FileFacts(Struct, frozen=True, kw_only=True):
    """A file or directory of the data directory."""

    path: Path
    #: Its permission bits.
    mode: int
    #: The permission bits that it should have at most.
    wanted: int
    #: The uid of its owner.
    owner: int


class Records(Struct, frozen=True, kw_only=True):
    """The contents of a database with the newest schema."""

    instance: str
    #: The id of the engine that unfinished attempts run on.
    engine: str | None = None
    #: When the newest job was created; None without jobs.
    newest: datetime | None = None
    #: The jobs that are STARTING or RUNNING.
    active: tuple[Job, ...] = ()
    #: The known jobs of the engine's containers.
    named: Mapping[JobId, Job]
    #: The time of the last restore, until an operator ends safe mode; None outside safe mode.
    restored_at: datetime | None = None
    #: Containers without a known job that the operator left alone.
    spared: frozenset[Tag] = frozenset()
    #: Why the database could not be read completely; None if it was.
    fault: str | None = None
    #: How many unreadable values a server has moved to the quarantine.
    aside: int = 0


class StoreFacts(Struct, frozen=True, kw_only=True):
    """A data directory."""

    data: Path
    #: Whether the directory contains data.
    there: bool = False
    #: Whether it is a copy of another directory, which a server refuses until `restore --take-over`.
    copied: bool = False
    #: Whether a server holds its lock; None if this cannot be determined.
    held: bool | None = False
    #: The pid of that server; None if it is not known.
    holder: int | None = None
    #: Why a server would refuse to open it; None if it would not.
    refusal: str | None = None
    #: The version of its schema; None if the database could not be read.
    schema: int | None = None
    #: The version of the schema that this batchq writes.
    newest_schema: int
    #: The size of the write-ahead log, in bytes.
    wal: int = 0
    room: DiskSpace | None = None
    files: tuple[FileFacts, ...] = ()
    #: None unless the schema is the newest.
    records: Records | None = None


class ServerFacts(Struct, frozen=True, kw_only=True):
    """The server, as it responds at its URL."""

    url: str
    #: The response of /healthz; None if there was none.
    health: Mapping[str, object] | None = None
    #: Why there was no response; empty if there was one.
    away: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """All facts about an installation."""

    now: datetime
    #: The uid of the user who runs the command.
    user: int
    #: The version of the command.
    version: str
    #: The bytes of disk space that must stay free (`--min-free-mib`).
    floor: int
    #: None if containers are only simulated.
    engine: EngineFacts | EngineTrouble | None
    store: StoreFacts
    server: ServerFacts
