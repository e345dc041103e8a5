"""Lists, creates and removes the networks, containers and volumes that the containers of jobs share.

A bridge network gets a subnet from here if Docker's own address pools, which have only about thirty, are used up.

A pause container only holds the namespaces that other containers share: docs/decisions/0012. Its image is created here
from one program of some 200 bytes, so no registry is needed. The program does what `pause` does in Kubernetes: it waits
for ever, and lets the kernel reap orphaned processes where the containers of a node share a PID namespace, in which it
is process 1. In C:

    int main(void) {
        signal(SIGCHLD, SIG_IGN);
        for (;;) pause();
    }
"""

import hashlib
import logging
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from itertools import islice
from pathlib import Path
from threading import Lock

from docker.errors import APIError, ImageNotFound, NotFound
from docker.types import IPAMConfig, IPAMPool

from batchq.compute.docker import podman
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import tar_archive
from batchq.compute.docker.errors import (
    CONFLICT,
    agent_reason,
    create_refused,
    is_about_host,
    lower_layer_failed,
    message_of,
)
from batchq.compute.docker.inspection import labels_of, member, reply_rows, state_in
from batchq.errors import ContainerRuntimeError, NameTaken, RuntimeUnknown, StartRefused
from batchq.ports.runtime import ContainerState

SUBNET_RANGE = IPv4Network("10.224.0.0/11")  # 2,048 subnets in a range that is seldom used
SUBNET_PREFIX = 22  # AWS: a job has up to 1,000 nodes
MAX_SUBNET_ATTEMPTS = 16  # subnets that are tried for one network
ROUTES = Path("/proc/net/route")

log = logging.getLogger(__name__)

PAUSE_LABEL = "io.batchq.pause-image"
PROGRAM = "/pause"

ADDRESS = 0x400000  # the load address
PAGE = 0x10000  # bytes: the largest page size of arm64
HEADERS = 64 + 56  # bytes: the ELF header, and the program header of the one segment
X86_64, AARCH64 = 62, 183  # machine types of elf.h
IGNORE = struct.pack("<QQQQ", 1, 0, 0, 0)  # the kernel's struct sigaction: SIG_IGN, no flags, no restorer, no mask

CODE_AMD64 = bytes.fromhex(
    "b8 0d 00 00 00"  # mov eax, 13          rt_sigaction(
    "bf 11 00 00 00"  # mov edi, 17            SIGCHLD,
    "48 8d 35 17 00 00 00"  # lea rsi, [rip+23]  &IGNORE, which follows the code,
    "31 d2"  # xor edx, edx                    NULL,
    "41 ba 08 00 00 00"  # mov r10d, 8         sizeof(sigset_t))
    "0f 05"  # syscall
    "b8 22 00 00 00"  # wait: mov eax, 34    pause()
    "0f 05"  # syscall
    "eb f7"  # jmp wait
    "00 00 00 00"  # to a multiple of 8
)
CODE_ARM64 = struct.pack(
    "<14I",
    0xD28010C8,  # mov x8, #134              rt_sigaction(
    0xD2800220,  # mov x0, #17                 SIGCHLD,
    0x10000181,  # adr x1, #48                 &IGNORE, which follows the code,
    0xD2800002,  # mov x2, #0                  NULL,
    0xD2800103,  # mov x3, #8                  sizeof(sigset_t))
    0xD4000001,  # svc #0
    0xD2800928,  # wait: mov x8, #73         ppoll(
    0xD2800000,  # mov x0, #0                  NULL,
    0xD2800001,  # mov x1, #0                  0,
    0xD2800002,  # mov x2, #0                  NULL: no timeout,
    0xD2800003,  # mov x3, #0                  NULL)
    0xD4000001,  # svc #0                    arm64 has no pause
    0x17FFFFFA,  # b wait
    0xD503201F,  # nop                       to a multiple of 8
)
PROGRAMS: Mapping[str, tuple[int, bytes]] = {
    "amd64": (X86_64, CODE_AMD64),
    "x86_64": (X86_64, CODE_AMD64),
    "arm64": (AARCH64, CODE_ARM64),
    "aarch64": (AARCH64, CODE_ARM64),
}


class ContainerInUse(RuntimeUnknown):
    """A container was not removed because other containers use its namespaces. Only Podman refuses that."""


class NoSubnet(RuntimeUnknown):
    """All subnets are in use; one becomes free when a network is removed."""


def ensure_network(client: Client, name: str, labels: Mapping[str, str], *, internal: bool = False) -> str:
    """Return the id of the network with these labels, which is created if it does not exist. Raises NoSubnet.

    An `internal` network has no route to the outside.
    """
    existing = list_networks(client, labels)
    if existing:
        return _oldest(existing)
    try:
        return _create_in_free_subnet(client, name, labels, internal=internal)
    except APIError as error:
        if error.status_code != CONFLICT and not podman.network_exists(message_of(error)):
            raise
        return _oldest(list_networks(client, labels))  # created by an earlier request whose reply was lost


