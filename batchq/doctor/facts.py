"""The values of the doctor: the facts about an installation, and the findings made from them.

Facts are collected read-only, by the store, the container runtime and the CLI.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.ports.runtime import Inspection


class RuntimeFault(StrEnum):
    """Why a container engine cannot be used."""

    #: The address does not exist.
    ABSENT = "ABSENT"
    #: This user has no permission.
    FORBIDDEN = "FORBIDDEN"
    #: No process listens at the address.
    NOT_LISTENING = "NOT_LISTENING"
    #: The connection was accepted, but the call was not answered.
    NOT_RESPONDING = "NOT_RESPONDING"
    #: The answer is not that of a container engine.
    NOT_AN_ENGINE = "NOT_AN_ENGINE"
    #: The settings do not lead to a container engine: a kubeconfig that cannot be used.
    NOT_CONFIGURED = "NOT_CONFIGURED"


class DiskSpace(Struct, frozen=True, kw_only=True):
    """The space of a file system."""

    #: Bytes that a user who is not root may still write.
    free: int
    #: Bytes.
    size: int


class UnavailableRuntime(Struct, frozen=True, kw_only=True):
    """A container engine that cannot be used."""

    address: str
    fault: RuntimeFault
    #: The text of the error.
    error: str


class RuntimeFacts(Struct, frozen=True, kw_only=True):
    """A container engine that answers."""

    address: str
    #: Whether the container engine is Podman, and not Docker.
    is_podman: bool = False
    #: Whether the container engine runs as a user without root.
    is_rootless: bool = False
    #: The OCI runtime of containers whose compute environment names none. Empty: the container engine does not report
    #: its default.
    default_runtime: str = ""
    #: The OCI runtimes that a container can use.
    runtimes: tuple[str, ...] = ()
    #: The OCI runtimes that `--container-runtime` and the tags of compute environments select.
    selected_runtimes: frozenset[str] = frozenset()
    #: The container engine's id; None if it has no permanent id.
    id: str | None = None
    version: str
    #: The version of its API.
    api: str
    #: The version of its cgroups; None: unknown.
    cgroup: str | None
    live_restore: bool
    #: The resource limits that it cannot enforce.
    missing_limits: tuple[str, ...] = ()
    #: Its data directory; None if it is not on this machine.
    data_root: Path | None = None
    disk: DiskSpace | None = None
    #: How many seconds its clock is ahead of this machine's clock; None if it does not report its time.
    clock_offset: float | None = None
    #: The containers of the data directory's instance.
    containers: tuple[Inspection, ...] = ()


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """A Kubernetes cluster that answers."""

    address: str
    #: The version of the API server, as `1.36`.
    version: str
    is_supported: bool
    #: The oldest supported version.
    oldest_version: str
    #: The namespace of the jobs.
    namespace: str
    #: The uid of the namespace; None if it cannot be read.
    id: str | None
    #: Why the namespace cannot be read; empty if it can.
    namespace_error: str = ""
    #: The rights that batchq uses and does not have: verb, resource, and namespace, which is empty for the cluster.
    denied: tuple[tuple[str, str, str], ...] = ()
    #: The number of nodes.
    nodes: int
    #: The nodes that take no jobs, each with its reason in brackets.
    unusable_nodes: tuple[str, ...] = ()
    #: How many seconds its clock is ahead of this machine's clock; None if it does not report its time.
    clock_offset: float | None = None


EngineFacts = RuntimeFacts | ClusterFacts | UnavailableRuntime


class FileFacts(Struct, frozen=True, kw_only=True):
    """A file or directory of the data directory."""

    path: Path
    #: Its permission bits.
    mode: int
    #: The permission bits that it should have at most.
    allowed_mode: int
    #: The uid of its owner.
    owner_uid: int


class DatabaseFacts(Struct, frozen=True, kw_only=True):
    """The contents of a database with the newest schema."""

    instance: str
    #: The id of the container engine that unfinished attempts run on.
    engine_id: str | None = None
    #: When the newest job was created; None without jobs.
    newest_created_at: datetime | None = None
    #: The jobs that are STARTING or RUNNING.
    active: tuple[Job, ...] = ()
    #: The known jobs of the container engine's containers.
    container_jobs: Mapping[JobId, Job]
    #: The time of the last restore, until an operator ends safe mode; None outside safe mode.
    restored_at: datetime | None = None
    #: Containers without a known job that the operator left alone.
    spared: frozenset[Tag] = frozenset()
    #: The OCI runtimes that the tags of compute environments select.
    selected_runtimes: frozenset[str] = frozenset()
    #: Why the database could not be read completely; None if it was.
    read_error: str | None = None
    #: How many unreadable values a server has moved to the quarantine.
    quarantined: int = 0


class StoreFacts(Struct, frozen=True, kw_only=True):
    """A data directory."""

    data: Path
    #: Whether the directory contains data.
    exists: bool = False
    #: Whether it is a copy of another directory, which a server refuses until `restore --take-over`.
    copied: bool = False
    #: Whether a server holds its lock; None if this cannot be determined.
    locked: bool | None = False
    #: The pid of that server; None if it is not known.
    holder_pid: int | None = None
    #: Why a server would refuse to open it; None if it would not.
    refusal: str | None = None
    #: The version of its schema; None if the database could not be read.
    schema: int | None = None
    #: The version of the schema that this batchq writes.
    newest_schema: int
    #: The size of the write-ahead log, in bytes.
    wal_bytes: int = 0
    disk: DiskSpace | None = None
    files: tuple[FileFacts, ...] = ()
    #: None unless the schema is the newest.
    database: DatabaseFacts | None = None


class ServerFacts(Struct, frozen=True, kw_only=True):
    """The server, as it responds at its URL."""

    url: str
    #: The response of /healthz; None if there was none.
    health: Mapping[str, object] | None = None
    #: Why there was no response; empty if there was one.
    error: str = ""


class SocketFacts(Struct, frozen=True, kw_only=True):
    """The file of a server's unix socket."""

    path: Path
    #: The names of its owner and of its group, or their numbers.
    owner: str
    group: str
    #: Its permissions, as 0o660.
    mode: int
    #: Whether the user who runs the command may connect.
    admits_caller: bool
    #: Why other users could replace it; empty if they cannot.
    unsafe: str = ""


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """The directory of the checkpoint directories of all jobs (`--checkpoints`)."""

    path: Path
    #: The permission bits.
    mode: int
    #: None if the file system cannot be read.
    disk: DiskSpace | None


