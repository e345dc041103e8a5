"""Which paths of the host a job may mount, and where they really are.

A path that is missing is made, as `docker run -v` makes it. What is mounted is the path with every symlink followed:
that is what was judged. Never mounted, nor anything that holds them or lies below: the engine's socket (it is root),
/proc, /sys, /dev, and batchq's own data.
"""

from collections.abc import Iterable
from pathlib import Path

from batchq.domain.allowances import ENGINES, KERNEL, LINKED
from batchq.domain.container import Device, Mount
from batchq.domain.people import Allowance
from batchq.errors import StartRefused
from compute.policy import Policy

NEVER = tuple(map(Path, (*ENGINES, LINKED, *KERNEL)))
MODE = 0o755


def resolve(mount: Mount, policy: Policy, allowance: Allowance | None) -> Mount:
    """The mount with its real path on the host, made if it was missing. Raises StartRefused. Looks at the disk."""
    if mount.host_path is None:
        return mount
    wanted = Path(mount.host_path)
    if not wanted.is_absolute():
        raise _refused(mount, "is not an absolute path")
    try:
        real = wanted.resolve()
        judge(mount.host_path, real, policy, allowance)
        _make(real)
        if real.resolve() != real:
            raise _refused(mount, "was changed while it was looked at")
    except (OSError, ValueError, RuntimeError) as error:
        raise _refused(mount, f"cannot be used: {error}") from error
    return Mount(container_path=mount.container_path, host_path=str(real), read_only=mount.read_only)


def judge(said: str, real: Path, policy: Policy, allowance: Allowance | None) -> None:
    """A path of the host that was said to be another, or the same. Raises StartRefused."""
    if not _is_below(real, policy.volumes):
        raise _forbidden(f"host path {said!r} is not below a path that this server lets jobs mount")
    if allowance is not None and not _is_below(real, map(Path, allowance.volumes)):
        raise _forbidden(f"host path {said!r} is not below a path that its account may mount")
    for path in (*NEVER, *policy.private):
        never = path.resolve()
        if real.is_relative_to(never) or never.is_relative_to(real):
            raise _forbidden(f"host path {said!r} is, holds or lies in {path}, which no job may mount")


def judge_device(device: Device, allowance: Allowance) -> None:
    """A device that is a link to another is that one. Raises StartRefused."""
    try:
        real = Path(device.host_path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise _forbidden(f"device {device.host_path!r} cannot be used: {error}") from error
    if not _is_below(real, map(Path, allowance.devices)):
        raise _forbidden(f"device {device.host_path!r} is not one that its account may use")


def _is_below(real: Path, allowed: Iterable[Path]) -> bool:
    return any(real.is_relative_to(it.resolve()) for it in allowed)


def _make(real: Path) -> None:
    """Each missing folder on the way, whatever the process's umask."""
    missing = [path for path in (real, *real.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(MODE)


def _refused(mount: Mount, why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: host path {mount.host_path!r} {why}"[:1024])


def _forbidden(why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: {why}"[:1024], forbidden=True)
