"""What pods may not have: what Kubernetes lacks, and what the server or the accounts of a job do not permit. Pure."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from batchq.compute.kubernetes.pod_names import HELD_IMAGE
from batchq.domain.access import container_policy
from batchq.domain.access.container_policy import user_and_group
from batchq.domain.catalog import Network
from batchq.domain.container import ContainerSpec
from batchq.domain.job import JobSpec
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import MissingHostPaths, Privileged

MAX_REASON = 1024  # characters of an attempt's reason
NO_CHECKPOINTS = "a checkpoint directory without `serve --kubernetes-checkpoints`"


class PodPolicy(Struct, frozen=True, kw_only=True):
    """What the pods of this server may use of the nodes, whatever their accounts permit."""

    privileged: Privileged = Privileged.REFUSE
    #: Host paths that a pod may mount, with all paths below them.
    volumes: tuple[Path, ...] = ()
    #: Host paths that are never mounted, with all that contains them or lies below them.
    private: tuple[Path, ...] = ()
    missing_host_paths: MissingHostPaths = MissingHostPaths.CREATE
    #: The registries of this server's jobs, each with or without a path; None: any.
    registries: tuple[str, ...] | None = None
    #: The default network of launches.
    network: Network = Network.SHARED
    #: The volume with the checkpoint directories of all jobs: `CLAIM`, `CLAIM/FOLDER`, or a path of the nodes.
    #: None: jobs have no checkpoint directories.
    checkpoints: str | None = None
    #: Seconds between SIGTERM and SIGKILL when Kubernetes itself stops a pod, as for the drain of a node.
    drain_grace: int = 1
    #: The compute environments whose pods no drain of a node may evict.
    refuses_drains: tuple[str, ...] = ()


def check_available(launch: LaunchSpec, policy: PodPolicy) -> None:
    """Raises StartRefused, certain, for a launch with what Kubernetes does not have."""
    why = next(_unavailable(launch, policy), None)
    if why is not None:
        raise StartRefused(f"CannotCreateContainerError: {why} is not available on Kubernetes"[:MAX_REASON])


def unavailable_on_kubernetes(spec: JobSpec, *, policy: PodPolicy) -> str | None:
    """Why Kubernetes can never run a job; None: nothing prevents it. The network of its environment is not checked."""
    containers = (container.spec for task in spec.nodes.tasks for container in task.containers)
    missing = (what for container in containers for what in unavailable_members(container))
    needs_volume = spec.checkpoints is not None and policy.checkpoints is None
    what = next(missing, NO_CHECKPOINTS if needs_volume else None)
    return None if what is None else f"{what} is not available on Kubernetes"


def specs_of(launch: LaunchSpec) -> Iterator[ContainerSpec]:
    """The containers of the pod."""
    yield launch.spec
    yield from (container.spec for container in launch.beside)


def _unavailable(launch: LaunchSpec, policy: PodPolicy) -> Iterator[str]:
    for spec in specs_of(launch):
        yield from unavailable_members(spec)
    if launch.checkpoint_directory is not None and policy.checkpoints is None:
        yield NO_CHECKPOINTS
    if not launch.tag.container_key and (launch.network or policy.network) is Network.NONE:
        yield "a container without a network"


def unavailable_members(spec: ContainerSpec) -> Iterator[str]:
    """What the container has and Kubernetes does not have."""
    if spec.image == HELD_IMAGE:
        yield f"the image {HELD_IMAGE}, by which batchq holds containers"
    if spec.user is not None and not _is_numeric(spec.user):
        yield f"the user name {spec.user!r} in place of numbers"
    refused = {
        "ulimits": spec.ulimits,
        "linuxParameters.devices": spec.devices,
        "linuxParameters.maxSwap": spec.max_swap_mib is not None,
        "linuxParameters.swappiness": spec.swappiness is not None,
        "a failure file": spec.failure_file is not None,
        "a folder that every user can write": spec.folders,
    }
    yield from (what for what, is_requested in refused.items() if is_requested)
    yield from (f"option {tmpfs.options[0]!r} of a tmpfs" for tmpfs in spec.tmpfs if tmpfs.options)
    if not spec.logging.captured:
        yield f"log driver {spec.logging.driver!r}"


def check_permitted(launch: LaunchSpec, policy: PodPolicy) -> None:
    """Raises StartRefused for what the server or the account does not permit.

    The rules of the account that need neither a node nor an image are checked before each create.
    """
    if uses_host_network(launch, policy) and not all(allowance.host_network for allowance in launch.allowances):
        raise _forbidden("the host network of its compute environment is not allowed for the accounts of the job")
    for spec in specs_of(launch):
        _check_container(spec, launch, policy)


def _check_container(spec: ContainerSpec, launch: LaunchSpec, policy: PodPolicy) -> None:
    if policy.registries is not None and not container_policy.is_image_permitted(spec.image, policy.registries):
        registry = container_policy.registry_of(spec.image)
        raise _forbidden(f"registry {registry!r} of image {spec.image!r} is not allowed by this server")
    if spec.privileged and policy.privileged is Privileged.REFUSE:
        raise _forbidden("privileged is refused by this server")
    if not may_run_as_root(launch) and user_and_group(spec.user or "") is None:
        raise _forbidden("the accounts of the job may not run containers as root: set a user with a number above 0")
    for path in (mount.host_path for mount in spec.mounts if mount.host_path is not None):
        if launch.allowances:
            # A link on a node could lead anywhere, and the server does not see the node's files.
            raise _forbidden(f"host path {path!r} of a node is not allowed for a restricted account")
        if not container_policy.below(path, map(str, policy.volumes)) or _is_private(path, policy.private):
            raise _forbidden(f"host path {path!r} is not allowed by this server")


def may_run_as_root(launch: LaunchSpec) -> bool:
    """Whether all accounts of the job permit containers as root."""
    return all(allowance.permits_root for allowance in launch.allowances)


def uses_host_network(launch: LaunchSpec, policy: PodPolicy) -> bool:
    """Whether the pod is on the network of its node. The pods of an attempt of several containers never are."""
    return not launch.tag.container_key and (launch.network or policy.network) is Network.HOST


def _is_private(path: str, private: Iterable[Path]) -> bool:
    plain = container_policy.plain_path(path)
    return any(
        plain.is_relative_to(str(private_path)) or PurePosixPath(private_path).is_relative_to(plain)
        for private_path in private
    )


def _forbidden(why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: {why}"[:MAX_REASON], forbidden=True)


def _is_numeric(user: str) -> bool:
    uid, colon, gid = user.partition(":")
    return all(text.isascii() and text.isdecimal() for text in ([uid, gid] if colon else [uid]))
