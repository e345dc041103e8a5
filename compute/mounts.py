"""Which paths of the host a job may mount, and where they really are.

A path that is missing is made, as `docker run -v` makes it. What is mounted is the path with every symlink followed:
that is what was judged. Never mounted, nor anything that holds them or lies below: the engine's socket (it is root),
/proc, /sys, /dev, and batchq's own data.
"""

from pathlib import Path

from batchq.domain.container import Mount
from batchq.errors import StartRefused
from compute.policy import Policy

ENGINES = tuple(map(Path, ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd", "/run/podman")))
KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev")))
MODE = 0o755


def resolve(mount: Mount, policy: Policy) -> Mount:
    """The mount with its real path on the host, made if it was missing. Raises StartRefused. Looks at the disk."""
    if mount.host_path is None:
        return mount
    wanted = Path(mount.host_path)
    if not wanted.is_absolute():
        raise _refused(mount, "is not an absolute path")
    try:
        real = wanted.resolve()
        _judge(mount, real, policy)
        _make(real)
        if real.resolve() != real:
            raise _refused(mount, "was changed while it was looked at")
    except (OSError, ValueError, RuntimeError) as error:
        raise _refused(mount, f"cannot be used: {error}") from error
    return Mount(container_path=mount.container_path, host_path=str(real), read_only=mount.read_only)


def _judge(mount: Mount, real: Path, policy: Policy) -> None:
    if not any(real.is_relative_to(allowed.resolve()) for allowed in policy.volumes):
        raise _refused(mount, "is not below a path that this server lets jobs mount")
    for path in (*ENGINES, *KERNEL, *policy.private):
        never = path.resolve()
        if real.is_relative_to(never) or never.is_relative_to(real):
            raise _refused(mount, f"is, holds or lies in {path}, which no job may mount")


def _make(real: Path) -> None:
    """Each missing folder on the way, whatever the process's umask."""
    missing = [path for path in (real, *real.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(MODE)


def _refused(mount: Mount, why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: host path {mount.host_path!r} {why}"[:1024])
