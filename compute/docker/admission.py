"""Checks a launch against the policies of server and account before its container starts.

An existing container that has not started is checked again, by the engine's inspection: its account, or the server,
may have permitted more when it was created. These are the rules that need the disk or the engine.

The target of a log driver is checked by the options that the engine has stored. Not covered: a name that resolves to
another address when the engine resolves it at the start, and a redirect in the target's reply to the splunk driver.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from socket import SOCK_STREAM, gaierror, getaddrinfo

from batchq.compute.docker import mounts
from batchq.compute.docker.errors import create_forbidden
from batchq.compute.docker.inspection import member
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access import container_policy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.access.container_policy import is_local_address, user_and_group
from batchq.domain.catalog import Network
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged

HOST_NETWORK = "host"  # the engine's network mode


def check_launch(
    launch: LaunchSpec, policy: ServerPolicy, network: Network, *, is_new: bool, inspect: Callable[[], object | None]
) -> None:
    """Check a container before its start. Raises StartRefused.

    `is_new`: the container was just created, under the present policy. `inspect` inspects it. `network` is the network
    mode of the launch.
    """
    check_image(launch, policy)
    allowances, spec = launch.allowances, launch.spec
    for device in spec.devices:
        mounts.check_device(device, allowances)
    has_log_driver = bool(allowances) and not spec.logging.captured
    was_created_before = not is_new and bool(allowances or spec.privileged or spec.devices or spec.mounts)
    inspected = inspect() if was_created_before or has_log_driver else None
    if inspected is None:
        return
    if was_created_before:
        _check_existing(inspected, policy, allowances)
    if has_log_driver:
        check_target(inspected, network)


def user_of(launch: LaunchSpec, image_user: Callable[[], str]) -> str | None:
    """The user of the container; None: the image's. Raises StartRefused.

    An account without the permission to run as root gets a numeric user and group above 0, also from the image.
    """
    user = launch.spec.user
    if permits_root(launch.allowances):
        return user
    effective_user = image_user() if user is None else user
    numbers = user_and_group(effective_user)
    if numbers is None:
        source = "its image" if user is None else "the container"
        raise create_forbidden(
            f"user {effective_user or 'root'!r} of {source} is not a number above 0 with such a group: set one"
        )
    return numbers


def permits_root(allowances: Iterable[ContainerPolicy]) -> bool:
    """Whether each policy permits root."""
    return all(policy.permits_root for policy in allowances)


def check_image(launch: LaunchSpec, policy: ServerPolicy) -> None:
    """Check that the server permits the registry of the image. Raises StartRefused."""
    image = launch.spec.image
    if policy.registries is not None and not container_policy.is_image_permitted(image, policy.registries):
        raise create_forbidden(
            f"registry {container_policy.registry_of(image)!r} of image {image!r} is not allowed by this server"
        )


def check_pull(launch: LaunchSpec) -> None:
    """Check that a missing image may be pulled from its registry. Raises StartRefused.

    A restricted account may not use a registry on an address of this machine, under any name, unless it was given that
    registry.
    """
    registry = container_policy.registry_of(launch.spec.image)
    if all(policy.registries is not None for policy in launch.allowances) or registry == container_policy.DOCKER_HUB:
        return
    if resolves_to_this_machine(registry.partition(":")[0]):
        raise create_forbidden(
            f"registry {registry!r} of the image is an address of this machine, which is not allowed"
        )


def check_network(mode: object, allowances: Iterable[ContainerPolicy]) -> None:
    """Check that the job may use the engine's network mode; None: the default network. Raises StartRefused."""
    if mode == HOST_NETWORK and not all(policy.host_network for policy in allowances):
        raise create_forbidden("the host network of its compute environment is not allowed for the accounts of the job")


def check_target(inspected: object, network: Network) -> None:
    """Check the log driver of a restricted account's container. Raises StartRefused.

    `inspected` is the engine's inspection, which has all options, also secret ones. `network` is that of the launch.
    """
    driver = member(inspected, "HostConfig", "LogConfig", "Type", of=str)
    stored = member(inspected, "HostConfig", "LogConfig", "Config", of=object)
    options = {str(name): str(value) for name, value in stored.items()} if isinstance(stored, dict) else {}
    for why in container_policy.log_option_refusals(driver, options):
        raise create_forbidden(f"{why}.")
    host = container_policy.log_target(driver, options)
    if host is None:
        return
    if network is Network.NONE:
        raise create_forbidden(f"Log driver {driver!r} is not allowed for jobs without a network.")
    if resolves_to_this_machine(host):
        raise create_forbidden(
            f"The target of log driver {driver!r} is an address of this machine, which is not allowed."
        )


def resolves_to_this_machine(host: str) -> bool:
    """Whether the name or address resolves to an address of this machine or of a metadata service."""
    return any(is_local_address(ip_address(address)) for address in _addresses(host))


def _addresses(host: str) -> set[str]:
    """The addresses of the name; empty if it cannot be resolved. The engine resolves it by itself later."""
    with suppress(gaierror, UnicodeError):
        found = getaddrinfo(host.strip("[]"), None, type=SOCK_STREAM)
        return {str(address[0]).partition("%")[0] for *_, address in found}
    return set()


def _check_existing(inspected: object, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> None:
    check_network(member(inspected, "HostConfig", "NetworkMode", of=object), allowances)
    # Podman reports mounts beside `HostConfig` only.
    mounted = member(inspected, "HostConfig", "Mounts", of=object) or member(inspected, "Mounts", of=object)
    for source in _sources(mounted):
        mounts.check_name(source, Path(source).resolve(), policy, allowances)
    user = member(inspected, "Config", "User", of=object)
    if not permits_root(allowances) and user_and_group(str(user)) != user:
        raise create_forbidden(f"it was created with user {user!r}, which may be root or in the group of root")
    opened = (member(inspected, "HostConfig", name, of=object) for name in ("Privileged", "Devices"))
    if any(opened) and policy.privileged is not Privileged.ALLOW:
        raise create_forbidden(
            "it was created privileged or with host devices, which this server does not allow any more"
        )


def _sources(mounted: object) -> Iterable[str]:
    """The host paths that are mounted by name. `mounted` are the mounts of an inspection; may be null."""
    listed = mounted if isinstance(mounted, list) else []
    return (member(item, "Source", of=str) for item in listed if member(item, "Type", of=str) == "bind")