def list_networks(client: Client, labels: Mapping[str, str]) -> list[object]:
    """The networks with all of these labels. Filtered again here: some engines take an empty value for any value."""
    rows = reply_rows(client.networks(filters=_having(labels)), "networks")
    return [row for row in rows if labels.items() <= labels_of(row, "Labels").items()]


def list_containers(client: Client, labels: Mapping[str, str], *, limit: int = -1) -> list[object]:
    """The containers with all of these labels, in any state: at most `limit`, -1: all."""
    return reply_rows(client.containers(all=True, limit=limit, filters=_having(labels)), "containers")


def list_volumes(client: Client, labels: Mapping[str, str]) -> list[object]:
    """The volumes with all of these labels."""
    volumes = member(client.volumes(filters=_having(labels)), "Volumes", of=object)
    return volumes if isinstance(volumes, list) else []


def ensure_volume(client: Client, name: str, labels: Mapping[str, str]) -> None:
    """Create the volume unless it exists. Podman ignores labels in a mount of the create request of a container."""
    client.create_volume(name, labels=dict(labels))


def remove_container(client: Client, row: object) -> None:
    """Remove a container of a list or an inspection, running or not, and its anonymous volumes.

    Raises ContainerInUse on Podman if other containers use its namespaces.
    """
    with _ignore_missing():
        try:
            client.remove_container(member(row, "Id", of=str), v=True, force=True)
        except APIError as error:
            if podman.has_dependents(message_of(error)):
                raise ContainerInUse(message_of(error)) from error
            raise


def remove_volume(client: Client, row: object) -> None:
    """Remove a volume of a list."""
    with _ignore_missing():
        client.remove_volume(member(row, "Name", of=str))


def remove_networks(client: Client, labels: Mapping[str, str]) -> None:
    """Remove the networks with all of these labels."""
    for network in list_networks(client, labels):
        with _ignore_missing():
            client.remove_network(member(network, "Id", of=str))


def creation_error(error: APIError) -> ContainerRuntimeError:
    """The meaning of an error reply to the creation of a shared object; never final, as it may succeed later."""
    if lower_layer_failed(error):
        return RuntimeUnknown(f"create: {message_of(error)}")
    return StartRefused(
        agent_reason("ResourceInitializationError", error), certain=False, host_failed=is_about_host(message_of(error))
    )


def free_subnets(used_subnets: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """The subnets of `SUBNET_RANGE` that do not overlap with any of `used_subnets`."""
    used = list(used_subnets)
    return (
        network
        for network in SUBNET_RANGE.subnets(new_prefix=SUBNET_PREFIX)
        if not any(network.overlaps(other) for other in used)
    )


def routed_networks(table: str) -> Iterator[IPv4Network]:
    """The networks of this machine's routes, except the default route. `table` is the text of /proc/net/route."""
    for line in table.splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        if int(mask, 16):
            parts = (IPv4Address(int(text, 16).to_bytes(4, sys.byteorder)) for text in (destination, mask))
            yield IPv4Network("/".join(map(str, parts)), strict=False)


def find_pause_container(client: Client, name: str, labels: Mapping[str, str]) -> object | None:
    """Inspect the pause container with this name; None: it does not exist. Raises NameTaken if its labels differ."""
    try:
        inspected: object = client.inspect_container(name)
    except NotFound:
        return None
    if not labels.items() <= labels_of(inspected, "Config", "Labels").items():
        raise NameTaken(f"The name {name} is used by a container that does not belong to this server.")
    return inspected


def is_running(inspected: object) -> bool:
    """Whether the inspected container runs."""
    return state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING


def create_pause_container(client: Client, request: Mapping[str, object], name: str) -> str:
    """Create a pause container, and its image if that is missing; return the container's id. Raises StartRefused.

    `request` is the body of the create request.
    """
    try:
        return _create_container(client, request, name)
    except ImageNotFound:
        with _IMAGE_LOCK:
            import_image(client)
    try:
        return _create_container(client, request, name)
    except ImageNotFound as error:
        log.warning("image %s: not found by the engine after its import: %s", PAUSE_IMAGE, message_of(error))
        raise create_refused(f"the engine imported image {PAUSE_IMAGE} under another name", certain=False) from error


def import_image(client: Client) -> None:
    """Import the image, which has some 200 bytes and stays in the engine. Idempotent. Raises StartRefused."""
    architecture = member(client.version(), "Arch", of=str)
    if architecture not in PROGRAMS:
        why = f"no pause container for architecture {architecture[:100]}"
        raise create_refused(f"containers cannot share a node: {why}")
    changes = [f'ENTRYPOINT ["{PROGRAM}"]', f"LABEL {PAUSE_LABEL}=1"]
    layer = tar_archive({PROGRAM: elf(*PROGRAMS[architecture])}, mode=0o755)
    try:
        client.import_image_from_data(layer, PAUSE_IMAGE, None, changes)  # Podman 4 ignores a tag beside the name
    except APIError as error:
        raise StartRefused(agent_reason("CannotCreateContainerError", error), certain=False) from error


def pause_container_request(
    *, network: str, labels: Mapping[str, str], node: str | None = None, names: Sequence[str] = ()
) -> Mapping[str, object]:
    """The body of the create request.

    `node` is the name by which other nodes find it. `names` are those of the node's containers, which find each other
    at localhost.
    """
    return {
        "Image": PAUSE_IMAGE,
        "Labels": dict(labels),
        "StopTimeout": 0,  # seconds that Podman waits for a container whose removal is requested while it runs
        "NetworkingConfig": {"EndpointsConfig": {network: {"Aliases": [] if node is None else [node]}}},
        "HostConfig": {
            "NetworkMode": network,
            "IpcMode": "shareable",
            "ExtraHosts": [f"{name}:127.0.0.1" for name in names],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "LogConfig": {"Type": "none"},
            # If the engine restarts, the containers that joined it have ended as well; it is removed or replaced.
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        },
    }


def elf(machine: int, code: bytes) -> bytes:
    """A static ELF program: the two headers, then the code and its data in one segment."""
    size = HEADERS + len(code) + len(IGNORE)
    magic = b"\x7fELF" + bytes((2, 1, 1)).ljust(12, b"\0")  # 64 bits, little-endian, version 1
    head = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, machine, 1, ADDRESS + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ADDRESS, ADDRESS, size, size, PAGE)  # load it, to read and run
    return head + segment + code + IGNORE


