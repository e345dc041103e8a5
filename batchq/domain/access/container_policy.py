"""Checks of requested containers against an account's container policy. Pure. Decision 0026.

Paths are checked as written, with `..` resolved. Where links lead, and the user of an image, are checked at each start.
The server's own settings take precedence and are checked where containers are created.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Protocol

from batchq.domain.access import log_drivers, registries
from batchq.domain.access.accounts import AccountName, Caller, ContainerPolicy
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.task import Nodes, Task
from batchq.errors import Invalid

ENGINES = ("/run/docker.sock", "/run/containerd", "/run/podman")  # gives root on the host
KERNEL = ("/proc", "/sys", "/dev")
LINKED = "/var/run/docker.sock"  # a mount of /var is permitted: /var/run is nearly always a link to /run

REALTIME = "rtprio"  # a ulimit: real-time processes precede all others of the host, whatever their CPU shares
MAX_ID = 2**31 - 1  # the engine's largest user or group id
_ID = re.compile(r"0*([1-9][0-9]{0,9})", re.ASCII)


class Runnable(Protocol):
    """What a job, or a job definition, runs."""

    @property
    def container(self) -> ContainerSpec: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def nodes(self) -> Nodes | None: ...


def check(work: Runnable, caller: Caller) -> None:
    """Raises Invalid for a container that the caller's account may not run, or that no account may run."""
    why = refusal(work, caller.container_policy, caller.account)
    if why is not None:
        raise Invalid(why)


def refusal(work: Runnable, allowance: ContainerPolicy | None, account: AccountName) -> str | None:
    """Why the containers may not be started; None if they may. `allowance` None: only what is forbidden for all."""
    return next(_against(work, allowance, account), None)


def runs_as_root(user: str) -> bool:
    """Whether `user`, as `USER[:GROUP]`, may be root or in root's group."""
    return user_and_group(user) is None


def user_and_group(user: str) -> str | None:
    """`USER[:GROUP]` as `UID:GID`; without a group the GID is the UID. None if either may be root's.

    A name may be root's: only the image defines it, and users choose the image. Without a group the engine would take
    root's, and add those that the image lists for the user. The engine cuts a number above MAX_ID in the image's
    `passwd` or `group` to 32 bits, so 4294967296 is root; it takes a number above 64 bits for a name.
    """
    uid, _, group = user.partition(":")
    numbers = [_number(it) for it in (uid, group or uid)]
    return None if None in numbers else ":".join(map(str, numbers))


def below(path: str, allowed: Iterable[str]) -> bool:
    """Whether the path is one of `allowed` or below one."""
    return any(plain(path).is_relative_to(plain(it)) for it in allowed)


def plain(path: str) -> PurePosixPath:
    """The absolute path as written, with `..` resolved. Links are not followed."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts[1:]:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return PurePosixPath("/", *parts)


def _number(text: str) -> int | None:
    digits = _ID.fullmatch(text)
    number = int(digits[1]) if digits else None
    return None if number is None or number > MAX_ID else number


def _against(work: Runnable, allowance: ContainerPolicy | None, account: AccountName) -> Iterator[str]:
    for spec in containers_of(work):
        yield from _never(spec)
        if allowance is not None:
            yield from (f"{why} to account {account}." for why in _beyond(spec, allowance))
    if allowance is not None:
        yield from (f"{why} for a job of account {account}." for why in _too_large(work, allowance))


def _never(spec: ContainerSpec) -> Iterator[str]:
    for path in (it.host_path for it in spec.mounts if it.host_path is not None):
        for never in (*ENGINES, *KERNEL, LINKED):
            if below(path, [never]) or (never != LINKED and below(never, [path])):
                yield f"Host path {path!r} is, holds or lies in {never}, which no job may mount."


def _beyond(spec: ContainerSpec, allowance: ContainerPolicy) -> Iterator[str]:
    if spec.privileged and not allowance.privileged:
        yield "A privileged container is not allowed"
    for device in spec.devices:
        if not below(device.host_path, allowance.devices):
            yield f"Device {device.host_path!r} of the host is not allowed"
    for path in (it.host_path for it in spec.mounts if it.host_path is not None):
        if not below(path, allowance.volumes):
            yield f"Host path {path!r} is not allowed"
    if spec.user is not None and not allowance.permits_root and runs_as_root(spec.user):
        yield f"User {spec.user!r} of a container, whose user and group are not numbers above 0, is not allowed"
    if any(it.name == REALTIME and it.hard != 0 for it in spec.ulimits) and not allowance.privileged:
        yield f"Ulimit {REALTIME!r} is not allowed"
    yield from log_drivers.refusals(spec.logging, allowance.log_drivers)
    if not registries.is_permitted(spec.image, allowance.registries):
        yield f"Registry {registries.registry_of(spec.image)!r} of image {spec.image!r} is not allowed"


def _too_large(work: Runnable, allowance: ContainerPolicy) -> Iterator[str]:
    """Why the job as a whole requests too much. Swap counts as memory."""
    asked, swap = _resources(work), _swap(work)
    if allowance.vcpus is not None and asked.millicpus > allowance.vcpus * 1000:
        yield f"{asked.millicpus / 1000:g} vCPUs are more than the {allowance.vcpus:g} that are allowed"
    if allowance.memory_mib is not None and asked.memory_mib + swap > allowance.memory_mib:
        said = f"{asked.memory_mib} MiB of memory" + (f" and {swap} of swap" if swap else "")
        yield f"{said} are more than the {allowance.memory_mib} that are allowed"


def containers_of(work: Runnable) -> Iterator[ContainerSpec]:
    """The containers of a job, one for each kind of node."""
    if work.nodes is None and work.task is None:
        yield work.container
    tasks = [it.task for it in work.nodes.ranges] if work.nodes is not None else [work.task] if work.task else []
    for task in tasks:
        yield from (it.spec for it in task.containers)


def _resources(work: Runnable) -> Resources:
    if work.nodes is not None:
        return work.nodes.resources
    return work.container.resources if work.task is None else work.task.resources


def _swap(work: Runnable) -> int:
    """The swap of all containers of all nodes, in MiB."""
    if work.nodes is not None:
        return sum(_swap_of(work.nodes.task(node)) for node in range(work.nodes.count))
    return (work.container.max_swap_mib or 0) if work.task is None else _swap_of(work.task)


def _swap_of(task: Task) -> int:
    return sum(it.spec.max_swap_mib or 0 for it in task.containers)