class Facts(Struct, frozen=True, kw_only=True):
    """All facts about an installation."""

    now: datetime
    #: The uid of the user who runs the command.
    uid: int
    #: The version of the command.
    version: str
    #: The bytes of disk space that must stay free (`--min-free-mib`).
    min_free_bytes: int
    #: The examined container engines; empty if containers are only simulated.
    engines: tuple[EngineFacts, ...]
    store: StoreFacts
    #: None if no job with checkpoints has started yet.
    checkpoints: CheckpointFacts | None = None
    server: ServerFacts
    #: None without a socket in the URL or the settings, and if it does not exist.
    socket: SocketFacts | None = None


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: May become a problem.
    WARNING = "warning"
    #: Keeps jobs from running, or puts data at risk.
    PROBLEM = "problem"


class Finding(Struct, frozen=True, kw_only=True):
    """One result of the diagnosis."""

    level: Level
    #: The component, such as `engine` or `store`.
    component: str
    #: What was found.
    message: str
    #: What to do about it, in whole sentences; empty if there is nothing to do.
    advice: str = ""


Findings = Iterator[Finding]


def ok(component: str, message: str) -> Finding:
    return Finding(level=Level.OK, component=component, message=message)


def warning(component: str, message: str, advice: str) -> Finding:
    return Finding(level=Level.WARNING, component=component, message=message, advice=advice)


def problem(component: str, message: str, advice: str) -> Finding:
    return Finding(level=Level.PROBLEM, component=component, message=message, advice=advice)
