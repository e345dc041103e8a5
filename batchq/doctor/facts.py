"""What has been looked up. Values only; whoever looks changes nothing by it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.ports.runtime import Inspection


class EngineFault(StrEnum):
    """Why an engine is of no use."""

    ABSENT = "ABSENT"
    FORBIDDEN = "FORBIDDEN"
    DEAF = "DEAF"
    SILENT = "SILENT"
    STRANGE = "STRANGE"


class DiskSpace(Struct, frozen=True, kw_only=True):
    """Bytes of a file system."""

    free: int
    size: int


class EngineTrouble(Struct, frozen=True, kw_only=True):
    """DEAF: nobody listens. SILENT: it took the call and did not answer. STRANGE: it answered, and not as an engine."""

    address: str
    kind: EngineFault
    words: str


class EngineFacts(Struct, frozen=True, kw_only=True):
    """`lacks` are the limits that it cannot set. `root` is None where its disk is not this machine's.

    `ahead` is by how many seconds its clock is ahead of this machine's, None where it does not tell its time.
    `containers` are those of the data's instance.
    """

    address: str
    #: The engine's own id, None where it has none that lasts.
    id: str | None = None
    version: str
    api: str
    cgroup: str
    live_restore: bool
    lacks: tuple[str, ...] = ()
    root: Path | None = None
    room: DiskSpace | None = None
    ahead: float | None = None
    containers: tuple[Inspection, ...] = ()


class FileFacts(Struct, frozen=True, kw_only=True):
    """`mode` are its permission bits."""

    path: Path
    mode: int
    wanted: int
    owner: int


class Records(Struct, frozen=True, kw_only=True):
    """What the database tells, whose schema is one we know.

    `fault` is why not all of it could be read; `aside` how much a server has put aside for that.
    `named` are those of the engine's containers' jobs that are known. `restored_at` is there until an operator resumes;
    `spared` are containers that he left alone.
    """

    instance: str
    #: The id of the engine that unfinished attempts are on.
    engine: str | None = None
    newest: datetime | None = None
    active: tuple[Job, ...] = ()
    named: Mapping[JobId, Job]
    restored_at: datetime | None = None
    spared: frozenset[Tag] = frozenset()
    fault: str | None = None
    aside: int = 0


class StoreFacts(Struct, frozen=True, kw_only=True):
    """A data directory. `held` is whether a server holds its lock, None where that cannot be told; `holder` its pid.

    `refusal` is why a server would not open it; `schema` None where there is none.
    """

    data: Path
    there: bool = False
    #: A copy of another directory: no server takes it before it was said that it may.
    copied: bool = False
    held: bool | None = False
    holder: int | None = None
    refusal: str | None = None
    schema: int | None = None
    newest_schema: int
    wal: int = 0
    room: DiskSpace | None = None
    files: tuple[FileFacts, ...] = ()
    records: Records | None = None


class ServerFacts(Struct, frozen=True, kw_only=True):
    """`health` is what /healthz says, None if nobody answers, and then `away` says how."""

    url: str
    health: Mapping[str, object] | None = None
    away: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """`engine` is None where containers are only simulated. `user` is the uid of whoever asks."""

    now: datetime
    user: int
    version: str
    floor: int
    engine: EngineFacts | EngineTrouble | None
    store: StoreFacts
    server: ServerFacts
