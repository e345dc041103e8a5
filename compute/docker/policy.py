"""What the jobs of this server may ask of its machine."""

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from batchq.settings import MissingHostPaths, Privileged


class Policy(Struct, frozen=True, kw_only=True):
    """`volumes` are the host paths that may be mounted, with all below them, but for `private` ones: see `mounts`.

    `given` returns the host paths that accounts were given: their jobs can change what lies in them.

    `no_new_privileges` keeps setuid programs (sudo, su) from working in a container that is not privileged. `pids` is
    the most processes and threads of one container.
    """

    privileged: Privileged
    volumes: tuple[Path, ...]
    private: tuple[Path, ...] = ()
    missing_host_paths: MissingHostPaths = MissingHostPaths.CREATE
    given: Callable[[], Iterable[str]] = tuple
    no_new_privileges: bool = True
    #: The registries of this server's jobs, each with or without a path; None: any.
    registries: tuple[str, ...] | None = None
    pids: int = 8192  # a quarter of what a kernel allows in all where it allows least


STRICT = Policy(privileged=Privileged.REFUSE, volumes=())