# With a digest of the content: another version of batchq has an image of its own.
PAUSE_IMAGE = (
    f"batchq-pause:{hashlib.sha256(b''.join(elf(*PROGRAMS[program]) for program in sorted(PROGRAMS))).hexdigest()[:12]}"
)
_IMAGE_LOCK = Lock()  # of two images created at the same time one would lose its name


def _create_container(client: Client, request: Mapping[str, object], name: str) -> str:
    response: object = client.create_container_from_config(request, name=name)  # type: ignore[no-untyped-call]  # the stubs
    return member(response, "Id", of=str)


def _oldest(networks: list[object]) -> str:
    """The id of the oldest network, so that all callers choose the same one if there are several."""
    if not networks:
        raise RuntimeUnknown("the network of the attempt does not exist")
    return member(min(networks, key=lambda network: member(network, "Created", of=str)), "Id", of=str)


def _create_in_free_subnet(client: Client, name: str, labels: Mapping[str, str], *, internal: bool) -> str:
    """Create a network in the engine's address pools, or else in a free subnet of `SUBNET_RANGE`. Raises NoSubnet."""
    try:
        return _create_network(client, name, labels, None, internal=internal)
    except APIError as error:
        if "pool" not in message_of(error):
            raise
        pool_error = error
    for subnet in islice(free_subnets(_used_subnets(client)), MAX_SUBNET_ATTEMPTS):
        try:
            return _create_network(client, name, labels, subnet, internal=internal)
        except APIError as error:
            if "overlap" not in message_of(error):
                raise
    raise NoSubnet(f"no subnet is free for another network: {message_of(pool_error)}") from pool_error


def _create_network(
    client: Client, name: str, labels: Mapping[str, str], subnet: IPv4Network | None, *, internal: bool
) -> str:
    ipam = None if subnet is None else IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
    response: object = client.create_network(
        name, driver="bridge", labels=dict(labels), ipam=ipam, internal=internal, check_duplicate=True
    )
    return member(response, "Id", of=str)


def _used_subnets(client: Client) -> Iterator[IPv4Network]:
    """The subnets of this machine's routes and of the engine's networks."""
    with suppress(OSError, ValueError):
        yield from routed_networks(ROUTES.read_text())
    for network in list_networks(client, {}):
        pools = member(network, "IPAM", "Config", of=object)
        for pool in pools if isinstance(pools, list) else ():
            with suppress(ValueError):  # an IPv6 subnet
                yield IPv4Network(member(pool, "Subnet", of=str))


def _having(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The filters of a list request for objects with these labels."""
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Suppress the error of a removal if the object does not exist, or is being removed by another client.

    If the other removal fails, the next sweep finds the object.
    """
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != CONFLICT or "in progress" not in message_of(error):
            raise
