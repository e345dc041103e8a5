"""What the containers of this server may use of its machine."""

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from batchq.settings import MissingHostPaths, Privileged


class ServerPolicy(Struct, frozen=True, kw_only=True):
    """What the containers of this server may use of its machine, whatever their accounts permit."""

    #: How privileged containers and host devices are handled.
    privileged: Privileged
    #: Host paths that a container may mount, with all paths below them.
    volumes: tuple[Path, ...]
    #: Host paths that are never mounted, with all that contains them or lies below them.
    private: tuple[Path, ...] = ()
    missing_host_paths: MissingHostPaths = MissingHostPaths.REFUSE
    #: Returns the host paths that accounts may mount, whose contents their jobs can change.
    given: Callable[[], Iterable[str]] = tuple
    #: The registries of this server's jobs, each with or without a path; None: any.
    registries: tuple[str, ...] | None = None
    #: The OCI runtime of a launch that names none; None: the engine's default.
    oci_runtime: str | None = None
    #: Whether a container may mount the engine's socket, with which it controls the machine as root.
    engine_socket: bool = False
    #: The engine's data root; None: unknown.
    data_root: Path | None = None
    #: The path of the engine's socket; None: the engine is not reached by a unix socket.
    socket: Path | None = None
    #: The maximum number of processes and threads of a container: a quarter of Linux's lowest default of `pid_max`.
    pids: int = 8192


STRICT_POLICY = ServerPolicy(privileged=Privileged.REFUSE, volumes=())
