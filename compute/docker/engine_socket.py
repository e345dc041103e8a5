"""The mount of the engine's socket by a job, which is then root on the machine. Decision 0085."""

from collections.abc import Sequence
from pathlib import Path

from batchq.compute.docker.errors import create_forbidden
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.access.container_policy import is_engine_socket, plain_path

#: The data root of Docker where it is not configured.
USUAL_DATA_ROOT = Path("/var/lib/docker")


def names_socket(host_path: str, policy: ServerPolicy) -> bool:
    """Whether the path is that of the engine's socket, or a usual one, which clients mount wherever the socket is."""
    return is_engine_socket(host_path) or (policy.socket is not None and Path(plain_path(host_path)) == policy.socket)


def check_socket(host_path: str, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> Path:
    """The path of the engine's socket, if server and account permit its mount. Raises StartRefused."""
    if not policy.engine_socket:
        raise create_forbidden(
            f"host path {host_path!r} is the engine's socket, which no job may mount on this server (--engine-socket)"
        )
    if any(not allowance.engine_socket for allowance in allowances):
        raise create_forbidden(f"host path {host_path!r}, the engine's socket, is not permitted by the job's accounts")
    if policy.socket is None:
        raise create_forbidden(f"host path {host_path!r} does not exist: the engine is not reached by a unix socket")
    return policy.socket


def closed_data_roots(policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> tuple[Path, ...]:
    """The data roots of the engine, which hold the files of all containers; empty for a job that may have its socket.

    With the socket a job can mount any path of the machine. Toil mounts both.
    """
    if policy.engine_socket and all(allowance.engine_socket for allowance in allowances):
        return ()
    return (USUAL_DATA_ROOT,) if policy.data_root is None else (USUAL_DATA_ROOT, policy.data_root)
